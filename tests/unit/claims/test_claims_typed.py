"""What is wrong in a file of claims is one sentence with the file, the claim and what to write instead."""

from pathlib import Path

import pytest

from pgassay.analysis.claims.arm_claims import more_blocks
from pgassay.errors import UsageError
from pgassay.experiment.claims.claim_files import read_claims

CLAIM = """workload = "full-scan"

[factors]
work_mem = ["4MB", "8MB"]

[[claim]]
id = "a"
text = "More memory is faster"
source = { title = "A page" }
arm = "work_mem=8MB"
against = "work_mem=4MB"
says = "faster"
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"faster"', '"quicker"', "claim 'a': says = \"quicker\": write one of faster, slower"),
        ('says = "faster"\n', "", "claim 'a': says is missing: add it (one of faster"),
        ('id = "a"\n', "", "claim 1: id is missing"),
        ('id = "a"', 'id = " "', "id is empty: write a short name"),
        ('"More memory is faster"', '""', "claim 'a': text is empty"),
        ('{ title = "A page" }', '"A page"', 'source = "A page": write { title ='),
        ('{ title = "A page" }', '{ titel = "A page" }', "source.title is missing: add it"),
        ('"A page" }', '"A page", date = "2026" }', 'source.date = "2026": write "YYYY-MM"'),
        ('says = "faster"', 'says = "faster"\npubished = 2', "there is no key 'pubished': the keys are id, "),
        ('says = "faster"', 'says = "faster"\nneeds = { cpus = 2 }', "there is no key 'cpus' in needs"),
        (
            'says = "faster"',
            'says = "faster"\nneeds = { cores = "4" }',
            'needs.cores = "4": write a whole number',
        ),
        ('says = "faster"', 'says = "faster"\npublished = "2x"', 'published = "2x": write a number'),
        ('says = "faster"', 'says = "faster"\npublished = inf', "published = inf with says"),
        ('says = "faster"', 'says = "faster"\npublished = 2\nband = [1]', "band = [1]: write two numbers"),
        ('says = "faster"', 'says = "faster"\npublished = 2\nband = [-1, 3]', "two numbers above 0 with 2"),
        (
            'arm = "work_mem=8MB"\nagainst = "work_mem=4MB"\nsays = "faster"',
            'order = ["work_mem=8MB", ""]\nsays = "ordered"',
            "order has an empty name",
        ),
        ("[[claim]]", "[[claims]]", "has no claim: write [[claim]] instead of [[claims]]"),
        ("[[claim]]", "[claim]", "has no claim: write [[claim]] instead of [claim]"),
    ],
)
def test_a_mistake_is_named_with_what_to_write(tmp_path: Path, old: str, new: str, told: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(CLAIM)
    assert len(read_claims(file)) == 1
    file.write_text(CLAIM.replace(old, new))
    with pytest.raises(UsageError) as error:
        read_claims(file)
    said = str(error.value)
    assert said.startswith(str(file)) and told in said and "\n" not in said


@pytest.mark.parametrize(
    ("ratio", "interval", "is_equal", "told"),
    [
        # An interval is half as wide after four times the blocks.
        (1.1, (1.1 / 1.2, 1.1 * 1.2), False, "about 27 more blocks"),
        (1.0, (1 / 1.1, 1.1), False, "about 29 more blocks"),
        # Beyond the margin of 5 % by a factor of 1.0476.
        (1.1, (1.01, 1.2), True, "about 25 more blocks"),
        (1.05, (1.01, 1.09), True, "more than 1000 more blocks"),
        (1.1, (0.0, float("inf")), False, "can't be said yet"),
        (None, None, False, "can't be said yet"),
    ],
)
def test_how_many_more_blocks_a_verdict_takes(
    ratio: float | None, interval: tuple[float, float] | None, is_equal: bool, told: str
) -> None:
    assert told in more_blocks(ratio, interval, 10, 0.05, is_equal=is_equal)
