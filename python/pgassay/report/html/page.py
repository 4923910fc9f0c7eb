"""How every HTML page is made: templates of this package that escape whatever they show."""

from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from pgassay.report import text


@cache
def environment() -> Environment:
    """The templates; a name that a template does not know is an error."""
    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "clean": text.clean,
        "clean_lines": text.clean_lines,
        "excerpt": text.excerpt,
        "quantity": text.quantity,
        "ratio": text.ratio,
        "interval": text.interval,
        "size": text.size,
        "seconds": text.seconds,
        "percent": text.percent,
        "script": Markup,
    }
    return made


def _source(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")
