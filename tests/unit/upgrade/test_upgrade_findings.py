"""Findings of settings and of a refused schema, without a server; the order of the answer."""

from pathlib import Path

import pytest

from pgassay.environment.builds.base import Origin
from pgassay.model.build import Build
from pgassay.model.upgrades.upgrade_answer import StatementVerdict, UpgradeFinding
from pgassay.model.workload import Statement
from pgassay.upgrade.both_versions import (
    CALLS_WHAT_WRITES,
    ComparedStatement,
    SeenInVersion,
    _compared,
)
from pgassay.upgrade.builds_of_both import NeededOfBuild, chosen_builds
from pgassay.upgrade.catalogs import GivenSetting, _defaults, _settings_gone, _settings_refused
from pgassay.upgrade.chosen_statements import Wanted
from pgassay.upgrade.copied_source import LeftOut
from pgassay.upgrade.empty_server import KnownSetting, NewVersion, Refused, _refused
from pgassay.upgrade.read_source import SourceRead, left_out_of
from pgassay.upgrade.upgrade_answer import _counted, answer_of, findings_of_refused, single_statements

BUILD = Build(origin="apt", version="19.1", major=19, bin_directory="/nowhere")


def new(**settings: KnownSetting) -> NewVersion:
    return NewVersion(BUILD, settings, frozenset({"old_name"}), {})


def given(name: str, value: str, boot: str = "", source: str = "configuration file") -> GivenSetting:
    return GivenSetting(name, value, boot, source, "postgresql.conf, line 7", value)


def test_only_what_somebody_set_and_the_new_version_lacks_is_in_the_way() -> None:
    settings = {
        each.name: each
        for each in (
            given("gone", "1"), given("unset", "1", source="default"), given("old_name", "1"),
            given("library.thing", "1"), given("kept", "1"), given("of_a_role", "1", source="user"),
            given("of_a_database", "1", source="database"),
        )
    }  # fmt: skip
    found = list(_settings_gone(settings, new(kept=KnownSetting("1", "integer"))))
    assert [each.id for each in found] == ["setting-gone:gone"]
    assert found[0].severity == "in the way" and found[0].where == "postgresql.conf, line 7"


@pytest.mark.parametrize(
    ("value", "known", "said"),
    [
        ("5", KnownSetting("1", "integer", least="0", most="4"), "takes 0 to 4"),
        ("4", KnownSetting("1", "integer", least="0", most="4"), ""),
        ("0.5", KnownSetting("1", "real", least="1", most="2"), "takes 1 to 2"),
        ("fast", KnownSetting("on", "enum", words=("on", "off")), "takes only on, off"),
        ("on", KnownSetting("on", "enum", words=("on", "off")), ""),
        ("anything", KnownSetting("", "string"), ""),
    ],
)
def test_a_value_that_the_new_version_refuses_is_in_the_way(
    value: str, known: KnownSetting, said: str
) -> None:
    found = list(_settings_refused({"a": given("a", value)}, new(a=known)))
    assert [each.sentence.partition(", and 19 ")[2] for each in found] == ([said] if said else [])


def test_defaults_count_where_nobody_set_them_and_no_host_decides() -> None:
    settings = {
        each.name: each
        for each in (
            given("jit", "on", "on", "default"), given("work_mem", "4096", "4096"),
            given("log_connections", "off", "off", "default"), given("config_file", "a", "a", "override"),
            given("same", "1", "1", "default"),
        )
    }  # fmt: skip
    known = {
        "jit": KnownSetting("off", "bool"), "work_mem": KnownSetting("8192", "integer"),
        "log_connections": KnownSetting("", "string"), "config_file": KnownSetting("b", "string"),
        "same": KnownSetting("1", "integer"),
    }  # fmt: skip
    found = list(_defaults(settings, new(**known)))
    assert [each.id for each in found] == ["default:jit"]
    assert found[0].remedy == "to keep the current value, set jit = on"


@pytest.mark.parametrize(
    ("statement", "kind", "name"),
    [
        ('CREATE VIEW public."Odd name" AS SELECT 1', "view", 'public."Odd name"'),
        ("\n--\n-- Name: f\n--\nCREATE OR REPLACE FUNCTION public.f() RETURNS int", "function", "public.f"),
        ("CREATE MATERIALIZED VIEW public.m AS SELECT 1", "materialized view", "public.m"),
        ("ALTER TABLE ONLY public.t ADD CONSTRAINT c CHECK (a > 0)", "table", "public.t"),
        ("CREATE EXTENSION IF NOT EXISTS adminpack WITH SCHEMA x", "extension", "adminpack"),
        ("CREATE USER MAPPING FOR clinic_app SERVER far OPTIONS (", "user mapping for", "clinic_app"),
        ("CREATE UNLOGGED TABLE public.t (a int)", "table", "public.t"),
        ("CREATE FOREIGN TABLE public.t (a int)", "foreign table", "public.t"),
        ("CREATE UNIQUE INDEX i ON public.t (a)", "unique index", "i"),
        ("GRANT ALL ON t TO x", "statement", "GRANT ALL ON t TO x"),
    ],
)
def test_a_refused_object_has_its_kind_and_name(statement: str, kind: str, name: str) -> None:
    refused = _refused(statement, "no")
    assert (refused.kind, refused.name, refused.words) == (kind, name, "no")


def test_what_breaks_comes_first_and_decides(tmp_path: Path) -> None:
    names = ("fine", "broken", "other", "both", "moving")
    found = {
        "fine": ComparedStatement("", "", True, (1, 1), ()),
        "broken": ComparedStatement("", "no column", False, (1, 0), ()),
        "other": ComparedStatement("", "", False, (1, 1), ("Sort is gone",)),
        "both": ComparedStatement("no", "no", False, (0, 0), ()),
        "moving": ComparedStatement("", "", False, (1, 1), (), varies=True),
    }

    def answer(*chosen: str, findings: tuple[UpgradeFinding, ...] = ()):  # type: ignore[no-untyped-def]
        statements = [Statement(name=each, sql="SELECT 1") for each in chosen]
        return answer_of(
            source=("db:5432/shop", "16.1"), versions=("16.14", "18.4"), folder=tmp_path, findings=findings,
            measured=single_statements(statements, {}, (), found, None),
            mended={}, result=None, experiment="", margin=0.1, warnings=(),
        )  # fmt: skip

    whole = answer(*names)
    assert not whole.interrupted and '"interrupted"' not in whole.model_dump_json()
    assert [each.verdict for each in whole.statements] == [
        "fails", "other rows", "not decided", "not decided", "fails on both",
    ]  # fmt: skip
    assert whole.decision == "look"
    assert whole.headline.startswith(
        "From 16.14 to 18.4: check the statements below first. Of 5 statements: 1 fails"
    )
    assert answer("fine").decision == "go"
    work = UpgradeFinding(id="a", severity="work", sentence="a")
    assert answer("fine", findings=(work,)).decision == "go after work"
    blocks = UpgradeFinding(id="b", severity="in the way", sentence="b")
    found_last = answer("broken", findings=(work, blocks))
    assert found_last.decision == "in the way" and [each.id for each in found_last.findings] == ["b", "a"]


@pytest.mark.parametrize(
    ("sql", "verdict"),
    [
        ("SELECT * FROM checkpoints WHERE n = $1", "fails"),
        ('SELECT * FROM t, public."checkpoints" c', "fails"),
        ("SELECT * FROM shop.checkpoints", "fails on both"),
        ("SELECT * FROM checkpoint", "fails on both"),
    ],
)
def test_a_statement_on_a_view_that_was_left_out_fails_on_the_new_version(sql: str, verdict: str) -> None:
    lacking = 'relation "checkpoints" does not exist'
    seen = {"a": ComparedStatement(lacking, lacking, False, (0, 0), ())}
    refused = [Refused("view", "public.checkpoints", "no column"), Refused("table", "shop.checkpoints", "no")]
    (found,) = single_statements([Statement(name="a", sql=sql)], {}, (), seen, None, refused=refused)
    assert found.verdict == verdict
    if verdict == "fails":
        assert found.reason.endswith("view public.checkpoints, which the new version refuses: no column")


@pytest.mark.parametrize(
    ("number", "verdict", "told"),
    [(1, "fails on both", "fails on both"), (2, "fails on both", "fail on both"), (2, "slower", "slower")],
)
def test_the_first_line_counts_in_the_plural(number: int, verdict: StatementVerdict, told: str) -> None:
    assert _counted(number, verdict) == f"{number} {told}"


def test_what_a_refused_table_takes_along_is_told_with_it() -> None:
    lacking = 'relation "public.members" does not exist'
    found = findings_of_refused(
        [
            Refused("table", "public.members", 'type "public.citext" does not exist'),
            Refused("sequence", "public.members_id_seq", lacking),
            Refused("table", "public.members", lacking), Refused("index", "members_name", lacking),
            Refused("view", "public.old", "column x does not exist"),
            Refused("view", "public.of_old", 'relation "public.old" does not exist'),
        ]
    )  # fmt: skip
    assert [each.where for each in found] == ["table public.members", "view public.old", "view public.of_old"]
    assert found[0].sentence.endswith(
        "; nor can 2 objects that need it (sequence public.members_id_seq, index members_name)"
    )
    # Nobody is told to drop a table.
    assert "drop" not in found[0].remedy and "drop it before" in found[1].remedy


@pytest.mark.parametrize(
    ("entry", "is_kept"),
    [
        ("233; 1259 16626 VIEW public old postgres", False),
        ("234; 1259 16630 MATERIALIZED VIEW shop Odd name postgres", False),
        ("3430; 0 16630 MATERIALIZED VIEW DATA shop Odd name postgres", False),
        ("3431; 0 0 COMMENT public VIEW old postgres", False),
        ("4; 3079 16497 EXTENSION - adminpack ", False),
        ("3437; 0 0 COMMENT - EXTENSION adminpack ", False),
        ("232; 1259 16621 VIEW public older postgres", True),
        ("235; 1259 16621 VIEW shop old postgres", True),
        ("236; 1259 16621 TABLE public old_data postgres", True),
        ("2; 3079 16385 EXTENSION - pg_trgm ", True),
        ("; Archive created at 2026-11-28", True),
        ("3432; 0 0 COMMENT public COLUMN old.n postgres", False),
        ('3433; 0 0 COMMENT shop MATERIALIZED VIEW "Odd name" postgres', False),
        ('3434; 0 0 COMMENT shop COLUMN "Odd name".n postgres', False),
        ("3435; 2618 16700 RULE public old old_insert postgres", False),
        ("3436; 2620 16701 TRIGGER public old old_update postgres", False),
        ("3437; 0 0 COMMENT public TRIGGER old_update ON old postgres", False),
        ("3438; 2604 16702 DEFAULT public old n postgres", False),
        ("3439; 1259 16703 INDEX shop Odd name_n postgres", False),
        ('3440; 0 0 COMMENT shop INDEX "Odd name_n" postgres', False),
        ("3441; 1259 16704 INDEX public Odd name_n postgres", True),
        ("3442; 2620 16705 TRIGGER public older old_update postgres", True),
        ("3443; 0 0 COMMENT public COLUMN older.n postgres", True),
        ('3444; 0 0 COMMENT - EXTENSION "uuid-ossp" ', False),
    ],
)
def test_an_archive_is_restored_without_what_the_new_version_refuses(entry: str, is_kept: bool) -> None:
    views = (("view", "public.old"), ("materialized view", 'shop."Odd name"'))
    left_out = LeftOut(views, ("adminpack", "uuid-ossp"), behind=('"Odd name_n"',))
    assert left_out.is_kept(entry) is is_kept


def test_missing_extensions_are_dropped_together_since_one_may_need_another() -> None:
    left_out = LeftOut((("view", "public.v"),), ("postgis", "postgis_topology", "uuid-ossp"))
    assert left_out.statements() == [
        "DROP VIEW IF EXISTS public.v CASCADE",
        'DROP EXTENSION IF EXISTS "postgis", "postgis_topology", "uuid-ossp"',
    ]
    assert left_out.options()[-1] == '--exclude-extension="uuid-ossp"'


def test_what_goes_with_a_refused_view_stops_nothing() -> None:
    lacking = 'relation "shop.Odd name" does not exist'
    refused = [
        Refused("materialized view", 'shop."Odd name"', "no column"),
        Refused("unique index", '"Odd name_n"', lacking), Refused("trigger", "old_update", lacking),
    ]  # fmt: skip
    build = Build(origin="apt", version="18.1", major=18, bin_directory="/nowhere")

    def left_out(*more: Refused) -> LeftOut:
        read = SourceRead((), [*refused, *more], Wanted((), {}, ()), {}, "")
        return left_out_of(read, build, is_physical=False)

    assert left_out() == LeftOut((("materialized view", 'shop."Odd name"'),), behind=('"Odd name_n"',))
    (found,) = findings_of_refused(refused)
    assert found.sentence.endswith(
        'nor can 2 objects that need it (unique index "Odd name_n", trigger old_update)'
    )
    assert left_out(Refused("trigger", "t", 'function "f" does not exist')).stops
    assert left_out(Refused("function", "public.f", lacking)).stops, "no option of pg_dump leaves it out"


class Having(Origin):
    """An origin with a build of each version, with these extensions."""

    def __init__(self, name: str, extensions: tuple[str, ...], configure: str = "", minor: int = 1) -> None:
        self._builds = [
            Build(
                origin=name, version=f"{major}.{minor}", major=major, bin_directory=f"/{name}/{major}",
                extensions=extensions, configure=configure,
            )
            for major in (16, 18)
        ]  # fmt: skip

    def builds(self) -> list[Build]:
        return self._builds


@pytest.mark.parametrize(
    ("extensions", "icu", "levels"),
    [
        ((), False, ("16", "18")),
        (("pg_trgm",), False, ("build=whole:16", "build=whole:18")),
        ((), True, ("build=whole:16", "build=whole:18")),
        # Nobody has it: the usual ones, and a finding says what is missing.
        (("postgis",), False, ("16", "18")),
    ],
)
def test_builds_that_have_what_the_source_uses_go_first(
    extensions: tuple[str, ...], icu: bool, levels: tuple[str, str]
) -> None:
    origins = (Having("bare", (), "--without-icu"), Having("whole", ("pg_trgm",)))
    assert chosen_builds(("16", "18"), NeededOfBuild(extensions, icu), origins).levels == levels


@pytest.mark.parametrize(
    ("release", "origin"), [("16.3", "older"), ("16.4", "newer"), ("16.1", "newer"), ("15.3", "newer")]
)
def test_of_builds_that_have_it_all_the_source_s_own_release_goes_first(release: str, origin: str) -> None:
    origins = (Having("newer", (), minor=4), Having("older", (), minor=3))
    assert chosen_builds(("16", "18"), NeededOfBuild((), False, release), origins).old.origin == origin


@pytest.mark.parametrize(
    ("before", "after", "verdict", "words"),
    [
        (SeenInVersion(seconds={"a": 1.0}), SeenInVersion(unended={"a": 9.0}), "slower", "on the new one"),
        (SeenInVersion(unended={"a": 9.0}), SeenInVersion(seconds={"a": 1.0}), "faster", "on the old one"),
        # What took nearly as long may have met a busy machine.
        (SeenInVersion(seconds={"a": 6.0}), SeenInVersion(unended={"a": 9.0}), "not decided", "new version"),
        (SeenInVersion(unended={"a": 9.0}), SeenInVersion(unended={"a": 9.0}), "not run", "on either"),
        (
            SeenInVersion(errors={"a": CALLS_WHAT_WRITES}), SeenInVersion(errors={"a": CALLS_WHAT_WRITES}),
            "not run", "calls a function that writes",
        ),
    ],
)  # fmt: skip
def test_what_did_not_end_is_no_failure(
    before: SeenInVersion, after: SeenInVersion, verdict: str, words: str
) -> None:
    statement = Statement(name="a", sql="SELECT a()")
    compared = dict(_compared([statement], before, after))
    (found,) = single_statements([statement], {}, (), compared, None)
    assert found.verdict == verdict and words in found.reason
