"""sysbench's options: what can be typed, what it means, and what has no meaning here."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pgassay.errors import PgassayError

Kind = Literal["whole", "number", "switch", "text"]
PROFILE_DEFAULT = "1.0.20"
# The default distribution of each version of sysbench.
PROFILES = {"1.0.20": "special", "head": "uniform"}
COMMANDS = ("prepare", "run", "warmup", "prewarm", "cleanup", "help")
SCRIPTS = {
    "oltp_read_only": "BEGIN, 10 point selects, 4 ranges, COMMIT",
    "oltp_read_write": "the same with 2 updates, a delete and an insert",
    "oltp_write_only": "BEGIN, 2 updates, a delete, an insert, COMMIT",
    "oltp_point_select": "one point select",
    "oltp_update_index": "one update of the indexed column",
    "oltp_update_non_index": "one update of another column",
    "oltp_insert": "one insert",
    "oltp_delete": "one delete",
    "select_random_points": "one select of an IN list",
    "select_random_ranges": "one select of several ranges",
    "bulk_insert": "rows of two numbers, half a megabyte a statement",
}
SIZE_MAX = 2**31 - 1
COUNT_MAX = 10_000


class SysbenchError(PgassayError):
    """Ends the command as sysbench ends: its message, exit status 1."""

    exit_code = 1


@dataclass(frozen=True)
class SysbenchOption:
    """One option: its name with dashes, what its value is, its default as typed, its help, its limits."""

    name: str
    kind: Kind
    default: str
    help: str
    least: float = 0
    most: float = SIZE_MAX
    words: tuple[str, ...] = ()


GENERAL = (
    SysbenchOption(
        "threads", "whole", "1", "connections, each running one event after the other", 1, 100_000
    ),
    SysbenchOption(
        "events", "whole", "0", "events of all connections together (0: no limit)", most=2**63 - 1
    ),
    SysbenchOption("time", "whole", "10", "seconds that the run takes (0: no limit)", most=10_000_000),
    SysbenchOption("warmup-time", "whole", "0", "seconds before it that are not counted", most=10_000_000),
    SysbenchOption("rate", "whole", "0", "events a second (0: no limit)"),
    SysbenchOption("reconnect", "whole", "0", "reopen a connection after this many events (0: never)"),
    SysbenchOption("report-interval", "whole", "0", "seconds between reports of progress (0: none)"),
    SysbenchOption(
        "percentile", "whole", "95", "the percentile of latencies that is reported (0: none)", most=100
    ),
    SysbenchOption("histogram", "switch", "off", "print a histogram of latencies"),
    SysbenchOption("verbosity", "whole", "3", "5 to 3: all messages, 2 to 0: errors only", most=5),
    SysbenchOption("profile", "text", PROFILE_DEFAULT, "whose default of --rand-type", words=tuple(PROFILES)),
    SysbenchOption("json", "switch", "off", "print the result as one JSON document instead of the report"),
)
RANDOM = (
    SysbenchOption(
        *("rand-type", "text", "", "distribution of ids: special, or uniform with --profile=head"),
        words=("uniform", "gaussian", "special", "pareto", "zipfian"),
    ),
    SysbenchOption("rand-seed", "whole", "0", "seed of the random numbers (0: the time)"),
    SysbenchOption("rand-spec-iter", "whole", "12", "uniform numbers in a bell", 1, 1000),
    SysbenchOption("rand-spec-pct", "whole", "1", "the width of the special centre in per cent", most=100),
    SysbenchOption("rand-spec-res", "whole", "75", "the share of ids in it in per cent", most=100),
    SysbenchOption("rand-pareto-h", "number", "0.2", "the parameter h of pareto", 1e-9, 1 - 1e-9),
    SysbenchOption("rand-zipfian-exp", "number", "0.8", "the exponent of zipfian", most=100),
)
DATABASE = (
    SysbenchOption("db-driver", "text", "pgsql", "pgsql", words=("pgsql",)),
    SysbenchOption(
        "db-ps-mode", "text", "auto", "prepared statements (auto), or none", words=("auto", "disable")
    ),
    SysbenchOption("pgsql-host", "text", "localhost", "the server's host, or the folder of its socket"),
    SysbenchOption("pgsql-port", "whole", "5432", "its port", 1, 65_535),
    SysbenchOption("pgsql-user", "text", "sbtest", "the role to connect as"),
    SysbenchOption(
        "pgsql-password", "text", "", "its password; in PGPASSWORD or a password file others can't see it"
    ),
    SysbenchOption("pgsql-db", "text", "sbtest", "the database"),
    SysbenchOption(
        *("pgsql-sslmode", "text", "", "encryption, as libpq's sslmode (without it PGSSLMODE counts)"),
        words=("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    ),
)
OF_SCRIPTS = (
    SysbenchOption("tables", "whole", "1", "tables sbtest1, sbtest2, …", 1, 10_000),
    SysbenchOption("table-size", "whole", "10000", "rows of each"),
    SysbenchOption("range-size", "whole", "100", "rows of a range", 1),
    SysbenchOption("range-selects", "switch", "on", "whether there are ranges"),
    SysbenchOption("point-selects", "whole", "10", "point selects of a transaction", most=COUNT_MAX),
    SysbenchOption("simple-ranges", "whole", "1", "ranges read as they are", most=COUNT_MAX),
    SysbenchOption("sum-ranges", "whole", "1", "ranges summed up", most=COUNT_MAX),
    SysbenchOption("order-ranges", "whole", "1", "ranges sorted", most=COUNT_MAX),
    SysbenchOption("distinct-ranges", "whole", "1", "ranges sorted without duplicates", most=COUNT_MAX),
    SysbenchOption("index-updates", "whole", "1", "updates of the indexed column", most=COUNT_MAX),
    SysbenchOption("non-index-updates", "whole", "1", "updates of another column", most=COUNT_MAX),
    SysbenchOption("delete-inserts", "whole", "1", "rows deleted and inserted again", most=COUNT_MAX),
    SysbenchOption("skip-trx", "switch", "off", "without BEGIN and COMMIT"),
    SysbenchOption("auto-inc", "switch", "on", "the server chooses the id of a row"),
    SysbenchOption("secondary", "switch", "off", "prepare: an index on id that is not a primary key"),
    SysbenchOption("create-secondary", "switch", "on", "prepare: the index on k"),
    SysbenchOption("random-points", "whole", "10", "numbers of select_random_points", 1, 30_000),
    SysbenchOption("number-of-ranges", "whole", "10", "ranges of select_random_ranges", 1, 30_000),
    SysbenchOption("delta", "whole", "5", "their length"),
)
GROUPS = {"general": GENERAL, "random numbers": RANDOM, "database": DATABASE, "scripts": OF_SCRIPTS}
BY_NAME = {option.name: option for group in GROUPS.values() for option in group}
# Other names, with the word that sysbench says of old ones.
ALIASES = {"random-ranges": "number-of-ranges"}
# Which script has an option that the others have not.
OF_ONE_SCRIPT = {
    "random-points": "select_random_points",
    "number-of-ranges": "select_random_ranges",
    "delta": "select_random_ranges",
}
DEPRECATED = {"num-threads": "threads", "max-time": "time", "max-requests": "events", "tx-rate": "rate"}
_HERE = "leave it out"
REFUSED = {
    "report-checkpoints": f"there is one report, at the end: {_HERE}, or use --report-interval",
    "forced-shutdown": f"pgassay always waits for events that run when time is over: {_HERE}",
    "thread-stack-size": f"connections have no thread of their own here: {_HERE}",
    "thread-init-timeout": f"the time limit of a connection is fixed: {_HERE}",
    "luajit-cmd": f"there is no Lua here: {_HERE}",
    "create-table-options": f"tables are made as sysbench makes them without it: {_HERE}",
    "config-file": "options are read from the command line only: write them there",
    "validate": f"sysbench's OLTP scripts validate nothing: {_HERE}",
    "debug": f"sysbench's own internals are not here: {_HERE}",
    "db-debug": f"sysbench's own internals are not here: {_HERE}",
    "pgsql-variant": f"other servers than PostgreSQL are not supported: {_HERE}",
    "use-file": f"texts are drawn, not read from a file: {_HERE}",
    "test": "write the script's name, as in pgassay sysbench oltp_read_write run",
}
_REFUSED_SWITCHES = ("validate", "debug", "db-debug")
_OFF = ("off", "false", "0", "no")
_ON = ("on", "true", "1", "yes")


@dataclass
class Options:
    """What was typed, checked: a script's name or a file's, a command, and all options with their values."""

    script: str = ""
    command: str = ""
    values: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def text(self, name: str) -> str:
        """A value as typed, or its default."""
        return self.values.get(name, BY_NAME[name].default)

    def whole(self, name: str) -> int:
        """A whole number."""
        return int(self.text(name))

    def number(self, name: str) -> float:
        """A number."""
        return float(self.text(name))

    def switch(self, name: str) -> bool:
        """Whether it is on."""
        return self.text(name) in _ON

    @property
    def distribution(self) -> str:
        """How ids are drawn: as typed, else as the profile has it."""
        return self.text("rand-type") or PROFILES[self.text("profile")]

    @property
    def table_size(self) -> int:
        """Rows of a table, as far as it has any of its own."""
        return self.whole("table-size")


def parse(words: Sequence[str]) -> Options:
    """Raises SysbenchError for what sysbench refuses, and for what has no meaning here."""
    chosen = Options()
    for word in words:
        if word.startswith("--"):
            _take(chosen, *_split(word))
        elif not chosen.script:
            chosen.script = word
        elif not chosen.command:
            chosen.command = word
        else:
            raise SysbenchError(f"Unrecognized command line argument: {word}")
    if chosen.command == "run" and not chosen.whole("time") and not chosen.whole("events"):
        chosen.warnings.append("WARNING: Both event and time limits are disabled, running an endless test")
    if chosen.switch("histogram") and chosen.whole("percentile") == 0:
        raise SysbenchError("--histogram cannot be used with --percentile=0")
    return chosen


def options_of(script: str) -> list[SysbenchOption]:
    """What a script has beside the options that all have. bulk_insert looks at none, as sysbench's."""
    if script == "bulk_insert":
        return []
    return [option for option in OF_SCRIPTS if OF_ONE_SCRIPT.get(option.name, script) == script]


def refuse_options_of_others(chosen: Options) -> None:
    """Raises SysbenchError for an option that only another script has, once the script's name is known."""
    for name in chosen.values:
        whose = OF_ONE_SCRIPT.get(name, chosen.script)
        if chosen.script not in (whose, "bulk_insert"):
            raise SysbenchError(f"invalid option: --{name}: {whose} has it, {chosen.script} has not")


def _split(word: str) -> tuple[str, str | None]:
    name, equals, value = word[2:].partition("=")
    return name.replace("_", "-"), value if equals else None


def _take(chosen: Options, name: str, value: str | None) -> None:
    if name in DEPRECATED:
        chosen.warnings.append(f"WARNING: --{name} is deprecated, use --{DEPRECATED[name]} instead")
    name = DEPRECATED.get(name, ALIASES.get(name, name))
    if name.startswith("mysql-"):
        raise SysbenchError(f"--{name} is an option for MySQL: {_HERE}")
    if name in REFUSED:
        is_off = value in _OFF and (name in _REFUSED_SWITCHES or name == "forced-shutdown")
        if is_off:
            return
        raise SysbenchError(f"--{name} is not possible: {REFUSED[name]}")
    option = BY_NAME.get(name)
    if option is None:
        raise SysbenchError(f"invalid option: --{name}{'' if value is None else f'={value}'}")
    chosen.values[name] = _CHECKS[option.kind](option, value)


def _switch(option: SysbenchOption, value: str | None) -> str:
    if value is None or value.lower() in _ON:
        return "on"
    if value.lower() in _OFF:
        return "off"
    raise _wrong(option, value, "write on or off")


def _text(option: SysbenchOption, value: str | None) -> str:
    if value is None or (option.words and value not in option.words):
        raise _wrong(option, value, f"write {' or '.join(option.words) or 'a value behind ='}")
    return value


def _whole(option: SysbenchOption, value: str | None) -> str:
    found = (value or "").strip()
    is_whole = re.fullmatch(r"-?[0-9]{1,40}", found) is not None
    if not is_whole or not option.least <= int(found) <= option.most:
        raise _wrong(option, value, f"write a whole number from {option.least:g} to {option.most}")
    return found


def _number(option: SysbenchOption, value: str | None) -> str:
    try:
        found = float(value or "")
    except ValueError:
        found = option.most + 1
    if not option.least <= found <= option.most:
        raise _wrong(option, value, f"write a number from {option.least:g} to {option.most:g}")
    return repr(found)


def _wrong(option: SysbenchOption, value: str | None, instead: str) -> SysbenchError:
    if value is None:
        return SysbenchError(f"--{option.name} has no value behind =: {instead}, as --{option.name}=VALUE")
    return SysbenchError(f"Invalid value for --{option.name}: '{value}': {instead}")


_CHECKS: dict[Kind, Callable[[SysbenchOption, str | None], str]] = {
    "switch": _switch,
    "text": _text,
    "whole": _whole,
    "number": _number,
}


def document_of(chosen: Options) -> dict[str, object]:
    """The script and its options as the native binary reads them (`SysbenchOptions`)."""
    return {"script": chosen.script, **dict(_of_script(chosen)), "random": random_of(chosen)}


def _of_script(chosen: Options) -> Iterator[tuple[str, object]]:
    for option in OF_SCRIPTS:
        if option.name not in ("secondary", "create-secondary"):
            is_switch = option.kind == "switch"
            value = chosen.switch(option.name) if is_switch else chosen.whole(option.name)
            yield option.name.replace("-", "_"), value


def random_of(chosen: Options) -> dict[str, object]:
    """How ids are drawn, as the native binary reads it (`RandomOptions`)."""
    return {
        "distribution": chosen.distribution,
        "spec_iter": chosen.whole("rand-spec-iter"),
        "spec_pct": chosen.whole("rand-spec-pct"),
        "spec_res": chosen.whole("rand-spec-res"),
        "pareto_h": chosen.number("rand-pareto-h"),
        "zipfian_exp": chosen.number("rand-zipfian-exp"),
    }
