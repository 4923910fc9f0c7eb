"""The words of a remote comparison: servers told from factors, and the command line that may be stored."""

import pytest

from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.errors import UsageError
from pgassay.experiment.planning.connections import (
    is_remote,
    refuse_secrets_in,
    storable_command,
    take_servers,
)
from pgassay.experiment.planning.experiment_plan import choose_servers
from pgassay.experiment.planning.provisioned_servers import ProvisionedServers
from pgassay.experiment.planning.remote_servers import RemoteServers
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.server import split_connection_strings
from pgassay.model.arm import RemoteServer

SECRET = "hidden one"
TYPED = f"host=a dbname=d password='{SECRET}'"
STORED = "host=a dbname=d"


def resolved(connection: str, name: str = "a:5432/d") -> Resolved:
    server = RemoteServer(
        name=name, connection=connection, host="a", port=5432, dbname="d", user="u", version="18.1", major=18
    )
    return Resolved(server, {"password": SECRET})


def request(*factors: str, server: str | None = None) -> CompareRequest:
    return CompareRequest(factors=factors, server=server)


def test_a_request_that_names_servers_is_planned_on_them() -> None:
    """Their names are no factor before they have answered; without any all factors are the plan's."""
    here = choose_servers(request("work_mem=1MB,2MB"), lambda _stage, _fraction: None)
    assert isinstance(here, ProvisionedServers) and here.factors == ("work_mem=1MB,2MB",)
    there = choose_servers(request("jit=on,off", "server=host=a"), lambda _stage, _fraction: None)
    assert isinstance(there, RemoteServers) and there.factors == ("jit=on,off",)


def test_servers_are_told_from_factors() -> None:
    assert not is_remote(request("work_mem=1MB,2MB"))
    assert is_remote(request("work_mem=1MB,2MB", server="host=a"))
    typed = take_servers(request("work_mem=1MB,2MB", "Server=host=a dbname=d,host=b dbname=d", "jit=on,off"))
    assert typed.strings == ("host=a dbname=d", "host=b dbname=d")
    assert typed.factors == ("work_mem=1MB,2MB", "jit=on,off")
    assert typed.index == 1 and typed.is_factor
    one = take_servers(request("work_mem=1MB,2MB", "server=host=a dbname=d"))
    assert one.strings == ("host=a dbname=d",) and not one.is_factor


@pytest.mark.parametrize(
    "asked",
    [
        request("server=host=a,host=b", server="host=c"),
        request("server=host=a,host=b", "server=host=c,host=d"),
        request(f"server={TYPED}"),
    ],
)
def test_servers_named_twice_or_alone(asked: CompareRequest) -> None:
    with pytest.raises(UsageError) as refused:
        take_servers(asked)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "words",
    [
        (f"server={TYPED},host=b dbname=d", "--workload", "tpcb"),
        ("--workload", "tpcb", f"SERVER={TYPED},host=b dbname=d"),
    ],
)
def test_a_factor_is_stored_without_the_password(words: tuple[str, ...]) -> None:
    text = next(word for word in words if word.lower().startswith("server="))
    typed = take_servers(request(text))
    found = [resolved(STORED), resolved("host=b dbname=d")]
    stored = storable_command(("pgassay", "compare", *words), typed, found)
    assert SECRET not in " ".join(stored)
    again = next(word for word in stored if word.lower().startswith("server="))
    assert split_connection_strings(again.partition("=")[2]) == (STORED, "host=b dbname=d")
    assert [word for word in stored if word != again] == [
        "pgassay", "compare", *(word for word in words if word != text)
    ]  # fmt: skip


@pytest.mark.parametrize("words", [("--server", TYPED), (f"--server={TYPED}",)])
def test_an_option_is_stored_without_the_password(words: tuple[str, ...]) -> None:
    typed = take_servers(request("work_mem=1MB,2MB", server=TYPED))
    stored = storable_command(("pgassay", "compare", *words, "--blocks", "3"), typed, [resolved(STORED)])
    assert SECRET not in " ".join(stored)
    assert STORED in stored[-3] and stored[-2:] == ("--blocks", "3")


def test_what_holds_a_list_of_hosts_is_stored_so_that_it_is_read_again() -> None:
    strings = ("postgresql://a:1,b:2/d", "host=c options='-c x=1,y=2' dbname=d")
    quoted = ",".join("'" + string.replace("'", "''") + "'" for string in strings)
    typed = take_servers(request(f"server={quoted}"))
    stored = storable_command((f"server={quoted}",), typed, [resolved(string) for string in strings])
    assert split_connection_strings(stored[0].partition("=")[2]) == strings


def test_a_command_with_a_password_is_refused_as_it_would_be_stored() -> None:
    with pytest.raises(UsageError) as refused:
        refuse_secrets_in(f"PGPASSWORD='{SECRET}' psql", [resolved(STORED)], "--swap")
    assert SECRET not in str(refused.value) and "file" in str(refused.value)
    refuse_secrets_in("./swap.sh", [resolved(STORED)], "--swap")
