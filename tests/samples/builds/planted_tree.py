"""PostgreSQL's sources in a throw-away repository, with commits of which it is known what they do.

Its line is `released`, then commits that change nothing of a server's speed up to `quiet`; from there a
branch for each plant, with harmless commits before and behind it.
"""

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import whole_tool
from pgassay.environment.builds.apt import SUITES
from pgassay.environment.debian import suite_archive
from samples.builds.source_tree import git

# Run once for each transaction.
HOT = ("src/backend/tcop/pquery.c", "PortalRun")
# And so is this one, in another file.
WARM = ("src/backend/tcop/postgres.c", "exec_bind_message")
CATALOGUE = "src/include/catalog/catversion.h"
SETTINGS = "src/backend/utils/misc/guc_tables.c"
CLIENT = "src/bin/pgbench/pgbench.c"
NO_INDEX = ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan")
HARMLESS = 50
AROUND = 4
_LOOP = "\tfor (;;)\n\t{"
Edit = Callable[[Path], None]


def distribution_sources(folder: Path, major: str) -> Path:
    """Fetch and unpack the source package of a major with the machine's own apt."""
    archive = suite_archive(SUITES[major].name, f"PostgreSQL {major}")
    archive.refresh()
    sources = folder / "apt.sources"
    sources.write_text(
        "".join(each.stanza().replace("Types: deb\n", "Types: deb-src\n") for each in archive.sources)
    )
    (folder / "lists" / "partial").mkdir(parents=True)
    settings = [f"Dir::Etc::sourcelist={sources}", f"Dir::State::Lists={folder / 'lists'}"]
    apt = ["apt-get", "-q", *(word for each in settings for word in ("-o", each))]
    environment = whole_tool.environment(APT_CONFIG=str(archive.folder / "apt.conf"))
    for words in (["update"], ["source", "--download-only", f"postgresql-{major}"]):
        subprocess.run([*apt, *words], check=True, env=environment, cwd=folder, capture_output=True)
    (tarball,) = folder.glob("*.orig.tar.*")
    subprocess.run(["tar", "-xf", tarball, "-C", folder, "--no-same-owner"], check=True)
    return next(path for path in folder.glob("postgresql-*") if path.is_dir())


def harmless(clone: Path, count: int) -> None:
    """So many commits that change no program: a comment more in a file each, or a word of the README."""
    sources = sorted((clone / "src/backend").rglob("*.c"))
    for _ in range(count):
        number = int(git(clone, "rev-list", "--count", "HEAD"))
        path = clone / "README.md" if number % 5 == 0 else sources[7 * number % len(sources)]
        with path.open("a") as stream:
            stream.write(f"/* harmless {number} */\n")
        commit(clone, f"harmless {number}")


def commit(clone: Path, subject: str, *edits: Edit) -> str:
    """Make a commit of these edits, or of what was edited already; returns its hash."""
    for edit in edits:
        edit(clone)
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", f"--message={subject}")
    return git(clone, "rev-parse", "HEAD")


def branch(clone: Path, name: str, *plants: tuple[str, Sequence[Edit]]) -> list[str]:
    """A branch off `quiet` with these commits, harmless ones around each; returns their hashes."""
    git(clone, "checkout", "--quiet", "-b", name, "quiet")
    found = []
    for subject, edits in plants:
        harmless(clone, AROUND)
        found.append(commit(clone, subject, *edits))
    harmless(clone, AROUND)
    return found


def quiet_line(clone: Path) -> None:
    """From `released` to `quiet`: HARMLESS commits, and what looks like a change of speed and is none."""
    git(clone, "init", "--quiet", "--initial-branch=main")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message=released")
    git(clone, "tag", "released")
    for subject, edits in (
        ("move a function", [moved("src/backend/tcop/pquery.c", "PortalSetResultFormat")]),
        ("a client that sleeps", [replaced(CLIENT, _LOOP, f"{_LOOP}\n\t\tpg_usleep(50L);")]),
        ("does not build", [broken(WARM[0])]),
        ("builds again", [repaired(WARM[0])]),
        ("functions that nobody calls", [unused("src/backend/access/nbtree/nbtsearch.c")]),
    ):
        harmless(clone, HARMLESS // 5)
        commit(clone, subject, *edits)
    git(clone, "tag", "quiet")


def spinning(function: tuple[str, str], spins: int) -> Edit:
    """A function that counts to `spins` before its work; 0: no more, if it did."""
    name = function[0]
    loop = "\t{\n\t\tvolatile int planted = 0;\n\n\t\twhile (planted < %d)\n\t\t\tplanted++;\n\t}\n"

    def edit(clone: Path) -> None:
        text = (clone / name).read_text()
        text = re.sub(re.escape(loop).replace("%d", r"\d+"), "", text)
        begins = re.search(rf"^{function[1]}\([^;{{]*\)\n{{\n", text, re.MULTILINE)
        assert begins is not None, function
        # Declarations come first in PostgreSQL's sources, and need not: a block of its own is C as well.
        (clone / name).write_text(
            text[: begins.end()] + (loop % spins if spins else "") + text[begins.end() :]
        )

    return edit


def moved(name: str, function: str) -> Edit:
    """A function that has a prototype, at the end of its file."""

    def edit(clone: Path) -> None:
        text = (clone / name).read_text()
        body = re.search(rf"^void\n{function}\(.*?^}}\n", text, re.MULTILINE | re.DOTALL)
        assert body is not None, function
        (clone / name).write_text(text.replace(body[0], "") + "\n" + body[0])

    return edit


def replaced(name: str, before: str, after: str) -> Edit:
    """A file with its first such text replaced."""

    def edit(clone: Path) -> None:
        text = (clone / name).read_text()
        assert before in text, (name, before)
        (clone / name).write_text(text.replace(before, after, 1))

    return edit


def broken(name: str) -> Edit:
    """A file with a name that nobody knows."""
    return lambda clone: (clone / name).open("a").write("int broken = nonesuch;\n") and None


def repaired(name: str) -> Edit:
    """The same without it."""
    return replaced(name, "int broken = nonesuch;\n", "")


def unused(name: str) -> Edit:
    """A file with two functions more that nobody calls."""
    text = "".join(
        f"int unused_{place}(int);\nint unused_{place}(int x) {{ return x * {place}; }}\n" for place in (7, 8)
    )
    return lambda clone: (clone / name).open("a").write(text) and None


def another_catalogue(clone: Path) -> None:
    """The catalogue's version, one higher: the servers don't read each other's data."""
    text = (clone / CATALOGUE).read_text()
    number = re.search(r"(?<=CATALOG_VERSION_NO\t)\d+", text)
    assert number is not None
    (clone / CATALOGUE).write_text(text.replace(number[0], str(int(number[0]) + 1)))


def without_indexes(clone: Path) -> None:
    """Another default: no plan uses an index."""
    text = (clone / SETTINGS).read_text()
    for name in NO_INDEX:
        text, count = re.subn(rf"(\t\t&{name},\n\t\t)true,", r"\1false,", text)
        assert count == 1, name
    (clone / SETTINGS).write_text(text)


def seconds_of_a_spin(folder: Path) -> float:
    """How long counting one further takes here, as `spinning` does it."""
    source = folder / "spin.c"
    source.write_text("int main(void) { volatile int planted = 0; while (planted < 300000000) planted++; }\n")
    subprocess.run(["gcc", "-O2", "-o", folder / "spin", source], check=True)
    began = time.perf_counter()
    subprocess.run([folder / "spin"], check=True)
    return (time.perf_counter() - began) / 3e8
