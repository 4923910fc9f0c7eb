"""Source trees as they are typed: which tree is meant, and what is said where none is."""

import os
import subprocess
from pathlib import Path

import pytest

from pgassay.cli.source_builds import _trees
from pgassay.environment.source_builds.build_step import TreeDoesNotBuildError, first_error, run_step
from pgassay.environment.source_builds.tree_syntax import is_source, parse_source
from pgassay.environment.source_builds.trees import check_out, data_format, find_tree, not_a_clone
from pgassay.errors import UsageError
from samples.builds import source_tree

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return source_tree.clone_of_one(tmp_path / "postgres")


def tree(text: str) -> str:
    return find_tree(parse_source(text)).hash


def test_a_clone_and_its_revision_may_have_an_at_sign_of_their_own(tmp_path: Path) -> None:
    clone = source_tree.clone_of_one(tmp_path / "me@work")
    typed = parse_source(f"git:{clone}@master@{{0}}")
    assert (typed.place, typed.revision) == (clone, "master@{0}")
    assert find_tree(typed).commit == source_tree.git(clone, "rev-parse", "master")


def test_a_worktree_that_is_called_after_its_branch_is_told_from_the_clone(tmp_path: Path) -> None:
    clone = source_tree.clone_of_one(tmp_path / "pg")
    worktree = tmp_path / "pg@fix"
    source_tree.git(clone, "worktree", "add", "--quiet", "-b", "fix", str(worktree))
    for text, place, revision in (
        (f"git:{clone}@fix", clone, "fix"),
        (f"git:{worktree}@HEAD", worktree, "HEAD"),
        (f"git:{worktree}@fix@{{0}}", worktree, "fix@{0}"),
    ):
        typed = parse_source(text)
        assert (typed.place, typed.revision) == (place, revision)
    with pytest.raises(UsageError, match="has no revision: write git:"):
        parse_source(f"git:{clone}")


def test_a_revision_is_the_tree_that_git_has(clone: Path) -> None:
    found = find_tree(parse_source(f"git:{clone}@master"))
    assert found.hash == source_tree.git(clone, "rev-parse", "master^{tree}")
    assert (found.version, found.commit) == ("18.6", source_tree.git(clone, "rev-parse", "HEAD"))


def test_a_folder_is_taken_as_it_is_and_a_clone_is_never_written(clone: Path) -> None:
    committed = tree(f"source:{clone}")
    assert committed == tree(f"git:{clone}@master")
    (clone / "README.md").write_text("not committed\n")
    before = (clone / ".git/index").read_bytes(), source_tree.git(clone, "count-objects")
    assert tree(f"source:{clone}") != committed
    assert tree(f"git:{clone}@master") == committed
    assert ((clone / ".git/index").read_bytes(), source_tree.git(clone, "count-objects")) == before


def test_what_a_build_left_in_a_folder_is_no_part_of_the_tree(tmp_path: Path) -> None:
    folder = source_tree.write_tree(tmp_path / "tree")
    (folder / ".gitignore").write_text("*.o\n")
    clean = tree(f"source:{folder}")
    (folder / "main.o").write_text("built")
    assert tree(f"source:{folder}") == clean


def test_a_clone_within_a_folder_is_refused_since_git_takes_none_of_its_files(tmp_path: Path) -> None:
    folder = source_tree.write_tree(tmp_path / "tree")
    source_tree.clone_of_one(folder / "contrib/extension")
    with pytest.raises(UsageError, match=r"contrib/extension is a clone of its own, .*: remove contrib/ext"):
        tree(f"source:{folder}")


def test_the_account_s_own_patterns_change_no_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = source_tree.write_tree(tmp_path / "tree")
    (folder / "src/backend/kept.c").write_text("int kept;\n")
    usual = tree(f"source:{folder}")
    settings = tmp_path / "settings/git"
    settings.mkdir(parents=True)
    (settings / "ignore").write_text("kept.c\n")
    (settings / "attributes").write_text("*.c text eol=crlf\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings.parent))
    assert tree(f"source:{folder}") == usual
    checked_out = tmp_path / "out"
    check_out(find_tree(parse_source(f"source:{folder}")), checked_out, tmp_path / "index")
    assert (checked_out / "src/backend/kept.c").read_bytes() == b"int kept;\n"


def test_a_tarball_is_the_folder_that_it_holds(tmp_path: Path) -> None:
    source_tree.write_tree(tmp_path / "postgresql-18.6")
    tarball = tmp_path / "postgresql-18.6.tar.gz"
    subprocess.run(["tar", "-czf", tarball, "-C", tmp_path, "postgresql-18.6"], check=True)
    assert tree(f"source:{tarball}") == tree(f"source:{tmp_path / 'postgresql-18.6'}")


def test_a_patch_makes_the_tree_that_its_commit_has(clone: Path, tmp_path: Path) -> None:
    source_tree.commit(
        clone, "patched", "src/backend/other.c", "int other(void);\nint other(void) { return 2; }\n"
    )
    patch = tmp_path / "my.patch"
    patch.write_text(source_tree.git(clone, "diff", "master", "patched") + "\n")
    assert tree(f"git:{clone}@master+patch:{patch}") == tree(f"git:{clone}@patched")
    assert tree(f"source:{clone}+patch:{patch}") == tree(f"git:{clone}@patched")
    with pytest.raises(UsageError, match=r"the patch my\.patch does not apply \(.*other\.c"):
        tree(f"git:{clone}@patched+patch:{patch}")


def test_trees_share_data_while_their_formats_agree(clone: Path) -> None:
    source_tree.commit(clone, "code", "src/backend/other.c", "int other(void) { return 3; }\n")
    source_tree.commit(clone, "bump", "src/include/catalog/catversion.h", "#define CATALOG_VERSION_NO 2\n")
    source_tree.commit(clone, "unknown", "src/include/storage/bufpage.h", "\n")
    formats = {
        branch: data_format(find_tree(parse_source(f"git:{clone}@{branch}")))
        for branch in ("master", "code", "bump", "unknown")
    }
    assert formats["master"] == f"18, catalog {source_tree.CATALOG}, control 1800, page 4, WAL 0xD118"
    assert formats["code"] == formats["master"]
    assert formats["bump"] == "18, catalog 2, control 1800, page 4, WAL 0xD118"
    assert formats["unknown"] == ""
    usual = formats["master"]
    for name, content, words in (
        ("meson_options.txt", "option('blocksize', type: 'combo',\n  value: '16')\n", "blocks of 16 kB"),
        ("meson_options.txt", "option('blocksize', type: 'combo',\n  value: '8')\n", ""),
        ("src/include/pg_config_manual.h", "#define NAMEDATALEN 128\n", "names of 128 bytes"),
        ("src/include/pg_config_manual.h", "#define INDEX_MAX_KEYS\t\t32\n", ""),
    ):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(content)
        assert data_format(find_tree(parse_source(f"source:{clone}"))) == ", ".join(
            filter(None, (usual, words))
        )
        source_tree.git(clone, "checkout", "--quiet", "--force", "master")
        source_tree.git(clone, "clean", "-fdq")


@pytest.mark.parametrize(
    ("version", "major"), [("15.18", 15), ("16devel", 16), ("13.0", 13), ("16beta1", 16)]
)
def test_a_tree_without_meson_says_its_version_in_configure(tmp_path: Path, version: str, major: int) -> None:
    files = source_tree.FILES_OF_MAKE
    configure = files["configure"].replace("16devel", version)
    clone = source_tree.clone_of_one(tmp_path / "old", {**files, "configure": configure})
    found = find_tree(parse_source(f"git:{clone}@master"))
    assert (found.version, found.major, found.has_meson) == (version, major, False)
    assert data_format(found).startswith(f"{major}, catalog")
    assert tree(f"source:{clone}") == found.hash


def test_a_tree_too_old_or_of_something_else_is_refused(clone: Path, tmp_path: Path) -> None:
    old = source_tree.FILES["meson.build"].replace("18.6", "12.3")
    source_tree.commit(clone, "old", "meson.build", old)
    with pytest.raises(UsageError, match=r"is PostgreSQL 12\.3: trees of 13 and newer are built; name a "):
        tree(f"git:{clone}@old")
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match=r"no source tree of PostgreSQL.*no meson\.build or configure"):
        tree(f"source:{tmp_path / 'other'}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("git:", "has no folder: write git:PATH@REVISION"),
        ("git:@master", "has no folder"),
        ("git:/nowhere@master", "there is no folder /nowhere"),
        ("git:{clone}", "has no revision: write git:{clone}@HEAD"),
        ("git:{clone}@nonesuch", "has no revision 'nonesuch'"),
        ("git:{clone}@--all", "has no revision '--all'"),
        ("git:{clone}@master+patch:/nowhere.diff", "no patch /nowhere.diff is there"),
        ("source:/nowhere.tar", "there is no folder and no tarball /nowhere.tar"),
        ("source:", "no tarball named"),
        ("source:{clone}/README.md", "can't be unpacked"),
    ],
)
def test_what_is_not_there_is_said_in_one_sentence(clone: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        tree(text.format(clone=clone))
    sentence = str(raised.value)
    assert said.format(clone=clone) in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("kind", ["bare", "shallow", "worktree", "spaces", "reference", "submodule"])
def test_any_kind_of_clone_has_the_same_tree(clone: Path, tmp_path: Path, kind: str) -> None:
    """None of them is written to, and none needs its own files checked out."""
    master = source_tree.git(clone, "rev-parse", "master^{tree}")
    other = tmp_path / ("other clone, of mine" if kind == "spaces" else "other")
    words = {"bare": ["--bare"], "shallow": ["--depth=1"], "reference": ["--shared"]}
    if kind == "worktree":
        source_tree.git(clone, "worktree", "add", "--quiet", "--detach", str(other))
    elif kind == "submodule":
        outer = source_tree.clone_of_one(tmp_path / "outer")
        allowed = ("-c", "protocol.file.allow=always")
        source_tree.git(outer, *allowed, "submodule", "--quiet", "add", str(clone), "postgres")
        other = outer / "postgres"
    else:
        source = f"file://{clone}" if kind == "shallow" else str(clone)
        source_tree.git(clone, "clone", "--quiet", *words.get(kind, []), source, str(other))
    assert tree(f"git:{other}@HEAD") == master
    assert data_format(find_tree(parse_source(f"git:{other}@HEAD"))).startswith("18, catalog")


def test_tags_and_branches_with_a_slash_are_revisions(clone: Path) -> None:
    source_tree.commit(clone, "me/feature-1", "README.md", "mine\n")
    source_tree.git(clone, "tag", "--annotate", "--message=release", "REL_18/6", "me/feature-1")
    mine = source_tree.git(clone, "rev-parse", "me/feature-1^{tree}")
    names = ("me/feature-1", "REL_18/6", "refs/heads/me/feature-1", "REL_18/6^{commit}", "master@{0}")
    assert [tree(f"git:{clone}@{name}") for name in names[:4]] == [mine] * 4
    assert tree(f"git:{clone}@{names[4]}") == tree(f"git:{clone}@master")


def test_a_revision_that_a_shallow_clone_lacks_is_to_be_fetched(clone: Path, tmp_path: Path) -> None:
    first = source_tree.git(clone, "rev-parse", "master")
    (clone / "README.md").write_text("second\n")
    source_tree.git(clone, "commit", "--quiet", "--all", "--message=second")
    source_tree.git(clone, "clone", "--quiet", "--depth=1", f"file://{clone}", str(tmp_path / "shallow"))
    for revision in (first, "HEAD~1"):
        with pytest.raises(UsageError, match=r"has no revision .* or fetch it first"):
            tree(f"git:{tmp_path / 'shallow'}@{revision}")


def test_a_clone_that_lacks_files_is_told_from_one_of_something_else(clone: Path, tmp_path: Path) -> None:
    (clone / "README.md").write_text("second\n")
    source_tree.git(clone, "commit", "--quiet", "--all", "--message=second")
    source_tree.git(clone, "config", "uploadpack.allowFilter", "true")
    for kind in ("blob:none", "tree:0"):
        partial = tmp_path / kind.replace(":", "-")
        words = ("clone", "--quiet", "--no-checkout", f"--filter={kind}")
        source_tree.git(clone, *words, f"file://{clone}", str(partial))
        with pytest.raises(UsageError, match=r"lacks files: type 'git fetch --refetch --no-filter' in it"):
            tree(f"git:{partial}@HEAD~1")
        source_tree.git(partial, "fetch", "--quiet", "--refetch", "--no-filter")
        assert tree(f"git:{partial}@HEAD~1") == source_tree.git(clone, "rev-parse", "HEAD~1^{tree}")


def test_what_git_sets_for_its_own_hooks_names_no_clone(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = tree(f"git:{clone}@master")
    other = source_tree.clone_of_one(tmp_path / "other", {**source_tree.FILES, "README.md": "other\n"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert tree(f"git:{clone}@master") == master != source_tree.git(other, "rev-parse", "HEAD^{tree}")


def test_a_clone_may_have_a_colon_in_its_name(tmp_path: Path) -> None:
    clone = source_tree.clone_of_one(tmp_path / 'a "clone": mine')
    assert tree(f"git:{clone}@master") == source_tree.git(clone, "rev-parse", "HEAD^{tree}")


def test_what_a_killed_git_left_keeps_nobody_from_a_tree(clone: Path, tmp_path: Path, own_home: Path) -> None:
    folder = source_tree.write_tree(tmp_path / "tree")
    found = tree(f"source:{folder}")
    repository = own_home / "builds" / "source-trees.git"
    (index,) = [path for path in repository.glob("index-*") if path.suffix == ""]
    (repository / f"{index.name}.lock").touch()
    assert tree(f"source:{folder}") == found
    checked_out = tmp_path / "index"
    (tmp_path / "index.lock").touch()
    check_out(find_tree(parse_source(f"git:{clone}@master")), tmp_path / "out", checked_out)
    assert (tmp_path / "out" / "meson.build").is_file()


def test_a_clone_that_git_does_not_trust_can_be_trusted(tmp_path: Path) -> None:
    said = "fatal: detected dubious ownership in repository at '/x y'\nTo add an exception, call:\n\n"
    said += "\tgit config --global --add safe.directory '/x y'\n"
    sentence = str(not_a_clone("git:/x y@master", tmp_path, said, "write source:/x y"))
    assert "if you trust it, type \"git config --global --add safe.directory '/x y'\"" in sentence
    assert "source:" not in sentence


def test_what_is_no_commit_is_refused(clone: Path) -> None:
    for revision in ("master:README.md", "master^{tree}", "", "-1", "a..b", "master master"):
        with pytest.raises(UsageError, match="has no revision"):
            tree(f"git:{clone}@{revision}")


def test_a_folder_without_git_is_no_clone(tmp_path: Path) -> None:
    folder = source_tree.write_tree(tmp_path / "tree")
    with pytest.raises(UsageError, match=f"is not a clone that git reads.*write source:{folder}"):
        tree(f"git:{folder}@master")


def test_every_tree_that_a_command_names_is_built_first() -> None:
    one, two = "git:/a@b", "git:/a@c+patch:/p.diff"
    for word, found in (
        (one, [one]),
        (f"build=18,{one},{two}", [one, two]),
        ("build='git:/a, mine@b',18", ["git:/a, mine@b"]),
        (f"config=build={one}+io_method=sync,build={two}+io_method=worker", [one, two]),
        ("config=18+io_method=sync,18+io_method=worker", []),
        ("io_method=sync,worker", []),
    ):
        assert _trees(word) == found


def test_only_a_tree_is_a_tree() -> None:
    assert [is_source(text) for text in ("git:x@y", "source:x", "18", "apt:18", "/opt/pg")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [
                "FAILED: src/backend/x.p/a.c.o",
                "../src/src/backend/a.c: In function 'f':",
                "../src/src/backend/a.c:12:5: error: 'x' undeclared (first use in this function)",
            ],
            "src/backend/a.c:12: 'x' undeclared (first use in this function)",
        ),
        (['../src/meson.build:12:3: ERROR: Unknown function "x".'], 'meson.build:12: Unknown function "x".'),
        (["../src/src/gram.y:7.3-9: error: syntax error"], "src/gram.y:7: syntax error"),
        (
            ["/usr/bin/ld: a.o: in function `f':", "../src/src/a.c:3: undefined reference to `g'"],
            "src/a.c:3: undefined reference to `g'",
        ),
        (["x.h:1:1: fatal error: y.h: No such file or directory"], "x.h:1: y.h: No such file or directory"),
        (
            ["FAILED: src/libpq.so.5", "/usr/bin/ld: cannot find -lzstd: No such file or directory"],
            "/usr/bin/ld: cannot find -lzstd: No such file or directory",
        ),
        (
            [
                "/home/me/builds/source-work/src/src/backend/a.c:3:1: error: 'x' undeclared",
                "make: *** [all] 2",
            ],
            "src/backend/a.c:3: 'x' undeclared",
        ),
        (
            ["gcc utils/error/elog.o -o postgres", "make[1]: *** No rule to make target 'a.o'.  Stop."],
            "No rule to make target 'a.o'",
        ),
        (
            ["checking for strerror_r... yes", "configure: error: readline library not found", "If you have"],
            "configure: error: readline library not found",
        ),
        (["[1/2] Compiling error.c", "FAILED: src/a.o", "Killed"], "src/a.o"),
        ([], "no error was printed"),
    ],
)
def test_the_first_error_has_its_place_in_the_tree(lines: list[str], said: str) -> None:
    assert first_error(lines) == said


@pytest.mark.parametrize(
    ("said", "is_the_tree"),
    [
        ("a.c:1:1: fatal error: error writing to /tmp/x.s: No space left on device", False),
        ("gcc: fatal error: Killed signal terminated program cc1", False),
        ('a.c:1:1: error: x undeclared\n    1 |  errmsg("Cannot allocate memory", x)', True),
    ],
)
def test_a_machine_at_its_end_is_no_tree_that_does_not_build(
    tmp_path: Path, said: str, is_the_tree: bool
) -> None:
    """A search would leave the commit out for good."""
    command = ["sh", "-c", f"printf '%s\n' '{said}'; exit 1"]
    with pytest.raises(UsageError) as raised:
        run_step("git:x@y", command, {"PATH": os.environ["PATH"]}, tmp_path / "log.txt")
    assert isinstance(raised.value, TreeDoesNotBuildError) is is_the_tree
    assert "\n" not in str(raised.value)
    assert ("type the same again" in str(raised.value)) is not is_the_tree
