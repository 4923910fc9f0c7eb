"""Building source trees from before meson: small ones, by the real configure, make and compiler."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool
from pgassay.cli import source_builds
from pgassay.environment.builds.registry import measured_by_make, resolve
from pgassay.environment.source_builds import build_tools, building, kept_builds
from pgassay.environment.source_builds.build_tools import find_tools
from pgassay.environment.source_builds.recipe import make_recipe_of
from pgassay.environment.source_builds.tree_syntax import parse_source
from pgassay.errors import UsageError
from pgassay.model.build import Build
from samples.builds import source_tree

FILES = source_tree.FILES_OF_MAKE


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(autouse=True)
def _source_tools(require: Callable[..., None]) -> None:
    require("source-tools")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return source_tree.clone_of_one(tmp_path / "postgres", FILES)


def built(*texts: str) -> list[Build]:
    return source_builds.provide(texts, 2, quiet=True)


def log_of(home: Path) -> str:
    return (home / "builds/source-work/log.txt").read_text()


def test_a_tree_without_meson_is_built_in_its_layouts(clone: Path) -> None:
    text = f"git:{clone}@master"
    (build,) = built(text)
    assert (build.version, build.major, resolve(text)) == ("16devel", 16, build)
    assert build.source is not None
    assert "CFLAGS=-O2 -g -fno-omit-frame-pointer -ffunction-sections" in build.source.options
    assert (Path(build.bin_directory).parent / "lib" / "earth.so").is_file()
    assert len(set(build.source.layouts)) == 4
    for number in range(1, 5):
        program = f"{build.at_layout(number).bin_directory}/postgres"
        said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        assert said == "postgres (PostgreSQL) 16devel\n"
    # A server finds its libraries from where it stands.
    sections = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
    assert "[$ORIGIN/../lib]" in sections
    assert source_tree.git(clone, "status", "--porcelain") == ""


def test_assertions_are_on_where_they_are_asked_for(clone: Path) -> None:
    """The two are builds of their own, and each is found by its name."""
    files = {
        "meson_options.txt": "option('cassert', type: 'boolean', value: false)\n",
        "meson.build": source_tree.FILES["meson.build"].replace(
            "executable('postgres'",
            "if get_option('cassert')\n  add_project_arguments('-DASSERTS', language: 'c')\nendif\n"
            "executable('postgres'",
        ),
        "src/backend/other.c": "int other(void);\nint other(void) {\n#ifdef ASSERTS\nreturn 3;\n"
        "#else\nreturn 0;\n#endif\n}\n",
    }
    by_meson = source_tree.clone_of_one(clone.parent / "meson", source_tree.FILES | files)
    plain, checked = f"git:{by_meson}@master", f"git:{by_meson}@master+cassert"
    built(plain, checked)
    for text, status in ((plain, 0), (checked, 3)):
        assert subprocess.run([f"{resolve(text).bin_directory}/postgres"], check=False).returncode == status
    (build,) = built(f"git:{clone}@master+cassert")
    assert build.source is not None and "--enable-cassert" in build.source.options
    with pytest.raises(UsageError, match="pgassay builds build"):
        resolve(f"git:{clone}@master")


def test_a_second_revision_compiles_what_changed(clone: Path, own_home: Path) -> None:
    source_tree.commit(
        clone, "changed", "src/backend/other.c", "int other(void);\nint other(void) { return 7; }\n"
    )
    source_tree.commit(clone, "words", "README.md", "second\n")
    first, second, third = built(*(f"git:{clone}@{name}" for name in ("master", "changed", "words")))
    assert subprocess.run([f"{second.bin_directory}/postgres"], check=False).returncode == 7
    assert third.bin_directory == first.bin_directory
    kept_builds.remove([f"git:{clone}@changed"])
    built(f"git:{clone}@changed")
    assert "-c -o other.o" in log_of(own_home)
    assert "-c -o main.o" not in log_of(own_home)


def test_how_far_it_is_is_told(clone: Path) -> None:
    told: list[float | None] = []
    typed = parse_source(f"git:{clone}@master")
    building.build(typed, 1, lambda _, fraction: told.append(fraction), layouts=1)
    assert [each for each in told if each is not None] == [0.5, 1.0]


def test_a_folder_more_is_configured_anew(clone: Path, own_home: Path) -> None:
    more = FILES["contrib/GNUmakefile.in"] + "\n"
    source_tree.commit(clone, "more", "contrib/GNUmakefile.in", more)
    built(f"git:{clone}@master", f"git:{clone}@more")
    assert "-c -o main.o" in log_of(own_home)


def test_what_does_not_build_is_said_with_its_place_and_the_next_one_builds(clone: Path) -> None:
    source_tree.commit(clone, "broken", "src/backend/other.c", "\nint other(void) { return nonesuch; }\n")
    stopped = FILES["configure"].replace("sources=", "echo 'configure: error: no zlib' >&2; exit 1\nsources=")
    source_tree.commit(clone, "stopped", "configure", stopped)
    with pytest.raises(UsageError) as raised:
        built(f"git:{clone}@broken")
    assert re.search(r"@broken does not build: src/backend/other\.c:2: .*undeclared", str(raised.value))
    with pytest.raises(UsageError, match="@stopped does not build: configure: error: no zlib: name another"):
        built(f"git:{clone}@stopped")
    assert len(built(f"git:{clone}@master")) == 1


def test_trees_that_are_measured_together_are_built_in_one_way(clone: Path) -> None:
    both = source_tree.FILES["meson.build"].replace("18.6", "16devel")
    clone_of_both = source_tree.clone_of_one(clone.parent / "both", {**FILES, "meson.build": both})
    names = [f"git:{clone}@master", f"git:{clone_of_both}@master"]
    assert measured_by_make(names) and not measured_by_make(names[1:])
    (alone,) = built(names[1])
    assert alone.source is not None and "-Dauto_features=disabled" in alone.source.options
    source_builds.provide_named([f"build={','.join(names)}"], quiet=True, layouts=1)
    first, second = (resolve(name).source for name in names)
    assert first is not None and second is not None
    assert first.options == second.options
    assert "--enable-depend" in second.options
    # Asked for alone it is again what it was.
    assert built(names[1]) == [alone]
    with pytest.raises(UsageError, match=r"has no script 'configure', and another tree no meson\.build"):
        new = source_tree.clone_of_one(clone.parent / "new")
        source_builds.provide_named([f"build={names[0]},git:{new}@master"], quiet=True)


def test_a_tree_older_than_what_is_measured_is_built_and_refused_in_trials(
    tmp_path: Path, own_home: Path
) -> None:
    old = {name: text.replace("16devel", "15.18") for name, text in FILES.items()}
    name = f"git:{source_tree.clone_of_one(tmp_path / 'old', old)}@master"
    for words in (("compare", f"build={name},18"), ("bisect", name, name.replace("master", "HEAD"))):
        refused = whole_tool.run(*words, "--workload", "select-only", home=own_home)
        assert refused.returncode == 2, refused.stderr
    refused = whole_tool.run("compare", f"build={name},18", "--workload", "select-only", home=own_home)
    assert refused.stderr.strip().splitlines()[-1] == (
        f"pgassay: {name} is PostgreSQL 15.18, which 'pgassay builds build' builds and pgassay does not "
        "measure: name a revision of 16 or newer"
    )
    assert kept_builds.all_kept() == []
    made = whole_tool.run("builds", "build", name, home=own_home)
    assert made.returncode == 0, made.stderr
    assert "15.18" in made.stdout


def test_without_make_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = build_tools.shutil.which
    monkeypatch.setattr(
        build_tools.shutil, "which", lambda name, **_: None if name == "make" else found(name)
    )
    with pytest.raises(UsageError, match=r"needs make, which this machine lacks: install .* packages make"):
        find_tools(lambda *_: None, by_make=True)


@pytest.mark.parametrize(
    ("help_text", "here", "given"),
    [
        ("  --with-ssl=LIB\n  --with-openssl", ("openssl",), ["--with-ssl=openssl"]),
        ("  --with-openssl", ("openssl",), ["--with-openssl"]),
        ("  --with-openssl", (), []),
        ("  --without-zlib\n  --with-icu", (), ["--without-icu", "--without-zlib"]),
        ("  --without-zlib\n  --with-icu", ("zlib", "icu-i18n"), ["--with-icu", "--with-zlib"]),
    ],
)
def test_libraries_are_used_as_far_as_tree_and_machine_have_them(
    monkeypatch: pytest.MonkeyPatch, help_text: str, here: tuple[str, ...], given: list[str]
) -> None:
    monkeypatch.setattr("pgassay.environment.source_builds.recipe._has", lambda name, _: name in here)
    recipe = make_recipe_of(find_tools(lambda *_: None, by_make=True), help_text, lambda *_: None)
    assert [each for each in recipe.options if each.startswith("--with")] == given
