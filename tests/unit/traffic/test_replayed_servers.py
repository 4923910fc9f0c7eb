"""What a replay asks a server of another version or with other rights."""

from pgassay.traffic.play_plan import right_to_be
from pgassay.traffic.tables import functions_query


def test_bodies_of_functions_are_asked_as_the_server_knows_them() -> None:
    assert "pg_get_function_sqlbody" not in functions_query(130_023)
    assert "p.prosrc" in functions_query(130_023)
    assert "COALESCE(pg_get_function_sqlbody(p.oid), p.prosrc)" in functions_query(140_000)


def test_a_role_is_taken_where_set_role_may_take_it() -> None:
    # A member without the SET option is refused, and with it all connections of that role.
    assert (right_to_be(150_012), right_to_be(160_000)) == ("MEMBER", "SET")
