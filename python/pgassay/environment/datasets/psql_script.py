r"""Scripts with psql's own commands (`\copy`, `\i`, `\set`): which files they read, and psql to run them.

Data are made once and used again, so all that decides them must be known beforehand: the files that a script
names are part of what it holds. What a shell or another server would say can't be, and is refused. The
commands are those of psql's manual; where they end follows src/fe_utils/psqlscan.l and psqlscanslash.l.
"""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.builds.registry import ORIGINS
from pgassay.environment.datasets.base import DATABASE, content_sha256
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.program_errors import said_on_failure
from pgassay.environment.server.programs import clean_environment
from pgassay.environment.server.server_folder import PORT, SUPERUSER
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.build import Build
from pgassay.sql_text import COPY_IN, strip_comments, token_at
from pgassay.value_syntax.paths import typed_path

# pg_dump writes these two around a dump, so that psql takes no command from its data.
HARMLESS = frozenset({"restrict", "unrestrict"})
# What they bring is in no file: a shell's output, another server's rows, the environment's values.
_REFUSED = {
    "!": "runs a shell",
    "c": "leaves the database that is being made",
    "connect": "leaves the database that is being made",
    "cd": "changes where files are looked for",
    "getenv": "reads the environment",
    "setenv": "changes the environment",
    "password": "asks for a password",
    "prompt": "waits for an answer",
    "e": "opens an editor",
    "edit": "opens an editor",
    "lo_import": "may read any file",
    "watch": "never ends",
    "q": "ends the script early",
    "quit": "ends the script early",
}
_INCLUDES = {"i": False, "include": False, "ir": True, "include_relative": True}
# What follows a command ends at the next backslash outside quotes; that of \copy and \! at the line's end.
_COMMAND = re.compile(
    r"""\\(?:(?P<line>copy\b|!)(?P<all>[^\n]*)
      |(?P<name>[A-Za-z_]+|[^\sA-Za-z])(?P<rest>(?:'(?:[^'\\\n]|\\.|'')*'|"[^"\n]*"|[^\\\n])*))""",
    re.VERBOSE,
)
_COPY_END = re.compile(r"^\\\.[ \t]*\r?$", re.MULTILINE)
_COPY = re.compile(r"\s*copy\b", re.IGNORECASE)
_COPY_SOURCE = re.compile(
    r"\bfrom\s+(?:(?P<program>program)\b|(?P<here>stdin)\b|(?P<other>pstdin)\b|'(?P<quoted>(?:[^']|'')*)'"
    r"|(?P<plain>\S+))",
    re.IGNORECASE,
)
_TO_PROGRAM = re.compile(r"\bto\s+program\b", re.IGNORECASE)
_PARENTHESES = re.compile(r"\([^()]*\)")
# psql ends with 3 for a statement that failed under ON_ERROR_STOP (its manual, "Exit Status").
_SCRIPT_FAILED = 3


@dataclass(frozen=True)
class MetaCommand:
    """A command of psql in a script: its name without the backslash, what follows on its line, its line."""

    name: str
    rest: str
    line: int


@dataclass(frozen=True)
class SqlPart:
    """SQL of a script up to a semicolon, a command of psql or the end, and where in the script it ends.

    `words`: the same with comments blanked and strings emptied.
    """

    text: str
    words: str
    end: int


def meta_commands(text: str, source: str) -> Iterator[MetaCommand]:
    r"""The commands of psql in a script, in order; not those two that pg_dump writes.

    Raises UsageError for a quote that never closes.
    """
    return (part for part in script_parts(text, source) if isinstance(part, MetaCommand))


def script_parts(text: str, source: str) -> Iterator[MetaCommand | SqlPart]:
    """What a script consists of, in order; raises as `meta_commands`.

    Data below COPY … FROM stdin are passed over. A function's body BEGIN ATOMIC … END is several parts.
    """
    position = begin = 0
    while position < len(text):
        token = token_at(text, position, source)
        backslash = token.text.find("\\") if token.kind == "other" else -1
        if backslash < 0 and token.kind != "semicolon":
            position = token.end
            continue
        command = _COMMAND.match(text, position + backslash) if backslash >= 0 else None
        if backslash >= 0 and command is None:
            position += backslash + 1
            continue
        end = command.start() if command is not None else position
        part = SqlPart(text[begin:end], strip_comments(text[begin:end]), end)
        if part.words.strip():
            yield part
        if command is None:
            takes_data = COPY_IN.match(part.words) is not None
            position = token.end
        else:
            found = _command(command, text)
            if found.name not in HARMLESS:
                yield found
            source_of_copy = _copy_source(found.rest) if found.name == "copy" else None
            takes_data = source_of_copy is not None and bool(source_of_copy.group("here"))
            position = command.end()
        # `\g` and its like send what stands before them; the next statement begins behind them.
        position = begin = _after_data(text, position) if takes_data else position
    part = SqlPart(text[begin:], strip_comments(text[begin:]), len(text))
    if part.words.strip():
        yield part


def _command(match: re.Match[str], text: str) -> MetaCommand:
    name = match.group("line") or match.group("name")
    rest = (match.group("all") or match.group("rest") or "").strip()
    return MetaCommand(name, rest, text.count("\n", 0, match.start()) + 1)


def _after_data(text: str, position: int) -> int:
    newline = text.find("\n", position)
    end = _COPY_END.search(text, newline + 1) if newline >= 0 else None
    return end.end() if end else len(text)


def _copy_source(rest: str) -> re.Match[str] | None:
    """Where a `\\copy` reads from; None for one that writes. Parentheses hold columns or a query."""
    before = None
    while before != rest:
        before, rest = rest, _PARENTHESES.sub(" ", rest)
    return _COPY_SOURCE.search(rest)


def files_read(path: Path, read: Callable[[Path], str]) -> tuple[Path, ...]:
    """Every file that a script reads, itself first; () for a script without a command of psql.

    Names are looked up as psql does: from the folder that pgassay is started in, with `\\ir` from the
    script's own. Raises UsageError for a command whose outcome no file decides, a name that is made up only
    when it runs, and a file that is not there.
    """
    files, has_commands = _read_by(path, read)
    return files if has_commands else ()


def script_sha256(path: Path, read: Callable[[Path], str]) -> str:
    """One hash of all that decides what a script makes: of the files that it reads, and of those that the
    server reads for it; raises as `files_read`."""
    files, has_commands = _read_by(path, read)
    return files_sha256(files) if has_commands or len(files) > 1 else content_sha256(path)


def _read_by(path: Path, read: Callable[[Path], str]) -> tuple[tuple[Path, ...], bool]:
    """The files, the script first, and whether it has commands of psql."""
    found: list[Path] = []
    # What a script writes and reads again is no source of it.
    written: set[Path] = set()
    has_commands = False
    waiting: list[tuple[Path, tuple[Path, ...]]] = [(path, ())]
    while waiting:
        script, chain = waiting.pop(0)
        if script in chain:
            raise UsageError(f"{script} includes itself: take that \\i out")
        if script in found:
            continue
        found.append(script)
        text = read(script)
        for part in script_parts(text, str(script)):
            if isinstance(part, SqlPart):
                _add_copied(part, script, text, found, written)
                continue
            has_commands = True
            named = _named(part, script)
            if named is None:
                continue
            file, is_script = named
            if not file.is_file():
                raise UsageError(
                    f"{script}, line {part.line}: there is no {file}: names begin at the folder that "
                    "pgassay is started in, those of \\ir at the script's"
                )
            if is_script:
                waiting.append((file, (*chain, script)))
            elif file not in found:
                found.append(file)
    return tuple(found), has_commands


def _add_copied(part: SqlPart, script: Path, text: str, found: list[Path], written: set[Path]) -> None:
    """Add the file that a COPY has the server read; of one that is not there the server tells."""
    copy = server_copy(part.text) if _COPY.match(part.words) else None
    if copy is None:
        return
    if copy.is_program or copy.is_variable:
        why = "runs a program" if copy.is_program else "takes its file's name from a variable"
        line = text.count("\n", 0, part.end) + 1
        raise UsageError(
            f"{script}, line {line}: COPY {why}, but the content of the data must be known beforehand: "
            "write the rows into a file, and name that"
        )
    file = Path(copy.file)
    if not copy.is_read:
        written.add(file)
    elif file.is_absolute() and file not in (*found, *written) and file.is_file():
        found.append(file)


def _named(command: MetaCommand, script: Path) -> tuple[Path, bool] | None:
    """The file that a command reads, and whether it is a script; None where it reads none."""
    where = f"{script}, line {command.line}: \\{command.name}"
    if command.name in _REFUSED:
        raise UsageError(
            f"{where} {_REFUSED[command.name]}, but the content of the data must be known "
            "beforehand: leave it out"
        )
    if "`" in command.rest:
        raise UsageError(
            f"{where} takes the output of a shell, but the content of the data must be known beforehand: "
            "write it into a file"
        )
    if command.name in _INCLUDES:
        folder = script.parent if _INCLUDES[command.name] else Path.cwd()
        name = _unquoted(command.rest, where)
        return folder / typed_path(name), True
    if command.name == "copy":
        source = _copy_source(command.rest)
        if source is None and _TO_PROGRAM.search(command.rest):
            raise UsageError(f"{where} runs a shell: leave it out")
        if source is None or source.group("here"):
            return None
        if source.group("program") or source.group("other"):
            raise UsageError(
                f"{where} reads from outside of files, but the content of the data must be known "
                "beforehand: write the rows into a file"
            )
        quoted, plain = source.group("quoted"), source.group("plain")
        name = quoted.replace("''", "'") if quoted is not None else plain
        if plain is not None and plain.startswith(":"):
            raise UsageError(f"{where} takes no variable in its file's name: write the name itself")
        return Path.cwd() / typed_path(name), False
    if command.rest.lstrip("( ").startswith("|") and command.name in ("g", "gx", "o", "out", "w", "write"):
        raise UsageError(f"{where} runs a shell: leave it out")
    return None


def _unquoted(text: str, where: str) -> str:
    """The file's name after `\\i`; raises UsageError for none, and for one with a variable."""
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return text[1:-1].replace("''", "'")
    name = text.split()[0] if text else ""
    if not name:
        raise UsageError(f"{where} names no file: write one after it")
    if ":" in name:
        raise UsageError(f"{where} {name}: its file's name is made of a variable: write the name itself")
    return name


def files_sha256(files: tuple[Path, ...]) -> str:
    """One hash of all that a script reads, in the order that it names it."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{content_sha256(file)}\n".encode())
    return digest.hexdigest()


def psql_for(build: Build) -> Path:
    """The build's own psql, else that of the newest build at hand, else PATH's; raises UsageError."""
    own = Path(build.bin_directory) / "psql"
    if own.exists():
        return own
    others = sorted((other for origin in ORIGINS for other in origin.builds()), key=lambda each: -each.major)
    for other in others:
        program = Path(other.bin_directory) / "psql"
        if program.exists():
            return program
    on_path = shutil.which("psql")
    if on_path is None:
        raise UsageError(
            "the script has psql commands but psql is not available: install PostgreSQL's client "
            "programs, or take a build that has them, --pg apt:18"
        )
    return Path(on_path)


def run_by_psql(server: Server, psql: Path, script: Path) -> None:
    """Run a script as `psql -f` does, as the account that runs pgassay, which can read the user's files.

    Raises UsageError with psql's own words for a statement or command that fails, MeasurementError when the
    server does not answer.
    """
    words = ["--no-psqlrc", "--quiet", "--no-password", "--set", "ON_ERROR_STOP=1", "--output", "/dev/null"]
    address = ["--host", str(server.socket_directory), "--port", str(PORT)]
    done = subprocess.run(
        [psql, *words, *address, "--username", SUPERUSER, "--dbname", DATABASE, "--file", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=clean_environment() | {"PSQL_HISTORY": "/dev/null"},
        check=False,
    )
    if done.returncode == 0:
        return
    said = said_on_failure(done.stderr)
    if done.returncode in (1, _SCRIPT_FAILED) and server.is_running():
        raise UsageError(f"psql stopped in {script} ({said}): correct it and run again")
    raise MeasurementError(f"psql failed while running {script}: {said}")


@dataclass(frozen=True)
class ServerCopy:
    """`file`: its name as written, '' where there is none. `is_read`: rows come from it, else they go there.

    `is_variable`: psql puts a variable's value there.
    """

    file: str
    is_read: bool
    is_program: bool = False
    is_variable: bool = False


def server_copy(statement: str) -> ServerCopy | None:
    """What a statement copies; None for any other, and for COPY FROM stdin or TO stdout.

    The syntax is that of PostgreSQL's manual, COPY.
    """
    depth = 0
    tokens = _words(statement)
    if next(tokens, "").lower() != "copy":
        return None
    for text in tokens:
        depth += {"(": 1, ")": -1}.get(text, 0)
        # A query in parentheses has a FROM of its own.
        if depth == 0 and text.lower() in ("from", "to"):
            return _at(next(tokens, ""), is_read=text.lower() == "from")
    return None


def _at(text: str, *, is_read: bool) -> ServerCopy | None:
    if text.lower() == "program":
        # Where rows go to decides nothing of the data.
        return ServerCopy("", is_read, is_program=True) if is_read else None
    if text.startswith(":"):
        return ServerCopy("", is_read, is_variable=True) if is_read else None
    if text.endswith("'"):
        return ServerCopy(_constant_value(text), is_read)
    return None


def _constant_value(text: str) -> str:
    is_escaped = text[0] in "eE"
    name = text[text.index("'") + 1 : -1].replace("''", "'")
    return name.replace("\\'", "'").replace("\\\\", "\\") if is_escaped else name


def _words(statement: str) -> Iterator[str]:
    position = 0
    while position < len(statement):
        token = token_at(statement, position, "COPY")
        position = token.end
        text = token.text.strip()
        if text and token.kind not in ("line_comment", "block_comment"):
            yield text
