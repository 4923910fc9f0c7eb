"""What perf script writes, read: frames, the kernel's part, lost samples, and whatever else may come."""

from hypothesis import given
from hypothesis import strategies as st

from pgassay.trial.profile.script_text import FRAMES_MAX, ScriptReader, fold

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


def test_a_sample_without_frames_is_counted_and_deep_ones_are_cut() -> None:
    deep = "".join(f"\t{number:x} f{number} (/bin/x)\n" for number in range(1, FRAMES_MAX + 50))
    samples = [*ScriptReader(f"1 2.5:\n\n2 3.5:\n{deep}".splitlines())]
    assert [len(sample.frames) for sample in samples] == [0, FRAMES_MAX]
    assert fold(samples[:1], callers=True, keep=lambda _: True) == {"[unknown]": 1}


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
