"""What perf script writes, read: frames, the kernel's part, lost samples, and whatever else may come."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pgassay.trial.profile.script_text import FRAMES_MAX, Sample, ScriptReader, fold, fold_waits

SAMPLES = """\
 4711 32465.833086:
\tffffffff815dc885 lock_vma_under_rcu ([kernel.kallsyms])
\tffffffff81000c82 asm_exc_page_fault ([kernel.kallsyms])
\t          41f2a3 hash_search_with_hash_value (/usr/lib/postgresql/18/bin/postgres)
\t          51f2a3 PostgresMain (/usr/lib/postgresql/18/bin/postgres (deleted))

4711/4711 LOST 17 events (0 samples)
4712 32465.9:
\t           e2bc [unknown] (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t           1de3 pg_qsort.constprop.0 (/usr/bin/postgres)
\t    7f581805b620 [unknown] ([unknown])

"""


def test_samples_have_their_process_clock_and_frames() -> None:
    reader = ScriptReader(SAMPLES.splitlines(keepends=True))
    first, second = reader
    assert (first.pid, first.clock_ns) == (4711, 32465_833086000)
    assert first.frames == (
        "lock_vma_under_rcu",
        "asm_exc_page_fault",
        "hash_search_with_hash_value",
        "PostgresMain",
    )
    assert first.is_kernel == (True, True, False, False)
    # A function without a name is its file's, and a form that the compiler made is the function's.
    assert second.frames == ("[libc.so.6]", "pg_qsort", "[unknown]")
    assert second.clock_ns == 32465_900000000
    assert reader.lost == 17


def test_stacks_are_folded_from_the_outside_and_counted() -> None:
    samples = [*ScriptReader(SAMPLES.splitlines() * 3)]
    folded = fold(samples, callers=True, keep=lambda sample: sample.pid == 4711)
    stack = "PostgresMain;hash_search_with_hash_value;asm_exc_page_fault_[k];lock_vma_under_rcu_[k]"
    assert folded == {stack: 3}
    leaves = fold(samples, callers=False, keep=lambda _: True)
    assert leaves == {
        "hash_search_with_hash_value;asm_exc_page_fault_[k];lock_vma_under_rcu_[k]": 3,
        "[libc.so.6]": 3,
    }


def test_names_of_other_languages_stay_whole_and_modules_are_the_kernel_s() -> None:
    lines = """\
1 2.5:
\tffffffffc0a3dc18 ext4_sync_file ([ext4])
\tffffffffc0a3dc19 [unknown] ([xfs])
\tffffffffc0a3dc20 bpf_prog_6deef735 (bpf_prog_6deef735)
\tffffffff815dc885 iov_iter ([kernel.kallsyms]_stext)
\t    7ffd1b3e0a00 clock_gettime ([vdso])
\t          41f2a3 std::function<void (int)>::operator() (/usr/lib/libLLVM.so.14)
\t          41f2a4 std::function<bool (int)>::operator() (inlined)
\t          41f2a5 icu_72::Collator::compare(char const*) const (/opt/my (own) lib/libicu.so (deleted))
\t          41f2a6 (anonymous namespace)::"<&>" (/usr/bin/postgres)
"""
    (sample,) = ScriptReader(lines.splitlines())
    assert sample.frames == (
        *("ext4_sync_file", "[kernel]", "bpf_prog_6deef735", "iov_iter", "clock_gettime"),
        *("std::function<void:(int)>::operator()", "std::function<bool:(int)>::operator()"),
        *("icu_72::Collator::compare(char:const*):const", '(anonymous:namespace)::"<&>"'),
    )
    assert sample.is_kernel == (True,) * 4 + (False,) * 5
    folded = fold([sample], callers=False, keep=lambda _: True)
    assert [*folded] == ["clock_gettime;iov_iter_[k];bpf_prog_6deef735_[k];[kernel]_[k];ext4_sync_file_[k]"]


def test_a_sample_without_frames_is_counted_and_deep_ones_are_cut() -> None:
    deep = "".join(f"\t{number:x} f{number} (/bin/x)\n" for number in range(1, FRAMES_MAX + 50))
    samples = [*ScriptReader(f"1 2.5:\n\n2 3.5:\n{deep}".splitlines())]
    assert [len(sample.frames) for sample in samples] == [0, FRAMES_MAX]
    assert fold(samples[:1], callers=True, keep=lambda _: True) == {"[unknown]": 1}


# 4711 waits 90 ms where it was sampled, then where it was not; 4712 is made to leave; 4713 never comes back.
SWITCHES = """\
4711  10.000000: context-switches/period=13/:
\tffffffff82265df3 schedule ([kernel.kallsyms])
\t          41f2a3 XLogFlush (/usr/bin/postgres)
\t          51f2a3 PostgresMain (/usr/bin/postgres)

4711  10.010000: PERF_RECORD_SWITCH OUT
4712  10.020000: PERF_RECORD_SWITCH IN
4712  10.030000:        cpu-clock/freq=997/:
\t          51f2a3 PostgresMain (/usr/bin/postgres)

4712  10.040000: context-switches/period=13/:
\t          51f2a3 PostgresMain (/usr/bin/postgres)

4712  10.040001: PERF_RECORD_SWITCH OUT preempt
4711  10.100000: PERF_RECORD_SWITCH IN
4712  10.100001: PERF_RECORD_SWITCH IN
4711  10.200000: PERF_RECORD_SWITCH OUT
4711  10.300000: PERF_RECORD_SWITCH IN
4713  10.400000: context-switches/period=13/:
\t          51f2a3 PostgresMain (/usr/bin/postgres)

4713  10.400001: PERF_RECORD_SWITCH OUT
"""


def test_a_wait_lasts_from_where_a_process_left_until_it_is_back() -> None:
    samples = [*ScriptReader(SWITCHES.splitlines(keepends=True))]
    frames = ("schedule", "XLogFlush", "PostgresMain")
    assert samples == [
        Sample(4712, 10_030_000_000, ("PostgresMain",), (False,)),
        Sample(4711, 10_010_000_000, frames, (True, False, False), waited_ns=90_000_000),
    ]


def test_of_a_wait_counts_what_lies_in_the_measured_part() -> None:
    def folded(first_s: float, last_s: float) -> tuple[int, Counter[str]]:
        waits: Counter[str] = Counter()
        first_ns, last_ns = round(first_s * 1e9), round(last_s * 1e9)
        reader = ScriptReader(SWITCHES.splitlines())
        ran = fold_waits(reader, first_ns=first_ns, last_ns=last_ns, period=13, waits=waits)
        return len([*ran]), waits

    stack = "PostgresMain;XLogFlush;schedule_[k]"
    assert folded(10, 11) == (1, {stack: 13 * 90_000})
    assert folded(10.05, 11) == (1, {stack: 13 * 50_000})
    assert folded(10, 10.05) == (1, {stack: 13 * 40_000})
    assert folded(10.1, 11) == (1, {})


NAMES = st.text(
    st.characters(
        blacklist_categories=("Cs",), blacklist_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    ),
    max_size=30,
)


@given(st.lists(st.one_of(st.text(max_size=60), NAMES.map(lambda name: f"\t  4f {name} (/bin/{name})"))))
def test_nothing_that_may_come_is_an_error(lines: list[str]) -> None:
    for sample in ScriptReader(["7 1.000001:", *lines]):
        assert len(sample.frames) == len(sample.is_kernel) <= FRAMES_MAX
        for stack in fold([sample], callers=True, keep=lambda _: True):
            # One line of the file, whose last word is the count.
            assert stack == " ".join(stack.split())
            assert stack.count(";") == max(0, len(sample.frames) - 1)


@given(
    st.lists(st.tuples(st.integers(1, 99999), st.lists(st.sampled_from("abcde"), max_size=6)), max_size=30)
)
def test_what_is_written_is_read_again(samples: list[tuple[int, list[str]]]) -> None:
    text = "".join(
        f"{pid} 12.000000001:\n" + "".join(f"\t1f {name} (/bin/x)\n" for name in frames) + "\n"
        for pid, frames in samples
    )
    read = [(sample.pid, list(sample.frames)) for sample in ScriptReader(text.splitlines(keepends=True))]
    assert read == samples
