"""fleet.toml is read as it was written, and a wrong one is refused with what is wrong."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.errors import UsageError
from pgassay.fleet.cluster import fleet_file
from pgassay.fleet.cluster.fleet_file import Certificates, FleetFile, MachineEntry
from pgassay.fleet.cluster.host_shares import divide_cores

CERTIFICATES = Certificates(authority=Path("/a b/ü.pem"), certificate=Path('/"c"'), key=Path("/k\\ey"))
FLEET = FleetFile(
    id="0123456789ab",
    kind="local",
    scheduler="tls://[::1]:8786",
    folder=Path("/var/cache/pgassay/fleet/nodes/0123456789ab"),
    certificates=CERTIFICATES,
    machine=(
        MachineEntry(name="local-1", host="aa", is_part_of_host=True, cores=(0, 2), memory_bytes=1 << 30),
        MachineEntry(name="host2", host="bb", ssh="me@host2", port=8787),
    ),
)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    fleet_file.write(FLEET, path)
    assert fleet_file.read(path) == FLEET
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "PRIVATE KEY" not in path.read_text()


def test_which_machine_a_worker_counts_as_is_declared_by_name(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    fleet = FLEET.model_copy(update={"counts_as": {"pod-a-*": "node 1", 'b"*': "node 2", "*": "the rest"}})
    fleet_file.write(fleet, path)
    found = fleet_file.read(path)
    assert found == fleet
    names = ("pod-a-x7", "pod-b-x7", 'b"c')
    assert [found.declared(name) for name in names] == ["node 1", "the rest", "node 2"]
    assert FLEET.declared("pod-a-x7") == ""


@given(
    st.lists(NAMES, unique=True, max_size=4),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30),
)
def test_any_name_and_path_survive(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], text: str
) -> None:
    path = tmp_path_factory.mktemp("fleet") / "fleet.toml"
    certificates = CERTIFICATES.model_copy(update={"key": Path("/") / text})
    machines = tuple(MachineEntry(name=name, host="h", home=Path("/", text)) for name in names)
    fleet = FLEET.model_copy(update={"certificates": certificates, "machine": machines})
    fleet_file.write(fleet, path)
    assert fleet_file.read(path) == fleet


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "local"', 'kind = "remote"', "kind"),
        ("tls://[::1]:8786", "tcp://[::1]:8786", "scheduler"),
        ('id = "0123456789ab"', 'id = "../../etc"', "id"),
        ('name = "host2"', 'name = "local-1"', "two machines are called 'local-1'"),
        ('name = "host2"', 'name = "-oProxyCommand=sh"', "is not a name of a machine"),
        ("port = 8787", "port = 87870", "port"),
        ('ssh = "me@host2"', 'shh = "me@host2"', "shh"),
        ("[certificates]", "[certificate]", "certificate"),
        ("[certificates]", "[certificates", "is not TOML"),
        ("format = 1", "format = 2", "format"),
    ],
)
def test_a_wrong_one_is_refused_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "fleet.toml"
    text = FLEET.to_toml()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=r"fleet\.toml") as refused:
        fleet_file.read(path)
    assert said in str(refused.value)


def test_a_missing_one_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pgassay fleet start"):
        fleet_file.read(tmp_path / "fleet.toml")


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("fleet") / "fleet.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        fleet_file.read(path)


def test_hyperthreads_of_a_core_stay_together() -> None:
    """Four cores with two threads each, numbered as most machines do: 0 and 4 are one core."""
    siblings = [(cpu % 4, cpu % 4 + 4) for cpu in range(8)]
    assert divide_cores(siblings, 2) == [(0, 1, 4, 5), (2, 3, 6, 7)]
    assert divide_cores(siblings, 3) == [(0, 4), (1, 5), (2, 6)]
    with pytest.raises(UsageError, match="has 4 cores"):
        divide_cores(siblings, 5)


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 8))
def test_parts_are_equal_and_apart(cores: int, threads: int, count: int) -> None:
    siblings = [tuple(range(core, cores * threads, cores)) for core in range(cores) for _ in range(threads)]
    if cores < count:
        with pytest.raises(UsageError):
            divide_cores(siblings, count)
        return
    parts = divide_cores(siblings, count)
    assert {len(part) for part in parts} == {cores // count * threads}
    assert len({cpu for part in parts for cpu in part}) == sum(map(len, parts))
    assert not {cpu % cores for cpu in parts[0]} & {cpu % cores for part in parts[1:] for cpu in part}
