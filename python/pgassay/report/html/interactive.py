"""The scripts of a page: the chart library, the drawings' specifications, and what joins them.

Nothing but these two scripts can run: the page's policy names them by their hashes, and the
specifications are data in which no text can end the element that holds them.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from pgassay.report.charts.drawing import Drawing


@dataclass(frozen=True)
class Scripts:
    """`sources` are run in order; `policy` is the value of script-src that allows them alone."""

    sources: tuple[str, ...]
    data: str
    policy: str


def make_scripts(drawings: Sequence[Drawing], library: str) -> Scripts | None:
    """The page's scripts; None without a library, and then the page runs nothing.

    `library` is the JavaScript that defines vegaEmbed, as vl-convert bundles it. Raises ValueError
    for one that would end its own element.
    """
    if not library:
        return None
    if "</script" in library.lower() or "<!--" in library:
        raise ValueError("the chart library can't stand within a page: it ends the element that holds it")
    own = files(__package__).joinpath("templates", "charts.js").read_text(encoding="utf-8")
    # A browser reads every line end as one line feed before it makes the hash.
    sources = tuple(source.replace("\r\n", "\n").replace("\r", "\n") for source in (library, own))
    return Scripts(sources, _data(drawings), " ".join(f"'sha256-{_hash(source)}'" for source in sources))


def _data(drawings: Sequence[Drawing]) -> str:
    """The specifications as JSON without a sign that HTML gives a meaning; all of it is ASCII."""
    document = {drawing.name: {"wide": drawing.wide, "narrow": drawing.narrow} for drawing in drawings}
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")
