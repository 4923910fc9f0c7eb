"""Figures that are the same but for their last digits, which depend on the processor.

numpy adds and multiplies by the vector instructions that a processor has, in another order on another one.
"""

import math
import re

_LONG = re.compile(r"-?\d+\.\d{10,}(?:e[-+]?\d+)?")
_TOLERANCE = 1e-11


def is_same(expected: str, found: str) -> bool:
    """Whether two texts differ in nothing but the last digits of long decimals."""
    if expected == found:
        return True
    if _LONG.sub("#", expected) != _LONG.sub("#", found):
        return False
    pairs = zip(_LONG.findall(expected), _LONG.findall(found), strict=True)
    return all(math.isclose(float(one), float(other), rel_tol=_TOLERANCE) for one, other in pairs)


def rounded(text: str) -> str:
    """The text with ten digits of each long decimal."""
    return _LONG.sub(lambda match: f"{float(match[0]):.10g}", text)
