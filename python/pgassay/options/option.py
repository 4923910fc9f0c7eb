"""What an option is, and how a field of a request declares one.

    scale: int = value("--scale N", whole, "pgbench scale of the data", COPIES, default="10")

That one declaration makes the flag of every command in `COPIES`, the key of experiment files and gate files,
read by the same `parse`; what is refused, what a shell completes, and the row in the documents' tables.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Generic, Literal, TypedDict, TypeVar, Unpack

from pgassay.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
Word = TypeVar("Word", bound=str, covariant=True)
# Servers that pgassay starts itself, servers that run already, or both.
Servers = Literal["own", "running", "any"]
# The two kinds of files that have options as keys.
FILE, GATE_FILE = "file", "gate file"
# What takes an option: whole experiments; what makes trials of them; what measures copies of data.
EXPERIMENTS = ("compare", "calibrate", "size", FILE)
TRIALS = (*EXPERIMENTS, GATE_FILE)
COPIES = (*TRIALS, "tune", "bisect")


@dataclass(frozen=True, repr=False, eq=False)
class Words(Generic[Word]):
    """Reads one of a few words; raises UsageError that lists them."""

    choices: tuple[Word, ...]

    def __call__(self, typed: str) -> Word:
        for each in self.choices:
            if each == typed:
                return each
        raise UsageError(f"'{typed}' is not known: use {', '.join(self.choices)}")


def text(typed: str) -> str:
    """A text as it is; the plan reads it."""
    return typed


def folder(typed: str) -> "Path":
    """A path as it is; raises UsageError for an empty one."""
    from pathlib import Path

    if not typed:
        raise UsageError("the folder's name is empty: write a path")
    return Path(typed)


class More(TypedDict, total=False):
    """What few options say of themselves; the meaning is `Option`'s."""

    key: str
    servers: Servers
    needs: str
    guide: str
    is_secret: bool


@dataclass(frozen=True, repr=False, eq=False)
class Option:
    """One option. `usage`: its flag and what stands for its value; `takes`: the commands, and the kinds of
    files, that have it.

    `default` is the text that stands for it where nothing is said; an option without one says in `otherwise`
    what happens. `key` in a file: None for the flag's own name, "" for no key. `servers`: those that it is
    for; `needs`: the flag without which it means nothing. `guide` is Markdown, which the documents have in
    place of `help`. A secret one may hold a password. `field` and `standard`, the value where nothing is
    said, are the request's.
    """

    usage: str
    parse: Callable[[str], object]
    help: str
    takes: tuple[str, ...]
    default: str = ""
    otherwise: str = ""
    key: str | None = None
    servers: Servers = "any"
    needs: str = ""
    guide: str = ""
    is_secret: bool = False
    is_repeated: bool = False
    is_switch: bool = False
    field: str = ""
    standard: object = None

    @property
    def flag(self) -> str:
        """As it is typed: `--scale`."""
        return self.usage.split()[0]

    @property
    def metavar(self) -> str | None:
        """What stands for its value, as `N`; None for words, which stand for themselves."""
        return self.usage.partition(" ")[2] or None

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it can be; () where it can be more."""
        return self.parse.choices if isinstance(self.parse, Words) else ()

    @property
    def file_key(self) -> str:
        """Its key in a file; "" where a file has none."""
        return self.flag.removeprefix("--") if self.key is None else self.key

    @property
    def full_help(self) -> str:
        """The help, with what happens where nothing is said."""
        usual = f"default {self.default}" if self.default else f"default: {self.otherwise}"
        return f"{self.help} ({usual})" if self.default or self.otherwise else self.help

    def as_in(self, help: str | None = None, default: str | None = None) -> "Option":
        """The same with another help, or another default ("": none), as one command has it."""
        found = self if help is None else replace(self, help=help, otherwise="")
        if default is None:
            return found
        return replace(found, default=default, standard=self.parse(default) if default else None)

    def of_file(self, given: object, where: str) -> object:
        """The value of a key in a file; raises UsageError that begins with `where`: the file and the key."""
        if self.is_switch:
            if isinstance(given, bool):
                return given
            raise UsageError(f"{where} = {given!r} is not a bool: write true or false")
        if self.is_repeated:
            levels = given if isinstance(given, list) else [given]
            return tuple(self._of_file(each, where) for each in levels)
        return self._of_file(given, where)

    def _of_file(self, given: object, where: str) -> object:
        kinds = str if self.is_repeated else str | int | float
        if not isinstance(given, kinds) or isinstance(given, bool):
            shown = "" if self.is_secret else f" = {given!r}"
            what = "a text, or a list of texts" if self.is_repeated else "a text or a number"
            raise UsageError(f"{where}{shown} is not {what}: correct it")
        try:
            return self.parse(str(given))
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error


def lacking(flag: str, needed: str) -> UsageError:
    """What is raised where an option was typed without what it needs."""
    return UsageError(f"{flag} needs {needed}: add it, or leave {flag} out")


def excluding(flag: str, other: str) -> UsageError:
    """What is raised where two options were typed of which only one can be meant."""
    return UsageError(f"{flag} cannot be used with {other}: leave one of them out")


def value(
    usage: str,
    parse: Callable[[str], T],
    help: str,
    takes: tuple[str, ...] = TRIALS,
    *,
    default: str,
    **more: Unpack[More],
) -> T:
    """A field that always has a value: that of the default text where nothing is said."""
    option = Option(usage, parse, help, takes, default=default, **more)
    return _field(option, parse(default))


def maybe(
    usage: str,
    parse: Callable[[str], T],
    help: str,
    takes: tuple[str, ...] = TRIALS,
    *,
    otherwise: str = "",
    **more: Unpack[More],
) -> T | None:
    """A field that is None where nothing is said; `otherwise` says what that means."""
    return _field(Option(usage, parse, help, takes, otherwise=otherwise, **more), None)


def several(usage: str, help: str, takes: tuple[str, ...] = TRIALS, **more: Unpack[More]) -> tuple[str, ...]:
    """A field of as many texts as are given: the flag can be repeated, the key has a list."""
    return several_of(usage, text, help, takes, **more)


def several_of(
    usage: str, parse: Callable[[str], T], help: str, takes: tuple[str, ...], **more: Unpack[More]
) -> tuple[T, ...]:
    """The same of what `parse` makes of each text."""
    return _field(Option(usage, parse, help, takes, is_repeated=True, **more), ())


def switch(
    usage: str, help: str, takes: tuple[str, ...] = TRIALS, *, without: bool = False, **more: Unpack[More]
) -> bool:
    """A field that is `without` where nothing is said; the flag alone makes it the contrary."""
    return _field(Option(usage, bool, help, takes, is_switch=True, **more), without)


def _field(option: Option, default: T) -> T:
    return field(default=default, repr=not option.is_secret, metadata={"option": option})


def options_of(request: type) -> tuple[Option, ...]:
    """The options that a class declares, in their order."""
    return tuple(
        replace(each.metadata["option"], field=each.name, standard=each.default)
        for each in fields(request)
        if "option" in each.metadata
    )
