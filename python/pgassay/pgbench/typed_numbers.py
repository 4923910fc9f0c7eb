"""Numbers as pgbench reads them: by C's functions, which take the beginning of a text."""

import math
import re
import secrets
import time

from pgassay.pgbench.messages import PgbenchError, say

# Python reads no number of more than some thousand digits, and nothing takes one of a hundred.
_DIGITS_MAX = 100


def leading_number(text: str) -> float:
    """C's atof: the number at the beginning, 0 without one, and for one that is too large for any use."""
    found = re.match(r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?)", text)
    value = float(found.group()) if found else 0.0
    return value if math.isfinite(value) else 0.0


def whole_number(text: str) -> int | None:
    """C's strtol: the whole number that a text is; None for a text that is none. Large ones stay large."""
    found = re.fullmatch(r"\s*([+-]?[0-9]+)", text)
    return int(found[1][:_DIGITS_MAX]) if found else None


def leading_whole(text: str) -> int:
    """C's atoi: the whole number at the beginning, 0 without one."""
    found = re.match(r"\s*[+-]?[0-9]+", text)
    return (whole_number(found.group()) or 0) if found else 0


def seed_of(text: str | None, where: str) -> int:
    """The seed of a text, None for none given: of the clock, drawn, or a number. `where` it was typed.

    Raises PgbenchError for another text.
    """
    if text is None or text == "time":
        seed = time.monotonic_ns() // 1000
    elif text == "rand":
        seed = secrets.randbits(64)
    elif (number := whole_number(text)) is None:
        say(f'unrecognized random seed option "{text}"', "error")
        say('Expecting an unsigned integer, "time" or "rand".', "detail")
        raise PgbenchError(f"error while setting random seed from {where}")
    else:
        # As strtoull: what is negative counts from the top.
        seed = min(number, 2**64 - 1) % 2**64
    if text is not None:
        say(f"setting random seed to {seed}")
    return seed
