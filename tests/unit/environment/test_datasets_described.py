"""The data of an arm in a few words: in titles, and in the key of the machine's history."""

import pytest

from pgassay.environment.datasets import describe
from pgassay.model.arm import DatasetSpec


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (DatasetSpec(scale=10), "scale 10"),
        (DatasetSpec(kind="dump", source="/data/shop.dump"), "dump:shop.dump"),
        (DatasetSpec(kind="remote"), "remote:"),
    ],
)
def test_data_are_described_by_their_kind(dataset: DatasetSpec, words: str) -> None:
    assert describe(dataset) == words
