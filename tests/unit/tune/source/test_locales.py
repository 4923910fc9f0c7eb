"""The collation of a copy: its source's where the server has it, a dump's own, else said."""

from pathlib import Path

import pytest

import report_examples
from pgassay.environment.server.initdb import can_have_locale
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.tune.source.locales import Collation, collation_in, locale_of
from pgassay.tune.tune_plan import _as_the_dump_s

BUILD = Build(origin="apt", version="18.1", major=18, bin_directory="/opt/bin", configure="'--with-icu'")
HERE = frozenset({"C", "en_US.utf8"})


def older(major: int, configure: str = "") -> Build:
    return BUILD.model_copy(update={"major": major, "version": f"{major}.1", "configure": configure})


def test_a_locale_of_libc_is_kept_where_this_machine_has_it() -> None:
    assert locale_of(Collation("c", "en_US.UTF-8", ""), HERE, BUILD) == ("en_US.UTF-8", "")
    assert locale_of(Collation("c", "C", ""), frozenset(), BUILD) == ("C", "")
    locale, note = locale_of(Collation("c", "de_DE.UTF-8", ""), HERE, BUILD)
    assert locale == "C"
    assert "de_DE.UTF-8 is not installed" in note
    assert "supports LIKE there but not on the source" in note


@pytest.mark.parametrize(
    ("source", "build", "wanted"),
    [
        (Collation("i", "C", "und-x-icu"), BUILD, "icu:und-x-icu"),
        (Collation("i", "C", ""), older(16), "icu:und"),
        (Collation("b", "C", "C.UTF-8"), older(17), "builtin:C.UTF-8"),
        (Collation("b", "C", "C.UTF-8"), older(16), "C"),
        (Collation("i", "C", "und"), older(17, "'--without-icu'"), "C"),
        (Collation("i", "C", "und"), older(14, "'--with-icu'"), "C"),
    ],
)
def test_other_providers_are_kept_where_the_server_has_them(
    source: Collation, build: Build, wanted: str
) -> None:
    locale, note = locale_of(source, HERE, build)
    assert locale == wanted
    assert bool(note) == (wanted == "C")
    assert can_have_locale(build, locale)


def test_rules_that_the_copy_can_not_have_are_said() -> None:
    locale, note = locale_of(Collation("i", "C", "sv-SE", rules="&V << w"), HERE, BUILD)
    assert locale == "icu:sv-SE"
    assert "(&V << w)" in note and "another order" in note


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            "LOCALE_PROVIDER = icu LOCALE = 'C' ICU_LOCALE = 'sv' ICU_RULES = '&a < ''b'",
            Collation("i", "C", "sv", "UTF8", "&a < 'b"),
        ),
        ("LOCALE_PROVIDER = libc LOCALE = 'en_US.UTF-8'", Collation("c", "en_US.UTF-8", "", "UTF8")),
        ("LC_COLLATE = 'C' LC_CTYPE = 'en_US.UTF-8'", Collation("c", "C", "", "UTF8")),
        ("LOCALE_PROVIDER = icu LOCALE = 'C' ICU_LOCALE = 'sv-SE'", Collation("i", "C", "sv-SE", "UTF8")),
        (
            "LOCALE_PROVIDER = builtin LOCALE = 'C' BUILTIN_LOCALE = 'C.UTF-8'",
            Collation("b", "C", "C.UTF-8", "UTF8"),
        ),
    ],
)
def test_a_dump_names_its_database_s_collation(options: str, expected: Collation) -> None:
    text = f"SET x = 1;\n\nCREATE DATABASE shop WITH TEMPLATE = template0 ENCODING = 'UTF8' {options};\n"
    assert collation_in(text) == expected
    assert collation_in('CREATE TABLE a (b text COLLATE "C");') is None


@pytest.mark.parametrize(
    ("locale", "says"),
    [("C", True), ("POSIX", True), ("builtin:C.UTF-8", True), ("C.utf8", False), ("en_US.utf8", False)],
)
def test_of_a_dump_without_a_collation_it_is_said_what_a_plain_index_proves_nothing_for(
    locale: str, says: bool, tmp_path: Path
) -> None:
    file = tmp_path / "shop.sql"
    head = "--\n-- PostgreSQL database dump\n--\n\n-- Dumped from database version 18.1\n"
    file.write_text(head + "CREATE TABLE orders (customer text);\n")
    dataset = DatasetSpec(kind="dump", source=str(file), locale=locale)
    spec = report_examples.spec({}).model_copy(update={"dataset": dataset})
    kept, (note,) = _as_the_dump_s(spec)
    assert kept == spec and f"and the copy's is {locale}" in note
    assert ("a plain index supports LIKE there" in note) is says
    file.write_text(f"{head}CREATE DATABASE shop WITH LOCALE_PROVIDER = libc LOCALE = 'C';\n")
    assert _as_the_dump_s(spec)[0].dataset.locale == "C" and not _as_the_dump_s(spec)[1]
