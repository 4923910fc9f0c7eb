"""What a replay asks a server of another version or with other rights."""

from pgassay.traffic.tables import functions_query


def test_bodies_of_functions_are_asked_as_the_server_knows_them() -> None:
    assert "pg_get_function_sqlbody" not in functions_query(130_023)
    assert "p.prosrc" in functions_query(130_023)
    assert "COALESCE(pg_get_function_sqlbody(p.oid), p.prosrc)" in functions_query(140_000)
