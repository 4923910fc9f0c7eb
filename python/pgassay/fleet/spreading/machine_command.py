"""The command that each machine runs, made from what was typed for one host, and the files that it names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pgassay.errors import UsageError
from pgassay.factors import prepare, server, sql
from pgassay.factors.base import level_text
from pgassay.model.redaction import without_secrets
from pgassay.workloads import pgbench, replay
from pgassay.workloads.statements import file_of

# What the coordinator decides, or does itself: not a machine's.
_OWN_WITH_VALUE = frozenset(
    {"--fleet", "--spread", "--blocks", "--max-time", "--seed", "--out", "--fail-if", "--html"}
)
_OWN = frozenset(
    {
        "--json",
        "--markdown",
        "--text",
        "--details",
        "--quiet",
        "--no-wait",
        "--redact",
        "--plan",
        "--all-blocks",
    }
)
_REFUSED = frozenset({"--server", "--swap", "--before-trial", "--vcpus", "--allow-writes"})
# Of options and factors those whose values name files.
_FILE = re.compile(r"^(sql|maintenance|dump|script):(?P<path>[^,]+)")
_PREPARE = "prepare"
_CONTROL = "--control"
_INCLUDED = re.compile(rb"^\s*\\(?:i|ir|include|include_relative)\s+['\"]?([^\s'\"]+)", re.M)
_INCLUDED_MAX = 1000


@dataclass
class MachineCommand:
    """The words, and by the path under which they name it each file's own path here.

    levels: of factors those that name a file, as typed, and what they are called on the machines.
    """

    words: list[str] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)


def machine_command(typed: Sequence[str]) -> MachineCommand:
    """What each machine is given of the words after `pgassay compare`.

    A file that was named by a path relative to this folder keeps that name on every machine; another one is
    put in files/. Raises UsageError for what a fleet can't run, a password, and a file that is not there.
    """
    made = MachineCommand()
    words = iter(typed)
    for word in words:
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option in _REFUSED or _factor_name(word.partition("=")[0]) == server.NAME:
            raise UsageError(
                f"{option.partition('=')[0]}: a fleet's machines run servers of their own, and several that "
                "load one server would disturb each other: leave --fleet out"
            )
        if option in _OWN:
            continue
        if option in _OWN_WITH_VALUE:
            if not equals:
                next(words, None)
            continue
        if option.startswith("--") and option in ("--workload", "--dataset", "--prepare"):
            value = value if equals else next(words, "")
            made.words += [option, _of_option(option, value, made)]
        elif option == _CONTROL:
            made.words += [option, value if equals else next(words, "")]
        elif not option.startswith("-") and "=" in word:
            made.words.append(_of_factor(word, made))
        else:
            made.words.append(word)
    # Known once all factors are: the option may stand before its own.
    for place, word in enumerate(made.words[:-1]):
        if word == _CONTROL:
            made.words[place + 1] = _level_there(made.words[place + 1], made)
    for word in made.words:
        if without_secrets(word) != word:
            raise UsageError(
                "a password in the command would lie in the records of every machine: put it into each "
                "machine's own password file"
            )
    return made


def _of_option(option: str, value: str, made: MachineCommand) -> str:
    if option == "--prepare":
        return _sent(value, made) if value.endswith(".sql") else value
    if value.startswith(f"{replay.FAMILY}:"):
        raise UsageError(
            f"{value}: a capture holds users' data and is not sent to other machines: compare it on this one"
        )
    match = _FILE.match(value)
    if match is None:
        family, colon, options = value.partition(":")
        return f"{family}{colon}{pgbench.with_files(options, lambda path: _sent(path, made))}"
    path = match["path"]
    return value.replace(path, _sent(path, made), 1)


def _of_factor(word: str, made: MachineCommand) -> str:
    typed, _, levels = word.partition("=")
    name = _factor_name(typed)
    sent: list[str] = []
    if name == sql.NAME:
        found = sql.KIND.split(name, levels)
        sent = [_of_sql(level, made) for level in found]
        made.levels.update(zip(found, sent, strict=True))
    elif name == _PREPARE:
        found = prepare.split(name, levels)
        sent = [_sent(level, made) if level.endswith(prepare.FILE_SUFFIX) else level for level in found]
        made.levels.update(zip(found, sent, strict=True))
        # What names no file travels as it was typed.
        sent = sent if sent != list(found) else []
    return f"{name}={','.join(map(level_text, sent))}" if sent else word


def _factor_name(typed: str) -> str:
    return typed.strip().lower()


def _level_there(typed: str, made: MachineCommand) -> str:
    """A level that --control names, by itself or as NAME=LEVEL, as it is called on the machines."""
    name, equals, level = typed.partition("=")
    if equals and level in made.levels:
        return f"{name}={made.levels[level]}"
    return made.levels.get(typed, typed)


def _of_sql(level: str, made: MachineCommand) -> str:
    """A level of `sql`: a file, perhaps with options of its own."""
    path = file_of(level)
    return f"{_sent(path, made)}{level.removeprefix(path)}"


def _sent(path: str, made: MachineCommand) -> str:
    """The name of a file on the machines, with what it includes taken along."""
    source = Path(path)
    if not source.is_file():
        raise UsageError(f"{path} is not a file here: name one that can be sent to the machines")
    plain = PurePosixPath(path)
    name = path if not plain.is_absolute() and ".." not in plain.parts else f"files/{plain.name}"
    taken = made.files.get(name)
    if taken is not None and taken.resolve() != source.resolve():
        raise UsageError(f"{taken} and {path} have the same name: rename one of them")
    if taken is None:
        made.files[name] = source
        _send_included(source, PurePosixPath(name), made)
    return name


def _send_included(source: Path, name: PurePosixPath, made: MachineCommand) -> None:
    """What psql's \\i and \\ir name, so far as it lies beside or below the file that includes it."""
    if source.suffix != ".sql" or len(made.files) > _INCLUDED_MAX:
        return
    for match in _INCLUDED.finditer(source.read_bytes()):
        included = match[1].decode("utf-8", "replace")
        beside = source.parent / included
        if PurePosixPath(included).is_absolute() or not beside.is_file():
            continue
        if ".." in PurePosixPath(included).parts:
            raise UsageError(
                f"{source} includes {included}: put it next to or below the file, so it is sent too"
            )
        place = str(name.parent / included)
        if place not in made.files:
            made.files[place] = beside
            _send_included(beside, PurePosixPath(place), made)
