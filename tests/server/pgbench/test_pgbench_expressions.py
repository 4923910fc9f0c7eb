"""Drawn expressions over every function and operator have the real pgbench's values and errors."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from native_servers import NativeTestServer, started_server
from real_tools.pgbench import both

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
INTEGERS = (
    "0",
    "1",
    "-1",
    "2",
    "7",
    "-13",
    "1000",
    "4294967296",
    "9223372036854775807",
    ":client_id",
    ":given",
)
DOUBLES = ("0.5", "-2.25", "1e3", "3.0", "1e-9", "123456.789", "1e300", "-0.0")
ARITHMETIC = ("+", "-", "*", "/", "%", "&", "|", "#", "<<", ">>")
COMPARISONS = ("<", "<=", ">", ">=", "=", "<>", "!=")
TESTS = ("is null", "is not null", "isnull", "notnull", "is true", "is not false")
UNARY = ("sqrt(abs({}))", "ln(1 + abs({}))", "exp(({}) / 1e3)", "double({})", "abs({})", "- ({})", "+ ({})")
DRAWS = (
    "random({low}, {high})",
    "random_gaussian({low}, {high}, 2.5)",
    "random_exponential({low}, {high}, 1.5)",
    "random_zipfian({low}, {high}, 1.2)",
    "permute({low}, {high}, 3)",
    "permute({low}, {high})",
)


class Drawn:
    """Expressions of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def expression(self, depth: int = 3) -> str:
        """One of any type."""
        return self._random.choice((self.integer, self.double, self.boolean))(depth)

    def integer(self, depth: int) -> str:
        choose = self._random.choice
        if depth == 0:
            return choose(INTEGERS)
        low = self._random.randint(-50, 50)
        inner, other = self.integer(depth - 1), self.integer(depth - 1)
        return choose(
            (
                f"({inner} {choose(ARITHMETIC)} {other})",
                f"({inner} {choose(ARITHMETIC)} {other})",
                f"{choose(('mod', 'least', 'greatest'))}({inner}, {other})",
                f"{choose(('hash', 'hash_fnv1a', 'hash_murmur2'))}({inner}{choose(('', ', 5'))})",
                f"int({choose(DOUBLES[:4])} * {choose(('1.5', '-7', '2'))})",
                f"~ {inner}",
                f"abs({inner})",
                choose(DRAWS).format(low=low, high=low + self._random.randint(51, 9999)),
                f"case when {self.boolean(depth - 1)} then {inner} else {other} end",
            )
        )

    def double(self, depth: int) -> str:
        choose = self._random.choice
        if depth == 0:
            return choose((*DOUBLES, "pi()"))
        inner = choose((self.double, self.integer))(depth - 1)
        return choose(
            (
                choose(UNARY).format(inner),
                f"({inner} {choose(('+', '-', '*', '/'))} {self.double(depth - 1)})",
                f"pow({choose(('2', '1.5', '-3', '0'))}, {choose(('2', '0.5', '-1', '10'))})",
                f"power({inner}, {choose(('0', '1', '-2.5'))})",
                f"{choose(('least', 'greatest'))}({inner}, {self.double(depth - 1)}, 2)",
                f"case {f'when {self.boolean(depth - 1)} then {inner} ' * 2}end",
            )
        )

    def boolean(self, depth: int) -> str:
        choose = self._random.choice
        if depth == 0:
            return choose(("true", "false", "null"))
        number = choose((self.integer, self.double))
        return choose(
            (
                f"({number(depth - 1)} {choose(COMPARISONS)} {self.integer(depth - 1)})",
                f"({self.boolean(depth - 1)} {choose(('and', 'or'))} {self.boolean(depth - 1)})",
                f"(not {self.boolean(depth - 1)})",
                f"({self.expression(depth - 1)} {choose(TESTS)})",
            )
        )


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        yield server


@pytest.mark.parametrize(
    ("seed", "count", "runs"), [(1, 80, 4), pytest.param(2, 2000, 60, marks=pytest.mark.slow)]
)
def test_values_and_errors_are_pgbench_s(
    server: NativeTestServer, tmp_path: Path, seed: int, count: int, runs: int
) -> None:
    drawn = Drawn(seed)
    texts = [drawn.expression() for _ in range(count)]
    words = ("-n", "-t", "1", "-D", "given=-42", "--random-seed=36", "-f", "x.sql")
    shown = 0
    for _ in range(runs):
        (tmp_path / "x.sql").write_text("".join(f"\\set x debug({text})\n" for text in texts))
        theirs, mine = both(server, *words, folder=tmp_path)
        # Ours says the place in the script below an error.
        own = [line for line in mine.errors.splitlines() if not line.startswith("pgbench: detail: in ")]
        lines = zip(theirs.errors.splitlines(), own, strict=False)
        for place, (their, my) in enumerate(lines):
            assert my == their, texts[place]
        assert mine.status == theirs.status
        shown += theirs.errors.count("debug(script=0,command=")
        failed = re.search(r"aborted in command (\d+) ", theirs.errors)
        if failed is None:
            break
        # What fails ends the run: the next one begins behind it.
        texts = texts[int(failed[1]) + 1 :]
    assert shown > count / 2 or not texts
