"""A dump's own collation is that of the copy: read from the archive, and a cluster is made with it."""

from pathlib import Path

import pytest

from pgassay.environment.server.initdb import can_have_locale, make_cluster
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.model.arm import DatasetSpec
from pgassay.tune.source.locales import collation_of_dump, installed_locales, locale_of
from server_helpers import best_build, own_home
from source_servers import source_server

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.mark.parametrize(
    ("options", "wanted", "shown"),
    [
        ("LOCALE_PROVIDER icu ICU_LOCALE 'sv-SE' LOCALE 'C'", "icu:sv-SE", ("i", "sv-SE")),
        pytest.param(
            "LOCALE_PROVIDER icu ICU_LOCALE 'sv-SE' ICU_RULES '&V << w' LOCALE 'C'",
            "icu:sv-SE",
            ("i", "sv-SE"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'",
            "builtin:C.UTF-8",
            ("b", "C.UTF-8"),
            marks=pytest.mark.slow,
        ),
        ("LOCALE 'C.utf8'", "C.utf8", ("c", None)),
    ],
)
def test_an_archive_s_collation_becomes_the_copy_s(
    options: str, wanted: str, shown: tuple[str, str | None], tmp_path: Path
) -> None:
    build = best_build()
    if not can_have_locale(build, wanted):
        pytest.skip(f"PostgreSQL {build.version} of {build.origin} has no such provider")
    file = tmp_path / "shop.dump"
    with source_server(build) as server:
        server.execute(f"CREATE DATABASE shop TEMPLATE template0 ENCODING 'UTF8' {options}")
        words = ["-h", str(server.folder), "-p", str(server.port), "-U", "postgres", "--format=custom"]
        made = server.folder / "shop.dump"
        server.run("pg_dump", *words, "--file", str(made), "shop")
        made.rename(file)
    found = collation_of_dump(build, file)
    assert found is not None
    locale, note = locale_of(found, installed_locales(), build)
    assert locale == wanted
    assert ("&V << w" in note) is bool(note) is ("ICU_RULES" in options)
    with own_home() as folder:
        data = folder / "data" / "cluster"
        make_cluster(build, data, DatasetSpec(locale=locale, encoding=found.encoding))
        with Server(build, data, {}) as copy, control(copy) as session:
            row = session.execute(
                "SELECT datlocprovider::text, coalesce(datlocale, datcollate) FROM pg_database "
                "WHERE datname = 'postgres'"
            ).fetchone()
    assert row is not None
    assert row[0] == shown[0]
    assert shown[1] is None or row[1] == shown[1]
