"""What a command has to say, once: sections for people and a document for programs, in every form."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pydantic import BaseModel

from pgassay import __version__
from pgassay.report import markdown, terminal
from pgassay.report.charts.drawing import Drawing
from pgassay.report.html import page as html
from pgassay.report.section import Section

# Of --text: what a mailing list shows without wrapping it.
TEXT_WIDTH = 72
Document = BaseModel | Mapping[str, object]


@dataclass(frozen=True)
class Page:
    """A result in every form in which it can be published; no form is made before it is asked for.

    document: what --json prints. make: what there is to say, in order. draw: the drawings that the sections
    name, for HTML. footer: the last line of the HTML page. mail: the text of --text, where it is not that of
    the sections.
    is_wrapped: whether lines end at the width of a page where no terminal says how wide they may be.
    """

    title: str
    document: Document
    make: Callable[[], Iterable[Section]]
    draw: Callable[[], Iterable[Drawing]] = tuple
    footer: str = f"Made by pgassay {__version__}."
    mail: Callable[[], str] | None = None
    is_wrapped: bool = True

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The sections, each with what it is in every form."""
        return tuple(self.make())

    @cached_property
    def drawings(self) -> tuple[Drawing, ...]:
        """The drawings of the HTML page."""
        return tuple(self.draw())

    def terminal(self, *, width: int = terminal.UNWRAPPED, colour: bool = False, unicode: bool = True) -> str:
        """For a terminal of `width` columns; the other options as `report.terminal.render`."""
        return terminal.render(self.sections, width=width, colour=colour, unicode=unicode)

    def markdown(self) -> str:
        """For an issue, a pull request or a wiki."""
        return markdown.render(self.sections)

    def text(self) -> str:
        """For a mailing list: ASCII, 72 columns."""
        if self.mail is not None:
            return self.mail()
        return terminal.render(self.sections, width=TEXT_WIDTH, unicode=False)

    def html(self, *, chart_library: str = "") -> str:
        """One HTML page, to be written as UTF-8; `chart_library` as `report.html.page.render`."""
        return html.render(
            self.title,
            self.sections,
            footer=self.footer,
            drawings=self.drawings,
            chart_library=chart_library if self.drawings else "",
        )

    def json(self) -> str:
        """One JSON document; the schemas are in schemas/."""
        return json_text(self.document)


def json_text(document: Document, *, is_line: bool = False) -> str:
    """A document for programs with a newline at its end, or as one line of a stream.

    Keys stand in the order of the model. A number that is not finite is null. Only ASCII is written, so that
    the document survives any locale of the pipe it goes through.
    """
    plain = document.model_dump(mode="python", by_alias=True) if isinstance(document, BaseModel) else document
    indent = None if is_line else 2
    return json.dumps(_finite(plain), indent=indent, ensure_ascii=True, allow_nan=False) + "\n"


def _finite(value: object) -> object:
    """The value with every NaN and infinity replaced by None, and tuples by lists."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
