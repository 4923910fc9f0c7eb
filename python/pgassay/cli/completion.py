"""`pgassay completion`, and what shells complete: commands, options, factors, settings, files.

A shell's function starts `pgassay` with `_ARGCOMPLETE` set and what was typed; argcomplete finds out from the
parser itself which argument is being written, and the completers here say what it can be. Nothing is
downloaded, started or changed for it: settings are asked of a server's program that is at hand.
"""

import argparse
import subprocess
import sys

from pgassay.cli import options

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Completer = Callable[..., Iterable[str]]

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ARGCOMPLETE"
_PROGRAM = "pgassay"
_ANSWER_S = 5.0
_FOLDERS = ("FOLDER", "DIR", "PATH")
REQUIRED_OFTEN = (
    "builds",
    "native",
    "io_uring",
    "cold-cache",
    "loop",
    "cgroup-io",
    "cgroup-memory",
    "cgroup-cpu",
)
# What stands where a volume's name would, of `pgassay volumes` alone.
_NO_VOLUMES = ("fit", "mount")
# The last key of any storage: that of pg_wal.
_WAL = "wal"
_ONE_OF = "Available values: "
_EPILOG = """for this shell only, or permanently:
  eval "$(pgassay completion bash)"
  pgassay completion bash > ~/.local/share/bash-completion/completions/pgassay
  pgassay completion zsh > "${fpath[1]}/_pgassay"
  pgassay completion fish > ~/.config/fish/completions/pgassay.fish
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "completion",
        help="print the completion script for bash, zsh or fish",
        description="Prints the function of a shell that completes commands, options, factors with their "
        "levels, settings of the newest available build, workloads, volumes and folders.",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the function."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode([_PROGRAM], shell=arguments.shell).strip("\n") + "\n")
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Tell the shell what fits where the cursor is, and end the process; does nothing for any other start."""
    import argcomplete

    for each in _parsers(parser):
        for action in each._actions:
            completer = _completer_of(action)
            if completer is not None:
                action.completer = completer  # type: ignore[attr-defined]  # argcomplete's own attribute
    argcomplete.autocomplete(parser, always_complete_options="long")


def _parsers(parser: argparse.ArgumentParser) -> "Iterable[argparse.ArgumentParser]":
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _parsers(below)


def _completer_of(action: argparse.Action) -> "Completer | None":
    """By what its text stands for, as its help shows it."""
    from argcomplete.completers import DirectoriesCompleter, FilesCompleter, SuppressCompleter

    if action.choices is not None or action.nargs == 0:
        return None
    named: dict[str, Completer] = {
        "NAME=LEVEL,LEVEL": _factors,
        "NAME=VALUE": _settings_with_values,
        "W[:OPTIONS]": _workloads,
        "sql:FILE": _workloads,
        "KIND[:SOURCE]": _datasets,
        "KIND[:OPTIONS]": _storages,
        "BUILD": _builds,
        "VERSION": _obtainable,
        "TREE": _trees,
        "VOLUME": _volumes,
        "CHECK,CHECK": _capabilities,
    }
    shown = str(action.metavar)
    if shown in named:
        return named[shown]
    parts = set(shown.replace(" ", "|").split("|"))
    if parts & set(_FOLDERS):
        found: Completer = DirectoriesCompleter()
    elif "FILE" in parts or action.type is options.folder:
        found = FilesCompleter()
    else:
        found = SuppressCompleter()
    return found


def _factors(prefix: str, **_: object) -> "Iterable[str]":
    """`NAME=`, then `NAME=LEVEL,LEVEL`: levels that are known, each once."""
    from pgassay.factors.registry import KINDS

    name, equals, typed = prefix.partition("=")
    if not equals:
        # All of a server's settings are more than anybody wants to see for nothing.
        names = (*KINDS, *(_settings() if prefix else ("io_method",)))
        return [f"{each}=" for each in names]
    before, comma, _last = typed.rpartition(",")
    taken = before.split(",")
    levels = [level for level in _levels(name) if level not in taken]
    return [f"{name}={before}{comma}{level}" for level in levels]


def _levels(name: str) -> "Iterable[str]":
    known: dict[str, Callable[[], Iterable[str]]] = {
        "version": lambda: _builds(""),
        "build": lambda: _builds(""),
        "storage": lambda: _storages(""),
        "checksums": lambda: ("on", "off"),
        "settle": lambda: ("on", "off"),
        "prepare": lambda: ("none",),
    }
    return known[name]() if name in known else _values(name)


def _settings_with_values(prefix: str, **_: object) -> "Iterable[str]":
    name, equals, _typed = prefix.partition("=")
    if equals:
        return [f"{name}={value}" for value in _values(name)]
    return [f"{each}=" for each in _settings()]


def _settings() -> "Iterable[str]":
    """The settings that the newest build at hand has; () without one."""
    lines = _asked("--describe-config").stdout.splitlines()
    return [line.split("\t")[0] for line in lines if "\t" in line]


def _values(setting: str) -> "Iterable[str]":
    """What an enumerated setting can be, as the server itself says when it is given something else."""
    if not setting.replace("_", "").replace(".", "").isalnum():
        return ()
    complaint = _asked("-C", setting, "-c", f"{setting}=?").stderr
    if "Boolean value" in complaint:
        return ("on", "off")
    _, found, values = complaint.partition(_ONE_OF)
    return values.splitlines()[0].rstrip(".").split(", ") if found else ()


def _asked(*words: str) -> "subprocess.CompletedProcess[str]":
    """What the program of the newest build answers; nothing where there is none, or it does not answer."""
    from pgassay.errors import PgassayError

    try:
        return subprocess.run(
            [_program_of_the_newest_build(), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=False,
            env={"LC_ALL": "C"},
        )
    except (PgassayError, OSError, subprocess.TimeoutExpired):
        return subprocess.CompletedProcess([], 1, "", "")


def _program_of_the_newest_build() -> str:
    from pgassay.environment.builds.registry import resolve

    return f"{resolve().bin_directory}/postgres"


def _workloads(prefix: str, **_: object) -> "Iterable[str]":
    """Families, options of a load after its colon, files after `sql:` and `maintenance:`."""
    from argcomplete.completers import FilesCompleter

    from pgassay.workloads.oltp import OPTIONS as OLTP_OPTIONS
    from pgassay.workloads.pgbench_builtin import OPTIONS as LOAD_OPTIONS
    from pgassay.workloads.registry import FAMILIES
    from pgassay.workloads.replay import OPTIONS as REPLAY_OPTIONS
    from pgassay.workloads.sysbench import OPTIONS as SYSBENCH_OPTIONS
    from pgassay.workloads.sysbench import SCRIPTS as SYSBENCH_SCRIPTS

    family, colon, rest = prefix.partition(":")
    if not colon:
        with_more = ("sql", "maintenance", "pgbench", "sysbench", "replay")
        return [f"{name}:" if name in with_more else name for name in FAMILIES]
    if family == "replay" and "," in rest:
        folder, comma, options = rest.partition(",")
        return _with_keys(f"replay:{folder}{comma}", options, REPLAY_OPTIONS)
    if family in ("sql", "maintenance", "replay"):
        return [f"{family}:{path}" for path in FilesCompleter()(rest)]
    if family == "pgbench" and rest.startswith("file=") and "," not in rest:
        return [f"pgbench:file={path}" for path in FilesCompleter()(rest.removeprefix("file="))]
    if family == "sysbench":
        script, comma, rest = rest.partition(",")
        if not comma:
            return [f"sysbench:{name}" for name in (*SYSBENCH_SCRIPTS, "micro")]
        return _with_keys(f"sysbench:{script},", rest, SYSBENCH_OPTIONS)
    own_keys = {
        "oltp_read_only": OLTP_OPTIONS, "full-scan": ("only",), "pgbench": ("file", *LOAD_OPTIONS, "writes")
    }  # fmt: skip
    keys = own_keys.get(family, LOAD_OPTIONS)
    return _with_keys(f"{family}:", rest, keys)


def _with_keys(lead: str, typed: str, keys: "Iterable[str]") -> "Iterable[str]":
    """`lead` and what was typed up to its last comma, then each key that is not there yet."""
    before, comma, _last = typed.rpartition(",")
    taken = {part.partition("=")[0] for part in before.split(",")}
    return [f"{lead}{before}{comma}{key}=" for key in keys if key not in taken]


def _datasets(prefix: str, **_: object) -> "Iterable[str]":
    from argcomplete.completers import FilesCompleter

    from pgassay.environment.datasets import KINDS

    kind, colon, rest = prefix.partition(":")
    if colon:
        return [f"{kind}:{path}" for path in FilesCompleter()(rest)]
    return [name if name == "pgbench" else f"{name}:" for name in KINDS]


def _storages(prefix: str, **_: object) -> "Iterable[str]":
    from pgassay.storage.registry import KINDS

    data, separator, wal = prefix.rpartition(f"{_WAL}=")
    if separator and data.endswith((",", ":")):
        return [f"{data}{separator}{each}" for each in _storages(wal) if not each.endswith(f"{_WAL}=")]
    kind, colon, rest = prefix.partition(":")
    if not colon:
        return [name if name == "host" else f"{name}:" for name in KINDS]
    if kind == "volume" and "," not in rest:
        return [f"{kind}:{name}" for name in _volumes(rest)]
    return _with_keys(f"{kind}:", rest, (*KINDS[kind].keys, _WAL)) if kind in KINDS else ()


def _builds(prefix: str, **_: object) -> "Iterable[str]":
    """Majors at hand, and each origin's; a folder where a slash was typed."""
    from argcomplete.completers import DirectoriesCompleter

    from pgassay.environment.builds.registry import ORIGINS
    from pgassay.environment.source_builds.tree_syntax import is_source

    if is_source(prefix):
        return _trees()
    if "/" in prefix:
        found: Iterable[str] = DirectoriesCompleter()(prefix)
        return found
    builds = [build for origin in ORIGINS for build in origin.builds()]
    majors = (str(build.major) for build in builds)
    return dict.fromkeys((*majors, *(f"{build.origin}:{build.version}" for build in builds)))


def _trees(**_: object) -> "Iterable[str]":
    """The source trees that were built before."""
    from pgassay.environment.source_builds.kept_builds import all_kept

    return [name for _folder, kept in all_kept() for name in kept.names]


def _volumes(prefix: str, action: argparse.Action | None = None, **_: object) -> "Iterable[str]":
    from pgassay.cloud_volumes.catalogue import load_catalogue

    catalogue = load_catalogue().catalogue
    name, comma, rest = prefix.partition(",")
    if not comma:
        is_of_volumes = action is not None and not action.option_strings
        return (*catalogue.volumes, *(_NO_VOLUMES if is_of_volumes else ()))
    return _with_keys(f"{name},", rest, ("size", "iops", "throughput", "credits", "instance", "region"))


def _obtainable(**_: object) -> "Iterable[str]":
    """What `builds install` can be asked for: majors, and each origin's."""
    from pgassay.environment.builds.registry import ORIGINS, offered

    found = [(origin.name, major) for origin in ORIGINS for major in offered(origin)]
    return dict.fromkeys((*(major for _, major in found), *(f"{name}:{major}" for name, major in found)))


def _capabilities(prefix: str, **_: object) -> "Iterable[str]":
    """Names of the doctor's checks that are asked for most, as a list with commas."""
    before, comma, _last = prefix.rpartition(",")
    return [f"{before}{comma}{name}" for name in REQUIRED_OFTEN if name not in before.split(",")]
