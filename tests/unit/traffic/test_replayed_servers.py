"""What a replay asks a server of another version or with other rights."""

from pathlib import Path

from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.model.arm import RemoteServer
from pgassay.traffic.play_plan import right_to_be
from pgassay.traffic.replaying import ReplayRequest, parameters_of
from pgassay.traffic.tables import functions_query


def test_bodies_of_functions_are_asked_as_the_server_knows_them() -> None:
    assert "pg_get_function_sqlbody" not in functions_query(130_023)
    assert "p.prosrc" in functions_query(130_023)
    assert "COALESCE(pg_get_function_sqlbody(p.oid), p.prosrc)" in functions_query(140_000)


def test_a_role_is_taken_where_set_role_may_take_it() -> None:
    # A member without the SET option is refused, and with it all connections of that role.
    assert (right_to_be(150_012), right_to_be(160_000)) == ("MEMBER", "SET")


def test_without_leave_to_write_the_server_itself_refuses_writes() -> None:
    server = RemoteServer(
        name="db1:5432/shop", connection="dbname=shop", host="db1", port=5432, dbname="shop", user="app",
        version="18.0", major=18, encryption="disable",
    )  # fmt: skip
    resolved = Resolved(server, {"dbname": "shop", "options": "-c work_mem=8MB"})
    guarded = parameters_of(ReplayRequest(Path("monday"), "dbname=shop"), resolved)
    assert guarded["options"] == "-c work_mem=8MB -c default_transaction_read_only=on"
    allowed = parameters_of(ReplayRequest(Path("monday"), "dbname=shop", allow_writes="shop"), resolved)
    assert allowed["options"] == "-c work_mem=8MB"
