"""The one table of options: which command, and which kind of file, takes which."""

from pgassay.options.data import DataOptions
from pgassay.options.evidence import EvidenceOptions
from pgassay.options.option import Option, options_of
from pgassay.options.servers import ServerOptions
from pgassay.options.sizing import SizeOptions
from pgassay.options.trials import TrialOptions
from pgassay.options.tuning import TuneOptions

OPTIONS = tuple(
    option
    for subject in (DataOptions, ServerOptions, TrialOptions, EvidenceOptions)
    for option in options_of(subject)
)

# What a command alone takes, and no experiment's request has.
OWN_OPTIONS = {"tune": options_of(TuneOptions), "size": options_of(SizeOptions)}


def given(request: object) -> dict[str, Option]:
    """The options of which a request has another value than where nothing is said, by flag."""
    return {option.flag: option for option in OPTIONS if getattr(request, option.field) != option.standard}


def options_for(command: str) -> tuple[Option, ...]:
    """Those that a command takes, or a kind of file (`FILE`, `GATE_FILE`)."""
    return tuple(option for option in OPTIONS if command in option.takes)
