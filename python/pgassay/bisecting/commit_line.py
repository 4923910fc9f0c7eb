"""The line that is searched: the commits between two revisions of a clone, releases, or a list of builds."""

import os
import re
import shlex
import subprocess
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pgassay.environment.builds.base import RELEASED, check_version, parse_version
from pgassay.environment.builds.registry import MAJOR_MIN, ORIGINS, SOURCE_ORIGIN, check_major, resolve
from pgassay.environment.source_builds.tree_syntax import ASSERTIONS, GIT, PATCH, is_source, parse_source
from pgassay.environment.source_builds.trees import (
    clone_environment,
    how_to_have_all,
    no_revision,
    not_a_clone,
    run_program,
)
from pgassay.errors import UsageError
from pgassay.factors.base import split_levels
from pgassay.model.further_results.bisection import Kind, Place
from pgassay.words import plural

_SHORT = 10
# What no server and no client program is built from.
_NOT_BUILT = re.compile(r"(^|/)(\.git|\.dir-locals|README|COPYRIGHT|HISTORY)|^doc/|^src/test/|\.(md|po)$|^\.")
_RECORD, _FIELD = "\x1e", "\x1f"
_FORMAT = f"--format={_RECORD}%H{_FIELD}%an{_FIELD}%as{_FIELD}%s{_FIELD}"
_RANGE = re.compile(r"^(?P<first>[^.]+(?:\.\d+)?)\.\.(?P<last>.+)$")


@dataclass(frozen=True)
class CommitLine:
    """What is searched, from good to bad. `aside`: commits between the ends that are no candidates.

    warning: of changes in the bad end's worktree that are in none of them, and of releases that are missing;
    '' without any.
    """

    kind: Kind
    places: tuple[Place, ...]
    aside: int = 0
    warning: str = ""


def line_of(words: Sequence[str], path: str | None) -> CommitLine:
    """The line that was typed; raises UsageError for one that has no two ends."""
    if len(words) == 1 and path is None and words[0].startswith(("version=", "build=")):
        name, _, text = words[0].partition("=")
        return _releases(text) if name == "version" else _builds(text)
    if len(words) != 2:
        raise UsageError(
            "bisect takes two revisions of a clone, as 'git:~/postgres@v1 git:~/postgres@HEAD', or one line "
            "of releases or builds without --path, as version=17.0..17.10 or build=npm:17.4,npm:17.5,npm:17.6"
        )
    return _commits(words[0], words[1], path)


def check_builds(line: CommitLine) -> None:
    """Raise UsageError for a build of a list that is not here or is no tree, before any is measured."""
    for place in line.places if line.kind == "builds" else ():
        if is_source(place.build):
            SOURCE_ORIGIN.tree(place.build)
        else:
            check_major(place.build, resolve(place.build))


def _commits(good: str, bad: str, path: str | None) -> CommitLine:
    trees = [parse_source(word) for word in (good, bad) if is_source(word)]
    wrong = next((word for word in (good, bad) if not word.startswith(GIT) or "+patch:" in word), None)
    if any(tree.assertions for tree in trees):
        raise UsageError("bisect builds without assertions, as they are measured: leave '+cassert' out")
    if wrong is not None:
        raise UsageError(
            f"{wrong} is not a revision of a clone: write git:PATH@REVISION, or build={good},{bad} for a list"
        )
    clone = trees[0].place
    # Worktrees of one clone share its commits; each has a HEAD of its own.
    first, last = (_commit(tree.place, tree.text, tree.revision) for tree in trees)
    if _objects(trees[0].place) != _objects(trees[1].place):
        raise UsageError(f"{good} and {bad} are from two clones: name two revisions of one")
    if first == last:
        raise UsageError(f"{good} and {bad} are one commit ({first[:_SHORT]}): name two revisions")
    _refuse_unordered(clone, (good, first), (bad, last))
    _refuse_merged_in(clone, (good, first), (bad, last))
    below = None if path is None else in_clone(clone, path)
    known = _log(clone, f"{first}..{last}", below)
    wanted = [each for each in known if each.is_candidate]
    if not wanted and path is not None:
        raise UsageError(
            f"{good}..{bad} has no commit that changes what is built below {path}: name a path as git "
            "lists it, such as src/backend, or leave --path out"
        )
    if not wanted:
        raise UsageError(
            f"{good}..{bad} has no commit that changes what is built: name two revisions that differ"
        )
    places = [_place(clone, each, passed) for each, passed in zip(wanted, _passed_over(known), strict=True)]
    # The bad end is built as it was typed, whatever of no interest comes after the last candidate.
    places[-1] = places[-1].model_copy(update={"build": f"{GIT}{clone}@{last}"})
    start = Place(name=trees[0].revision, build=f"{GIT}{clone}@{first}")
    warning = _uncommitted(trees[1].place, bad, last)
    return CommitLine("commits", (start, *places), len(known) - len(wanted), warning)


def _uncommitted(clone: Path, bad: str, last: str) -> str:
    """That files of the worktree differ from the bad end, where that is what is checked out there."""
    if _git(clone, ["rev-parse", "--verify", "--quiet", "HEAD"]).stdout.strip() != last:
        return ""
    # Nothing of the clone is written, its index neither.
    words = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]
    changed = len(_git(clone, words).stdout.splitlines())
    if not changed:
        return ""
    return (
        f"{bad} is measured as it is committed: {plural(changed, 'changed file')} of the worktree "
        f"{'is' if changed == 1 else 'are'} not in it: commit to include them"
    )


def _refuse_unordered(clone: Path, good: tuple[str, str], bad: tuple[str, str]) -> None:
    """Raise UsageError unless the second comes after the first; each is what was typed, and its commit."""
    if _contains(clone, bad[1], good[1]):
        return
    base = _git(clone, ["merge-base", good[1], bad[1]]).stdout.strip()
    if base == bad[1]:
        ends = shlex.join([bad[0], good[0]])
        instead = f"name the older one first, as {ends} (it may be the slower one)"
    elif base:
        instead = f"name as the first {shlex.quote(f'{GIT}{clone}@{base[:_SHORT]}')}, where they part"
    elif lacking := how_to_have_all(_objects(clone)):
        instead = f"they have no common commit in it; {lacking}"
    else:
        instead = "they have no common commit in it: name two revisions of one history"
    raise UsageError(f"{bad[0]} does not come after {good[0]} in {clone}: {instead}")


def _refuse_merged_in(clone: Path, good: tuple[str, str], bad: tuple[str, str]) -> None:
    """Raise UsageError where the first came into the second by a merge: what is searched would lack it."""
    words = ["rev-list", "--first-parent", "--reverse", f"{good[1]}..{bad[1]}"]
    line = _git(clone, words).stdout.split()
    if _git(clone, ["rev-parse", "--verify", "--quiet", f"{line[0]}^1"]).stdout.strip() == good[1]:
        return
    # All from the merge on contain it, the bad end among them.
    merge = line[bisect_left(line, True, key=lambda each: _contains(clone, each, good[1]))]
    raise UsageError(
        f"{good[0]} was merged into the line of {bad[0]}, which is searched along its first parents: name as "
        f"the first {shlex.quote(f'{GIT}{clone}@{merge[:_SHORT]}')}, the merge that brought it"
    )


def _contains(clone: Path, commit: str, other: str) -> bool:
    return _git(clone, ["merge-base", "--is-ancestor", other, commit]).returncode == 0


def in_clone(clone: Path, path: str) -> str | None:
    """A path as git lists it; None for the clone itself, which is every path."""
    top = _git(clone, ["rev-parse", "--show-toplevel"]).stdout.strip() or str(clone)
    is_absolute = Path(path).is_absolute()
    absolute = os.path.relpath(os.path.realpath(path), os.path.realpath(top))
    within = absolute if is_absolute else os.path.normpath(path)
    return None if within == "." else within


@dataclass(frozen=True)
class _Commit:
    hash: str
    author: str
    date: str
    subject: str
    is_candidate: bool
    is_built: bool


def _passed_over(known: Sequence[_Commit]) -> list[int]:
    """Before each candidate, how many commits change what is built without being one.

    What comes after the last is in the bad end, and counts as that's.
    """
    found, waiting = [], 0
    for commit in known:
        if commit.is_candidate:
            found.append(waiting)
            waiting = 0
        elif commit.is_built:
            waiting += 1
    found[-1] += waiting
    return found


def _place(clone: Path, commit: _Commit, passed_over: int) -> Place:
    return Place(
        name=commit.hash[:_SHORT],
        build=f"{GIT}{clone}@{commit.hash}",
        subject=commit.subject,
        author=commit.author,
        date=commit.date,
        passed_over=passed_over,
    )


def _log(clone: Path, revisions: str, path: str | None) -> list[_Commit]:
    """The commits of the first parents, oldest first, with whether they are candidates."""
    # With -m the account's log.diffMerges would decide whether a merge lists its files.
    how = ("--first-parent", "--diff-merges=first-parent", "--reverse", "--name-only", "--no-renames")
    result = _git(clone, ["log", *how, _FORMAT, revisions])
    if result.returncode != 0:
        raise UsageError(f"git can't list {revisions} in {clone}: check the clone with 'git fsck'")
    found = []
    for record in result.stdout.split(_RECORD)[1:]:
        commit, author, date, subject, files = record.split(_FIELD)
        names = [name for name in files.split("\n") if name]
        counts = [any(_counts(name, each) for name in names) for each in (path, None)]
        found.append(_Commit(commit, author, date, subject, *counts))
    return found


def _counts(name: str, path: str | None) -> bool:
    """Whether a change of this file may be a candidate."""
    is_below = path is None or name == path.rstrip("/") or name.startswith(f"{path.rstrip('/')}/")
    return is_below and _NOT_BUILT.search(name) is None


def _commit(clone: Path, text: str, revision: str) -> str:
    result = _git(clone, ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"])
    if result.returncode != 0:
        seen = _git(clone, ["rev-parse", "--git-dir"])
        if seen.returncode != 0:
            raise not_a_clone(text, clone, seen.stderr, "name the folder of one")
        raise no_revision(text, clone, revision, _objects(clone))
    return result.stdout.strip()


def _objects(clone: Path) -> Path:
    """The folder of a clone's objects, which is one for all its worktrees."""
    words = ["rev-parse", "--path-format=absolute", "--git-path", "objects"]
    return Path(_git(clone, words).stdout.rstrip("\n")).resolve()


def _git(clone: Path, words: list[str]) -> "subprocess.CompletedProcess[str]":
    # However this account likes its output, and whatever its locale is.
    liked = ("core.quotePath=false", "log.showSignature=false", "i18n.logOutputEncoding=UTF-8")
    command = ["git", "-C", str(clone), *(word for each in liked for word in ("-c", each)), *words]
    try:
        return run_program(command, clone_environment())
    except FileNotFoundError as error:
        raise UsageError("clones are read with git, which is not here: install git") from error


def _builds(text: str) -> CommitLine:
    levels = split_levels("build", text)
    if len(levels) < 2:
        raise UsageError(f"build={text} is one build: name two or more, the good one first")
    return CommitLine("builds", tuple(Place(name=level, build=_pinned(level)) for level in levels))


def _pinned(level: str) -> str:
    """A build with the commit that its revision names now: the search may be continued after that moved."""
    if not level.startswith(GIT):
        return level
    typed = parse_source(level)
    commit = _commit(typed.place, level, typed.revision)
    patches = "".join(f"{PATCH}{path}" for path in typed.patches)
    return f"{GIT}{typed.place}@{commit}{patches}{ASSERTIONS if typed.assertions else ''}"


def _releases(text: str) -> CommitLine:
    match = _RANGE.match(text)
    if match is None:
        raise UsageError(f"version={text} is not a range of releases: write version=17.0..17.10")
    ends = [parse_version(check_version(match[name])) for name in ("first", "last")]
    if ends[0] >= ends[1] or ends[0][0] < MAJOR_MIN:
        raise UsageError(f"version={text}: name the older release first, {MAJOR_MIN}.0 or newer")
    best: Sequence[str] = ()
    for origin in ORIGINS:
        versions = {build.version for build in origin.builds() if build.major >= MAJOR_MIN}
        between = sorted((v for v in versions if ends[0] <= parse_version(v) <= ends[1]), key=parse_version)
        reaches = bool(between) and [parse_version(between[0]), parse_version(between[-1])] == ends
        if reaches and len(between) > len(best):
            best = [f"{origin.name}:{version}" for version in between]
    if not best:
        raise UsageError(
            f"version={text}: no origin has both ends available: run 'pgassay builds install "
            f"npm:{match['first']}..{match['last']}', which fetches those between them too"
        )
    names = [each.partition(":")[2] for each in best]
    missing = [0, *(_missing(*map(parse_version, pair)) for pair in pairwise(names))]
    places = [
        Place(name=name, build=build, passed_over=count)
        for name, build, count in zip(names, best, missing, strict=True)
    ]
    warning = ""
    if count := sum(missing):
        those = "is not installed, and what it" if count == 1 else "are not installed, and what they"
        warning = (
            f"{plural(count, 'release')} of {text} {those} changed counts as the next one's: "
            f"'pgassay builds install npm:{names[0]}..{names[-1]}' fetches them"
        )
    return CommitLine("builds", tuple(places), warning=warning)


def _missing(before: tuple[int, int, int], after: tuple[int, int, int]) -> int:
    """How many minor releases came between two, as far as their numbers say it."""
    if after[1] != RELEASED:
        return 0
    is_of_one_major = before[0] == after[0] and before[1] == RELEASED
    return after[2] - before[2] - 1 if is_of_one_major else after[2]
