"""The contract settings and the check of an arm's settings, asked of the real server."""

import pytest

import capabilities
from pgassay.environment.builds import io_uring_gates
from pgassay.environment.linux import machine
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import connect, control
from pgassay.environment.server.settings import baseline_settings, classify, describe_settings, equal_value
from pgassay.environment.server.validation import build_settings, effective, validate_settings
from pgassay.errors import UsageError
from server_helpers import TINY_SETTINGS, best_build, empty_cluster, own_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.fixture(scope="module")
def build():
    # Both look into the machine's home, which the tests' own one then replaces.
    capabilities.missing("io_uring")
    return best_build()


@pytest.fixture(scope="module")
def home(build):
    assert build  # found in the machine's home, before this one replaces it
    with own_home() as folder:
        yield folder


@pytest.fixture(scope="module")
def contract(build):
    return baseline_settings(build, writes=False, memory_bytes=machine.memory_bytes())


def test_the_contract_holds_in_a_server(build, home, contract):
    data = empty_cluster(build, home / "data" / "contract")
    with Server(build, data, contract) as server, control(server) as session:
        facts, held = describe_settings(session), effective(session)
        for name, wanted in contract.items():
            shown = session.execute("SELECT current_setting(%s)", (name,)).fetchone()[0]
            assert equal_value(name, wanted, shown, facts[name]), name
            assert held[name] == shown
        for name, fact in facts.items():
            shown = session.execute("SELECT current_setting(%s)", (name,)).fetchone()[0]
            if fact.vartype != "string":
                assert equal_value(name, fact.value or "", shown, fact), name
    assert held["data_checksums"] == "on"
    assert held["version"].startswith("PostgreSQL")
    assert not any(str(server.socket_directory) in value for value in held.values())


def test_the_contract_follows_memory_and_workload(build):
    small = baseline_settings(build, writes=True, memory_bytes=512 * 1024**2)
    large = baseline_settings(build, writes=False, memory_bytes=64 * 1024**3)
    assert (small["shared_buffers"], large["shared_buffers"]) == ("128MB", "1024MB")
    assert (small["autovacuum"], large["autovacuum"]) == ("on", "off")


@pytest.mark.usefixtures("home")
def test_levels_of_settings(build):
    facts = build_settings(build)
    assert classify(facts, "work_mem") == "session"
    assert classify(facts, "Work_Mem") == "session"
    assert classify(facts, "datestyle") == "session"
    assert classify(facts, "track_io_timing") == "session"
    assert classify(facts, "max_wal_size") == "reload"
    assert classify(facts, "shared_buffers") == "restart"
    assert classify(facts, "data_checksums") == "initdb"
    assert classify(facts, "no_such") == "unknown"
    assert build_settings(build) == facts


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"shared_buffers": "1000001kB", "work_mem": "1.5GB", "jit": "yes", "wal_buffers": "-1"},
        {"wal_compression": "on", "wal_level": "logical", "random_page_cost": "1.10"},
        {"shared_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "1s"},
        {"checkpoint_timeout": "0.5h", "log_line_prefix": "it's %m "},
    ],
)
def test_what_the_server_accepts_passes(build, contract, settings):
    if "auto_explain.log_min_duration" in settings and "pg_visibility" not in build.extensions:
        pytest.skip("this build comes without contrib modules")
    validate_settings(build, {**contract, **settings})


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"shared_bufers": "1GB"}, "did you mean shared_buffers"),
        ({"work_mem": "plenty"}, r"refuses work_mem=plenty .* a number from 64 to \d+ in units of kB"),
        ({"work_mem": "1kB"}, "outside the valid range"),
        ({"jit": "maybe"}, "choose on or off"),
        ({"wal_level": "full"}, "choose one of minimal, replica, logical"),
        ({"data_checksums": "off"}, "fixed by initdb"),
        ({"port": "1"}, "is set by pgassay"),
        ({"auto_explain.log_min_duration": "1s"}, "shared_preload_libraries=auto_explain"),
        ({"shared_preload_libraries": "no_such_library"}, "install the extension"),
        ({"shared_buffers": "7TB"}, "lower shared_buffers"),
        ({"max_connections": "abc"}, "refuses max_connections=abc"),
    ],
)
def test_what_the_server_refuses_is_an_error_before_anything_runs(build, contract, settings, words):
    with pytest.raises(UsageError, match=words) as caught:
        validate_settings(build, {**contract, **settings})
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("home")
def test_a_silent_clamp_is_noticed(build, contract):
    if "io_max_combine_limit" not in build_settings(build):
        pytest.skip("this major version has no io_max_combine_limit")
    words = "io_combine_limit=1024kB would silently be cut to io_max_combine_limit=128kB"
    with pytest.raises(UsageError, match=words):
        validate_settings(build, {**contract, "io_combine_limit": "1MB"})
    validate_settings(build, {**contract, "io_combine_limit": "1MB", "io_max_combine_limit": "1MB"})


@pytest.mark.usefixtures("home")
def test_io_uring_is_accepted_by_the_server_when_its_gates_are_open(build, contract, require):
    require("io_uring")
    asked = {**contract, "io_method": "io_uring"}
    if build.has_io_uring:
        validate_settings(build, asked)
    else:
        with pytest.raises(UsageError, match=r"gate 'build'"):
            validate_settings(build, asked)


@pytest.mark.usefixtures("home")
def test_io_uring_behind_a_closed_gate_names_gate_and_remedy(build, contract, monkeypatch):
    open_facts = io_uring_gates.observe()
    # What a machine with kernel.io_uring_disabled = 2 answers.
    closed = {"setup_errno": 1, "disabled_setting": 2}
    monkeypatch.setattr(io_uring_gates, "observe", lambda: type(open_facts)(**{**vars(open_facts), **closed}))
    gate = "kernel" if build.has_io_uring else "build"
    with pytest.raises(UsageError, match=rf"gate '{gate}' \(.+\): .+"):
        validate_settings(build, {**contract, "io_method": "io_uring"})


def test_a_session_s_own_settings_are_described(build, home):
    data = empty_cluster(build, home / "data" / "session")
    with Server(build, data, TINY_SETTINGS) as server:
        session = connect(server.connection_parameters(options="-c work_mem=13MB"))
        facts = describe_settings(session)
        session.close()
    assert facts["work_mem"].shown() == "13312kB"
    assert equal_value("work_mem", "13MB", facts["work_mem"].shown(), facts["work_mem"])
