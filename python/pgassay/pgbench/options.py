"""pgbench's options: what can be typed, and what it means."""

import re
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.pgbench import scripts
from pgassay.pgbench.command_line import CommandLineOption, read
from pgassay.pgbench.messages import TRY_HELP, PgbenchError
from pgassay.pgbench.scripts import Script
from pgassay.pgbench.typed_numbers import leading_number, leading_whole, seed_of, whole_number

INT_MAX = 2**31 - 1
TRANSACTIONS_DEFAULT = 10
STEPS = "dtgGvpf"
STEPS_DEFAULT = "dtgvp"
PROTOCOLS = ("simple", "extended", "prepared")
SEED_VARIABLE = "PGBENCH_RANDOM_SEED"
# What a process has open beside the connections of its clients (pgbench.c).
_FILES_BESIDE = 3

INITIALISATION = (
    CommandLineOption("i", "initialize", "", "make pgbench's tables instead of running a load"),
    CommandLineOption(
        "I", "init-steps", f"[{STEPS}]+", f"the steps of it, in their order (default {STEPS_DEFAULT})"
    ),
    CommandLineOption("F", "fillfactor", "NUM", "the tables' fill factor"),
    CommandLineOption("q", "quiet", "", "report progress every 5 seconds"),
    CommandLineOption("", "foreign-keys", "", "make foreign keys between the tables"),
    CommandLineOption("", "index-tablespace", "TABLESPACE", "the tablespace of the indexes"),
    CommandLineOption(
        "", "partition-method", "(range|hash)", "how pgbench_accounts is partitioned (default range)"
    ),
    CommandLineOption(
        "", "partitions", "NUM", "number of partitions of pgbench_accounts (default 0: not partitioned)"
    ),
    CommandLineOption("", "tablespace", "TABLESPACE", "the tablespace of the tables"),
    CommandLineOption("", "unlogged-tables", "", "make unlogged tables"),
)
SELECTION = (
    CommandLineOption("b", "builtin", "NAME[@W]", "run this built-in script, with its weight (-b list)"),
    CommandLineOption("f", "file", "FILENAME[@W]", "run the script in this file, with its weight"),
    CommandLineOption("N", "skip-some-updates", "", "the same as -b simple-update"),
    CommandLineOption("S", "select-only", "", "the same as -b select-only"),
)
BENCHMARKING = (
    CommandLineOption("c", "client", "NUM", "clients (default 1)"),
    CommandLineOption("C", "connect", "", "a connection for each transaction"),
    CommandLineOption("D", "define", "VARNAME=VALUE", "a variable of the scripts"),
    CommandLineOption("j", "jobs", "NUM", "threads (default 1)"),
    CommandLineOption("l", "log", "", "log transactions into a file"),
    CommandLineOption("L", "latency-limit", "NUM", "count transactions of more milliseconds as late"),
    CommandLineOption(
        "M", "protocol", "simple|extended|prepared", "how statements are sent (default simple)"
    ),
    CommandLineOption("P", "progress", "NUM", "report progress every NUM seconds"),
    CommandLineOption("r", "report-per-command", "", "latencies, failures and retries of each command"),
    CommandLineOption("R", "rate", "NUM", "transactions a second that are due"),
    CommandLineOption("t", "transactions", "NUM", "transactions of each client (default 10)"),
    CommandLineOption("T", "time", "NUM", "seconds that the run takes"),
    CommandLineOption("v", "vacuum-all", "", "vacuum all four tables before the run"),
    CommandLineOption("", "aggregate-interval", "NUM", "aggregate the log over NUM seconds"),
    CommandLineOption("", "continue-on-error", "", "continue after a statement error"),
    CommandLineOption("", "exit-on-abort", "", "end as soon as a client is aborted"),
    CommandLineOption("", "failures-detailed", "", "failures by their kind"),
    CommandLineOption("", "log-prefix", "PREFIX", "the beginning of the log's name (default pgbench_log)"),
    CommandLineOption("", "max-tries", "NUM", "tries of a transaction (default 1; 0: no limit)"),
    CommandLineOption("", "progress-timestamp", "", "progress with seconds of the Unix epoch"),
    CommandLineOption("", "random-seed", "SEED", "seed of the random numbers: time, rand or an integer"),
    CommandLineOption(
        "", "sampling-rate", "NUM", "share of the transactions that are logged (0.01 for 1 %%)"
    ),
    CommandLineOption("", "show-script", "NAME", "print one of pgbench's own scripts"),
    CommandLineOption("", "verbose-errors", "", "print all errors"),
)
COMMON = (
    CommandLineOption("n", "no-vacuum", "", "no VACUUM at initialisation, or before the run"),
    CommandLineOption("s", "scale", "NUM", "the scaling factor, of the tables or in the report"),
    CommandLineOption("", "debug", "", "report everything"),
    CommandLineOption("d", "dbname", "DBNAME", "the database, or a connection string"),
    CommandLineOption("h", "host", "HOSTNAME", "the server's host, or the folder of its socket"),
    CommandLineOption("p", "port", "PORT", "its port"),
    CommandLineOption("U", "username", "USERNAME", "the role to connect as"),
    CommandLineOption("", "json", "", "print the result as one JSON document instead of the report"),
)
ALL = (*INITIALISATION, *SELECTION, *BENCHMARKING, *COMMON)
_OF_INITIALISATION = frozenset(option.name for option in INITIALISATION) - {"initialize"}
_OF_A_RUN = frozenset(option.name for option in (*SELECTION, *BENCHMARKING)) - {"show-script"}


@dataclass
class PgbenchOptions:
    """What was typed, checked. `seconds`, `rate` and others are None, and texts '', where nothing was."""

    is_initialisation: bool = False
    steps: str = ""
    fillfactor: int = 100
    is_quiet: bool = False
    has_foreign_keys: bool = False
    index_tablespace: str = ""
    tablespace: str = ""
    partitions: int = 0
    partition_method: str = ""
    is_unlogged: bool = False
    scripts: list[Script] = field(default_factory=list)
    clients: int = 1
    threads: int = 1
    connects_each: bool = False
    variables: dict[str, str] = field(default_factory=dict)
    has_log: bool = False
    log_prefix: str = ""
    sampling_rate: float | None = None
    aggregate_s: int | None = None
    latency_limit_us: int | None = None
    protocol: str = "simple"
    progress_s: int | None = None
    has_timestamps: bool = False
    reports_commands: bool = False
    rate: float | None = None
    transactions: int | None = None
    seconds: int | None = None
    vacuums_all: bool = False
    continues_on_error: bool = False
    exits_on_abort: bool = False
    details_failures: bool = False
    max_tries: int = 1
    tells_errors: bool = False
    seed: int = 0
    shown_script: str = ""
    lists_scripts: bool = False
    no_vacuum: bool = False
    scale: int | None = None
    is_debug: bool = False
    dbname: str = ""
    host: str = ""
    port: str = ""
    user: str = ""
    is_json: bool = False
    # The options that were typed, by their long names.
    typed: set[str] = field(default_factory=set)

    @property
    def has_builtin(self) -> bool:
        """Whether one of pgbench's own scripts is run, whose tables must be there."""
        return any(script.is_builtin for script in self.scripts)


def parse(words: Sequence[str], environment: Mapping[str, str]) -> PgbenchOptions:
    """Raises PgbenchError for what pgbench refuses, in the order in which it would find it."""
    chosen = PgbenchOptions(
        seed=seed_of(environment.get(SEED_VARIABLE), f"{SEED_VARIABLE} environment variable")
    )
    others: list[str] = []
    for name, value in read(words, ALL):
        if not name:
            others.append(value)
            continue
        chosen.typed.add(name)
        _SETTERS[name](chosen, value)
        if chosen.lists_scripts or chosen.shown_script:
            return chosen
    if not chosen.scripts and not chosen.is_initialisation:
        chosen.scripts.append(scripts.builtin("tpcb-like"))
    if not chosen.is_initialisation and not any(script.weight for script in chosen.scripts):
        raise PgbenchError("total script weight must not be zero")
    if others and not chosen.dbname:
        chosen.dbname = others.pop(0)
    if others:
        raise PgbenchError(f'too many command-line arguments (first is "{others[0]}")', hint=TRY_HELP)
    chosen.threads = min(chosen.threads, chosen.clients)
    if chosen.is_initialisation:
        _check_initialisation(chosen)
    else:
        _check_run(chosen)
    return chosen


def _check_initialisation(chosen: PgbenchOptions) -> None:
    if chosen.typed & _OF_A_RUN:
        raise PgbenchError("some of the specified options cannot be used in initialization (-i) mode")
    if chosen.is_json:
        raise PgbenchError("--json prints the result of a run, and initialization (-i) has none")
    if chosen.partition_method and not chosen.partitions:
        raise PgbenchError("--partition-method requires greater than zero --partitions")
    chosen.partition_method = chosen.partition_method or ("range" if chosen.partitions else "")
    chosen.steps = chosen.steps or STEPS_DEFAULT
    if chosen.no_vacuum:
        chosen.steps = chosen.steps.replace("v", " ")
    if chosen.has_foreign_keys and "f" not in chosen.steps:
        chosen.steps += "f"


def _check_run(chosen: PgbenchOptions) -> None:
    if chosen.typed & _OF_INITIALISATION:
        raise PgbenchError("some of the specified options cannot be used in benchmarking mode")
    if chosen.transactions is not None and chosen.seconds is not None:
        raise PgbenchError("specify either a number of transactions (-t) or a duration (-T), not both")
    if chosen.seconds is None and chosen.transactions is None:
        chosen.transactions = TRANSACTIONS_DEFAULT
    sampled, aggregate_s, seconds = chosen.sampling_rate is not None, chosen.aggregate_s, chosen.seconds
    if sampled and not chosen.has_log:
        raise PgbenchError("log sampling (--sampling-rate) is allowed only when logging transactions (-l)")
    if sampled and aggregate_s:
        raise PgbenchError(
            "log sampling (--sampling-rate) and aggregation (--aggregate-interval) cannot be used at the "
            "same time"
        )
    if aggregate_s and not chosen.has_log:
        raise PgbenchError("log aggregation is allowed only when actually logging transactions")
    if chosen.log_prefix and not chosen.has_log:
        raise PgbenchError("log file prefix (--log-prefix) is allowed only when logging transactions (-l)")
    if seconds and aggregate_s and aggregate_s > seconds:
        raise PgbenchError(
            f"number of seconds for aggregation ({aggregate_s}) must not be higher than test duration "
            f"({seconds})"
        )
    if seconds and aggregate_s and seconds % aggregate_s:
        raise PgbenchError(f"duration ({seconds}) must be a multiple of aggregation interval ({aggregate_s})")
    if chosen.has_timestamps and not chosen.progress_s:
        raise PgbenchError("--progress-timestamp is allowed only under --progress")
    if not chosen.max_tries and not chosen.latency_limit_us and not seconds:
        raise PgbenchError(
            "an unlimited number of transaction tries can only be used with --latency-limit or a duration "
            "(-T)"
        )


def _whole(
    field_name: str, shown: str, least: int, most: int = INT_MAX
) -> Callable[[PgbenchOptions, str], None]:
    def set_it(chosen: PgbenchOptions, text: str) -> None:
        value = whole_number(text.rstrip())
        if value is None:
            raise PgbenchError(f'invalid value "{text}" for option {shown}')
        if not least <= value <= most:
            raise PgbenchError(f"{shown} must be in range {least}..{most}")
        setattr(chosen, field_name, value)

    return set_it


def _switch(field_name: str) -> Callable[[PgbenchOptions, str], None]:
    return lambda chosen, _: setattr(chosen, field_name, True)


def _text(field_name: str) -> Callable[[PgbenchOptions, str], None]:
    return lambda chosen, text: setattr(chosen, field_name, text)


def _set_clients(chosen: PgbenchOptions, text: str) -> None:
    _CLIENTS(chosen, text)
    needed, (_, most) = chosen.clients + _FILES_BESIDE, resource.getrlimit(resource.RLIMIT_NOFILE)
    if most not in (resource.RLIM_INFINITY, -1) and most < needed:
        raise PgbenchError(
            f"need at least {needed} open files, but system limit is {most}",
            hint="Reduce number of clients, or use limit/ulimit to increase the system limit.",
        )


def _set_steps(chosen: PgbenchOptions, text: str) -> None:
    if not text:
        raise PgbenchError("no initialization steps specified")
    for step in text:
        if step not in f"{STEPS} ":
            raise PgbenchError(
                f'unrecognized initialization step "{step}"',
                detail=f'Allowed step characters are: "{STEPS}".',
            )
    chosen.steps = text


def _set_partition_method(chosen: PgbenchOptions, text: str) -> None:
    if text.lower() not in ("range", "hash"):
        raise PgbenchError(f'invalid partition method, expecting "range" or "hash", got: "{text}"')
    chosen.partition_method = text.lower()


def _add_script(chosen: PgbenchOptions, script: Script) -> None:
    if len(chosen.scripts) >= scripts.SCRIPTS_MAX:
        raise PgbenchError(f"at most {scripts.SCRIPTS_MAX} SQL scripts are allowed")
    chosen.scripts.append(script)


def _set_builtin(chosen: PgbenchOptions, text: str) -> None:
    if text == "list":
        chosen.lists_scripts = True
    else:
        _add_script(chosen, scripts.builtin(text))


def _set_variable(chosen: PgbenchOptions, text: str) -> None:
    name, _, value = text.partition("=")
    if not name or not value:
        raise PgbenchError(f'invalid variable definition: "{text}"')
    if re.fullmatch(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*", name) is None:
        raise PgbenchError(f'option: invalid variable name: "{name}"')
    chosen.variables[name] = value


def _set_limit(chosen: PgbenchOptions, text: str) -> None:
    milliseconds = leading_number(text)
    if milliseconds <= 0:
        raise PgbenchError(f'invalid latency limit: "{text}"')
    # Less than a microsecond is no limit.
    chosen.latency_limit_us = int(milliseconds * 1000) or None


def _set_rate(chosen: PgbenchOptions, text: str) -> None:
    chosen.rate = leading_number(text)
    if chosen.rate <= 0:
        raise PgbenchError(f'invalid rate limit: "{text}"')


def _set_sampling_rate(chosen: PgbenchOptions, text: str) -> None:
    chosen.sampling_rate = leading_number(text)
    if not 0 < chosen.sampling_rate <= 1:
        raise PgbenchError(f'invalid sampling rate: "{text}"')


def _set_protocol(chosen: PgbenchOptions, text: str) -> None:
    if text not in PROTOCOLS:
        raise PgbenchError(f'invalid query mode (-M): "{text}"')
    chosen.protocol = text


def _set_max_tries(chosen: PgbenchOptions, text: str) -> None:
    chosen.max_tries = leading_whole(text)
    if not 0 <= chosen.max_tries <= INT_MAX:
        raise PgbenchError(f'invalid number of maximum tries: "{text}"')


def _set_seed(chosen: PgbenchOptions, text: str) -> None:
    chosen.seed = seed_of(text, "--random-seed option")


_CLIENTS = _whole("clients", "-c/--client", 1)
_SETTERS: dict[str, Callable[[PgbenchOptions, str], None]] = {
    "initialize": _switch("is_initialisation"),
    "init-steps": _set_steps,
    "fillfactor": _whole("fillfactor", "-F/--fillfactor", 10, 100),
    "quiet": _switch("is_quiet"),
    "foreign-keys": _switch("has_foreign_keys"),
    "index-tablespace": _text("index_tablespace"),
    "partition-method": _set_partition_method,
    "partitions": _whole("partitions", "--partitions", 0),
    "tablespace": _text("tablespace"),
    "unlogged-tables": _switch("is_unlogged"),
    "builtin": _set_builtin,
    "file": lambda chosen, text: _add_script(chosen, scripts.from_file(text)),
    "skip-some-updates": lambda chosen, _: _add_script(chosen, scripts.builtin("simple-update")),
    "select-only": lambda chosen, _: _add_script(chosen, scripts.builtin("select-only")),
    "client": _set_clients,
    "connect": _switch("connects_each"),
    "define": _set_variable,
    "jobs": _whole("threads", "-j/--jobs", 1),
    "log": _switch("has_log"),
    "latency-limit": _set_limit,
    "protocol": _set_protocol,
    "progress": _whole("progress_s", "-P/--progress", 1),
    "report-per-command": _switch("reports_commands"),
    "rate": _set_rate,
    "transactions": _whole("transactions", "-t/--transactions", 1),
    "time": _whole("seconds", "-T/--time", 1),
    "vacuum-all": _switch("vacuums_all"),
    "aggregate-interval": _whole("aggregate_s", "--aggregate-interval", 1),
    "continue-on-error": _switch("continues_on_error"),
    "exit-on-abort": _switch("exits_on_abort"),
    "failures-detailed": _switch("details_failures"),
    "log-prefix": _text("log_prefix"),
    "max-tries": _set_max_tries,
    "progress-timestamp": _switch("has_timestamps"),
    "random-seed": _set_seed,
    "sampling-rate": _set_sampling_rate,
    "show-script": _text("shown_script"),
    "verbose-errors": _switch("tells_errors"),
    "no-vacuum": _switch("no_vacuum"),
    "scale": _whole("scale", "-s/--scale", 1),
    "debug": _switch("is_debug"),
    "dbname": _text("dbname"),
    "host": _text("host"),
    "port": _text("port"),
    "username": _text("user"),
    "json": _switch("is_json"),
}
