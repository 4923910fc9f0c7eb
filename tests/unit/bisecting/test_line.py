"""Which commits are candidates: those that change something that is built, below the path if there is one."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pgassay.bisecting import commit_line
from pgassay.bisecting.commit_line import line_of
from pgassay.errors import UsageError
from samples.builds.source_tree import clone_of_one, git

CHANGES = (
    ("doc/src/sgml/ref/vacuum.sgml", "a word"),
    ("src/backend/main.c", "/* one */"),
    ("src/test/regress/sql/boolean.sql", "SELECT 1;"),
    ("src/bin/initdb.c", "/* two */"),
    ("src/backend/access/README", "three"),
    ("src/backend/other.c", "/* four */"),
    ("README.md", "five"),
)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with a commit for each of CHANGES behind the tag v1."""
    clone = clone_of_one(tmp_path_factory.mktemp("clone"))
    git(clone, "tag", "v1")
    for name, content in CHANGES:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        with (clone / name).open("a") as stream:
            stream.write(f"{content}\n")
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", f"--message=change {name}")
    return clone


def test_commits_that_change_nothing_that_is_built_are_no_candidates(clone: Path) -> None:
    line = line_of([f"git:{clone}@v1", f"git:{clone}@master"], None)
    assert [place.subject for place in line.places[1:]] == [
        "change src/backend/main.c",
        "change src/bin/initdb.c",
        "change src/backend/other.c",
    ]
    assert line.aside == 4
    assert line.places[0].name == "v1"
    # The bad end is the tree that was typed, with what came after the last candidate.
    assert line.places[-1].build == f"git:{clone}@{git(clone, 'rev-parse', 'master')}"
    assert line.places[-1].name == git(clone, "rev-parse", "master~1")[:10]
    assert {place.author for place in line.places[1:]} == {"Somebody"}


def test_a_path_leaves_out_what_lies_elsewhere(clone: Path) -> None:
    ends = [f"git:{clone}@v1", f"git:{clone}@master"]
    for path in ("src/backend/", "./src/backend", f"{clone}/src/backend"):
        line = line_of(ends, path)
        assert len(line.places) == 3
        assert line.aside == 5
        assert [place.passed_over for place in line.places] == [0, 0, 1], "src/bin/initdb.c before other.c"
    assert sum(place.passed_over for place in line_of(ends, None).places) == 0
    assert [place.passed_over for place in line_of(ends, "src/bin").places] == [0, 2], "one before, one after"
    assert line_of(ends, str(clone)) == line_of(ends, ".") == line_of(ends, None)


def test_what_a_merge_brings_is_one_candidate(clone: Path) -> None:
    git(clone, "checkout", "--quiet", "-b", "feature", "v1")
    for number in range(3):
        (clone / "src/backend/feature.c").write_text(f"/* {number} */\n")
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", f"--message=step {number}")
    git(clone, "checkout", "--quiet", "-b", "merged", "master")
    git(clone, "merge", "--quiet", "--no-ff", "--message=the feature", "feature")
    git(clone, "checkout", "--quiet", "master")
    line = line_of([f"git:{clone}@master", f"git:{clone}@merged"], None)
    assert [place.subject for place in line.places[1:]] == ["the feature"]


def merge_in(clone: Path, side: str, into: str) -> str:
    """Merge a branch of one commit on v1 into a new one on master, which is checked out then: the merge."""
    git(clone, "checkout", "--quiet", "-B", side, "v1")
    (clone / f"src/backend/{side}.c").write_text(f"/* {side} */\n")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", f"--message={side}")
    git(clone, "checkout", "--quiet", "-B", into, "master")
    git(clone, "merge", "--quiet", "--no-ff", f"--message={into}", side)
    return git(clone, "rev-parse", "HEAD")


def test_a_good_end_that_was_merged_in_is_refused(clone: Path) -> None:
    """What is searched are first parents, of which those before the merge do not contain it."""
    merge = merge_in(clone, "side", "with-side")
    (clone / "src/backend/main.c").write_text("/* later */\n")
    git(clone, "commit", "--quiet", "--all", "--message=later")
    git(clone, "checkout", "--quiet", "master")
    bad = f"git:{clone}@with-side"
    with pytest.raises(UsageError, match=f"side was merged into the line of .*@{merge[:10]}, the merge"):
        line_of([f"git:{clone}@side", bad], None)
    line = line_of([f"git:{clone}@{merge[:10]}", bad], None)
    assert [place.subject for place in line.places[1:]] == ["later"]


@pytest.mark.parametrize("liked", ["off", "combined"])
def test_a_merge_is_a_candidate_however_the_account_likes_merges_shown(clone: Path, liked: str) -> None:
    merge_in(clone, "apart", "joined")
    git(clone, "checkout", "--quiet", "master")
    git(clone, "config", "log.diffMerges", liked)
    line = line_of([f"git:{clone}@master", f"git:{clone}@joined"], None)
    git(clone, "config", "--unset", "log.diffMerges")
    assert [place.subject for place in line.places[1:]] == ["joined"]


def test_a_path_through_a_link_is_the_one_that_it_leads_to(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(clone)
    ends = [f"git:{clone}@v1", f"git:{clone}@master"]
    assert line_of(ends, f"{tmp_path}/link/src/backend") == line_of(ends, "src/backend")


def test_releases_that_are_not_installed_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(*versions: str) -> None:
        builds = [SimpleNamespace(version=each, major=int(each.partition(".")[0])) for each in versions]
        origin = SimpleNamespace(name="npm", builds=lambda: builds)
        monkeypatch.setattr(commit_line, "ORIGINS", (origin,))

    installed("17.0", "17.2", "17.10", "18.1")
    line = line_of(["version=17.0..17.10"], None)
    assert [place.passed_over for place in line.places] == [0, 1, 7]
    said = "8 releases of 17.0..17.10 are not installed, and what they changed counts as the next one's: "
    assert line.warning == f"{said}'pgassay builds install npm:17.0..17.10' fetches them"
    # Nobody knows which minor was the last of a major.
    assert [place.passed_over for place in line_of(["version=17.2..18.1"], None).places] == [0, 7, 1]
    installed("17.0", "17.1")
    assert line_of(["version=17.0..17.1"], None).warning == ""
    for text in ("17.0..17.1,17.2", "17.0..17.1foo"):
        with pytest.raises(UsageError, match="is not a PostgreSQL version"):
            line_of([f"version={text}"], None)


def test_a_list_of_builds_keeps_its_order() -> None:
    line = line_of(["build=npm:18,npm:16,npm:17"], None)
    assert [place.name for place in line.places] == ["npm:18", "npm:16", "npm:17"]


def test_the_clone_is_read_that_was_typed_and_not_the_one_that_git_runs_us_from(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a hook of another repository does, and 'git bisect run' in a worktree."""
    ends = [f"git:{clone}@v1", f"git:{clone}@master"]
    found = line_of(ends, "src/backend")
    other = clone_of_one(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert line_of(ends, "src/backend") == found


def test_worktrees_of_a_clone_are_one_and_each_has_a_head_of_its_own(clone: Path, tmp_path: Path) -> None:
    worktree = tmp_path / "my worktree"
    git(clone, "worktree", "add", "--quiet", "--detach", str(worktree), "v1")
    line = line_of([f"git:{worktree}@HEAD", f"git:{clone}@HEAD"], None)
    assert [place.subject for place in line.places] == [
        each.subject for each in line_of([f"git:{clone}@v1", f"git:{clone}@HEAD"], None).places
    ]
    other = clone_of_one(tmp_path / "other")
    with pytest.raises(UsageError, match="are from two clones: name two revisions of one"):
        line_of([f"git:{clone}@v1", f"git:{other}@master"], None)


def test_a_revision_with_an_at_sign_keeps_its_name(clone: Path) -> None:
    line = line_of([f"git:{clone}@master@{{3}}", f"git:{clone}@master"], None)
    assert line.places[0].name == "master@{3}"


def test_changes_that_are_not_committed_are_told_of_the_bad_end_that_is_checked_out(tmp_path: Path) -> None:
    clone = clone_of_one(tmp_path / "clone")
    git(clone, "tag", "v1")
    (clone / "src/backend/main.c").write_text("/* one */\n")
    git(clone, "commit", "--quiet", "--all", "--message=one")
    git(clone, "branch", "other", "master")
    ends = [f"git:{clone}@v1", f"git:{clone}@master"]
    assert line_of(ends, None).warning == ""
    (clone / "notes.txt").write_text("of no tree\n")
    (clone / "src/backend/main.c").write_text("/* two */\n")
    index = (clone / ".git/index").stat().st_mtime_ns
    said = line_of(ends, None).warning
    assert said.startswith(f"{ends[1]} is measured as it is committed: 1 changed file of the worktree is not")
    assert (clone / ".git/index").stat().st_mtime_ns == index
    git(clone, "stash")
    assert line_of(ends, None).warning == ""
    git(clone, "stash", "pop")
    git(clone, "checkout", "--quiet", "--force", "--detach", "v1")
    (clone / "src/backend/main.c").write_text("/* three */\n")
    assert line_of(ends, None).warning == "", "the bad end is not what is checked out"


def test_names_are_read_however_the_account_likes_its_output(tmp_path: Path) -> None:
    clone = clone_of_one(tmp_path / "clone")
    git(clone, "tag", "v1")
    (clone / "src/backend/main.c").write_text("/* one */\n")
    author = "Álvaro <a@example.org>"
    git(clone, "commit", "--quiet", "--all", f"--author={author}", "--message=Größe")
    git(clone, "config", "i18n.logOutputEncoding", "ISO-8859-1")
    place = line_of([f"git:{clone}@v1", f"git:{clone}@master"], None).places[1]
    assert (place.author, place.subject) == ("Álvaro", "Größe")


def test_a_branch_in_a_list_is_the_commit_that_it_was(clone: Path, tmp_path: Path) -> None:
    """A search that is continued after somebody committed would mix the builds of both."""
    git(clone, "branch", "--force", "moving", "v1")
    patch = tmp_path / "my.patch"
    patch.write_text(git(clone, "diff", "v1", "master") + "\n")
    typed = [f"git:{clone}@moving", f"git:{clone}@moving+patch:{patch}", "npm:18"]
    first = git(clone, "rev-parse", "v1")
    line = line_of([f"build={','.join(typed)}"], None)
    assert [place.name for place in line.places] == typed
    wanted = [f"git:{clone}@{first}", f"git:{clone}@{first}+patch:{patch}", "npm:18"]
    assert [place.build for place in line.places] == wanted
    git(clone, "branch", "--force", "moving", "master")
    assert line_of([f"build={','.join(typed)}"], None).places != line.places
