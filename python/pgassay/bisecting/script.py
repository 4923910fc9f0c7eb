"""A script for `git bisect run`, for those who drive the search themselves."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from pgassay.bisecting.commit_line import CommitLine, in_clone
from pgassay.environment.source_builds.tree_syntax import GIT, parse_source
from pgassay.errors import UsageError
from pgassay.factors.base import level_text

# Of the search or of what it prints: each step is a comparison of its own.
_DROPPED = ("--script", "--path", "--out", "--max-time", "--margin", "--profile-rounds", "--html")
_FLAGS = ("--quiet", "--no-wait", "--json", "--markdown", "--text", "--profile")
_COMMIT = "COMMIT"
_TEXT = """#!/bin/sh
# For 'git bisect run': 0 is good, 1 is bad. 125 skips a commit: it does not build, its trials fail, or it
# can't be distinguished from the good end in {time}. 128 and above end the search, which the next run
# continues. Each commit is measured in the same blocks as the good end.
# Bad is what is slower than the good end; write speed-up to look for what is faster.
sought=slow-down
commit=$(git rev-parse HEAD) || exit 128
[ "$commit" = {first} ] && exit 0
# Files among the options were named from here.
cd {here} || exit 128
answer=$(pgassay bisect build={builds} {options} \\
  --margin {margin} --max-time {time} --quiet --json 2>&1)
ended=$?
[ "$ended" = 0 ] || printf '%s\\n' "$answer" >&2
case $ended in
  0) ;;
  1) exit 125 ;;
  2) case $answer in *"@$commit does not build: "*) exit 125 ;; *) exit 128 ;; esac ;;
  *) [ "$ended" -gt 128 ] && exit "$ended"; exit 128 ;;
esac
case $answer in
  *'"headline": "The '"$sought of "*) exit 1 ;;
  *'"verdict": "found"'* | *'"verdict": "no difference"'*) exit 0 ;;
  *) exit 125 ;;
esac
"""
EXECUTABLE = 0o755


def write_script(
    target: Path,
    line: CommitLine,
    words: Sequence[str],
    margin: float,
    time_s: float,
    path: str | None = None,
) -> str:
    """Write the script for a line of commits; returns how it is used.

    words: the command line, whose options of trials the script keeps. time_s: of each comparison. path: git
    is to try only commits that change something below it. Raises UsageError for a line without commits and a
    file that can't be written.
    """
    if line.kind != "commits":
        raise UsageError("--script is for two revisions of a clone: 'git bisect' knows no releases")
    good, bad = (line.places[end].build for end in (0, -1))
    clone = parse_source(good).place
    # A level with a comma stands in quotes of its own.
    before, _, behind = level_text(f"{GIT}{clone}@{_COMMIT}").rpartition(_COMMIT)
    quoted = shlex.quote(f"{level_text(good)},{before}"), shlex.quote(behind)
    text = _TEXT.format(
        first=good.rpartition("@")[2],
        here=shlex.quote(str(Path.cwd())),
        builds=f'{quoted[0]}"$commit"{quoted[1] if behind else ""}',
        options=shlex.join(_kept(words)),
        margin=margin,
        time=f"{time_s:.0f}s",
    )
    try:
        target.write_text(text, encoding="utf-8")
        target.chmod(EXECUTABLE)
    except OSError as error:
        raise UsageError(
            f"can't write {target} ({error.strerror}): name another file with --script"
        ) from error
    ends = " ".join(build.rpartition("@")[2][:10] for build in (bad, good))
    below = None if path is None else in_clone(clone, path)
    only = "" if below is None else f" -- {shlex.quote(f':/{below}')}"
    return (
        f"cd {shlex.quote(str(clone))}\n"
        f"git bisect start --first-parent {ends}{only}\n"
        f"git bisect run {shlex.quote(str(target.absolute()))}"
    )


def _kept(words: Sequence[str]) -> list[str]:
    """The options of trials: without the command, the ends, and what is the search's own."""
    kept: list[str] = []
    values = iter(words[2:])
    for word in values:
        name, equals, _ = word.partition("=")
        if not word.startswith("--"):
            continue
        if name in _FLAGS:
            continue
        value = "" if equals else next(values, "")
        if name not in _DROPPED:
            kept += [word] if equals else [word, value]
    return kept
