"""Randomised complete blocks: each block's order depends on (seed, block) alone."""

import random
from collections.abc import Sequence


def block_order(seed: int, block: int, arm_ids: Sequence[str]) -> list[str]:
    """The order of the arms in block `block` (from 0), each arm once.

    The identifiers are sorted first, so the order is a function of the set of arms, the seed and the
    block, on any machine and Python version (random.Random with a string seed is stable).
    """
    order = sorted(arm_ids)
    random.Random(f"pgassay block {seed} {block}").shuffle(order)
    return order


def trial_number(block: int, position: int, arms: int) -> int:
    """The number, from 0, of the trial at `position` in `block`."""
    return block * arms + position
