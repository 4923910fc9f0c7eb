"""Warm pages: how much must stay of what was read."""

from pathlib import Path

import pytest

from pgassay.environment.linux import pagecache
from pgassay.errors import InvalidTrialError
from pgassay.trial.caches.relations import Relation
from pgassay.trial.caches.states import make_pages_warm

SIZE = 1_000_000


def relation(folder: Path) -> Relation:
    file = folder / "16384"
    file.write_bytes(b"x" * SIZE)
    return Relation(schema="public", name="t", kind="r", files=(file,))


@pytest.mark.parametrize(("stayed", "valid"), [(1.0, True), (0.991, True), (0.98, False)])
def test_a_few_pages_that_the_kernel_evicts_at_once_spoil_nothing(
    stayed: float, valid: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagecache, "resident_bytes", lambda _: int(stayed * SIZE))
    if valid:
        assert make_pages_warm([relation(tmp_path)]) == stayed
    else:
        with pytest.raises(InvalidTrialError, match=r"only 98\.0% of the relations stayed"):
            make_pages_warm([relation(tmp_path)])


def test_pages_that_went_while_they_were_read_are_read_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody emptied the machine's caches in the middle of it."""
    answers = iter([int(0.4 * SIZE), SIZE])
    monkeypatch.setattr(pagecache, "resident_bytes", lambda _: next(answers))
    assert make_pages_warm([relation(tmp_path)]) == 1.0


def test_what_was_evicted_is_read_again(tmp_path: Path) -> None:
    each = relation(tmp_path)
    pagecache.evict(list(each.files))
    if not pagecache.can_verify():
        pytest.skip("this system does not show what is in its page cache")
    assert make_pages_warm([each]) >= 0.99
