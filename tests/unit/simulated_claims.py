"""A run of claims with a clock that is counted, by the order and the rule that real runs have.

It is of the scheduling alone: how long blocks take, and how many each claim takes, is given.
"""

import random
from dataclasses import dataclass

from pgassay.experiment.claims.run_order import Outlook, Waiting, goes_on, next_of


@dataclass
class Simulated:
    """An experiment whose claims take so many blocks in truth.

    error: of its outlooks before the first block, in powers of two; they err less as blocks go on.
    """

    name: str
    truth: list[int]
    block_s: float
    setup_s: float
    error: float = 1.0
    blocks: int = 0

    @property
    def decided(self) -> int:
        return sum(blocks <= self.blocks for blocks in self.truth)

    def outlooks(self, chance: random.Random) -> tuple[Outlook, ...]:
        error = self.error / (1 + self.blocks / 4)
        more = (max(1, blocks - self.blocks) for blocks in self.truth if blocks > self.blocks)
        return tuple(Outlook(self.block_s * each * 2 ** chance.gauss(0, error)) for each in more)

    def waiting(self, chance: random.Random, fruitless: int) -> Waiting:
        return Waiting(self.name, self.outlooks(chance), self.blocks > 0, None, self.setup_s, fruitless)


def simulated_run(files: list[Simulated], time_s: float, chance: random.Random) -> int:
    """How many claims are decided in the time by the order and the rule that runs have."""
    left_s, fruitless = time_s, dict.fromkeys((each.name for each in files), 0)
    by_name = {each.name: each for each in files}
    while (
        turn := next_of([each.waiting(chance, fruitless[each.name]) for each in files], left_s)
    ) is not None:
        file = by_name[turn.chosen.name]
        before, used_s = file.decided, file.setup_s
        while True:
            file.blocks += 1
            used_s += file.block_s
            is_over = used_s + file.block_s > left_s or file.decided == len(file.truth)
            if is_over or not goes_on(file.outlooks(chance), used_s, turn, left_s - used_s):
                break
        left_s -= used_s
        fruitless[file.name] = 0 if file.decided > before else fruitless[file.name] + 1
    return sum(each.decided for each in files)
