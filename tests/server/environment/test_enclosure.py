"""What an enclosed program sees of the machine, tried by an interpreter in the place of a server."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from pgassay.environment.server import enclosed_command as enclosed
from pgassay.environment.server import enclosure
from pgassay.environment.server.enclosure import (
    enclosed_command,
    is_enclosing,
    isolated,
    why_not_enclosed,
    without_network,
)

# Runs where the server would: what it may do is answered as JSON, what it may not with the reason.
TRIES = """
import json, os, socket, sys
secret, place, stranger, listening = sys.argv[1:5]
found = {}
def attempt(name, function):
    try:
        found[name] = function()
    except OSError as error:
        found[name] = 'refused: ' + error.strerror
def connect():
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(listening)
    return 'connected'
def run(path):
    child = os.fork()
    if child == 0:
        try:
            os.execv(path, [path])
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
def make_program():
    with open(place + '/program', 'w') as file:
        file.write('#!' + sys.executable + '\\n')
    os.chmod(place + '/program', 0o755)
    return run(place + '/program')
attempt('read', lambda: open(secret).read())
attempt('connect', connect)
attempt('signal', lambda: os.kill(int(stranger), 0))
attempt('shell', lambda: os.waitstatus_to_exitcode(os.system('true')))
attempt('program', make_program)
attempt('write', lambda: open(place + '/written', 'w').write('here'))
attempt('library', lambda: open(os.path.dirname(os.__file__) + '/os.py', 'a').close())
attempt('shared memory', lambda: open('/dev/shm/pgassay-test', 'w').write('here'))
attempt('processes', lambda: [name for name in os.listdir('/proc') if name.isdigit()])
attempt('homes', lambda: os.listdir('/home'))
attempt('passwords', lambda: open('/etc/shadow').read())
attempt('program of its own', lambda: os.readlink('/proc/self/exe') == os.path.realpath(sys.executable))
found['account'] = [os.getuid(), os.getgroups()]
found['rights'] = [len(os.listdir('/run')) if os.path.isdir('/run') else 0, os.getpid()]
print(json.dumps(found))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the servers' account may write to; short, since a socket's path is."""
    made = Path(mkdtemp(prefix="pgassay-enclosed-", dir="/tmp"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


def test_an_enclosed_program_reaches_no_file_socket_program_or_process_of_others(
    require: Callable[[str], None], place: Path
) -> None:
    require("enclosure")
    secret, own = place / "secret", place / "own"
    secret.write_text("of others")
    own.mkdir()
    own.chmod(0o777)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place / "socket"))
        listening.listen()
        words = ["-I", "-c", TRIES, str(secret), str(own), str(os.getpid()), str(place / "socket")]
        process = subprocess.Popen(
            enclosed_command([sys.executable, *words], [own]), stdout=subprocess.PIPE, text=True
        )
        said, _ = process.communicate(timeout=60)
    found = json.loads(said)
    assert found["read"] == found["connect"] == "refused: No such file or directory"
    assert found["homes"] == found["passwords"] == "refused: No such file or directory"
    # No shell answers with 127, by system(3); the script is one that may not be run.
    assert (found["shell"], found["program"]) == (127, 99)
    assert found["processes"] == [] and found["program of its own"]
    assert str(found["library"]).startswith("refused")
    assert found["account"][0] != 0 and found["account"][1] == []
    assert found["rights"][1] == process.pid
    # What it is shown it may write to; its shared memory is its own.
    assert found["write"] == found["shared memory"] == 4
    assert (own / "written").read_text() == "here"
    assert not Path("/dev/shm/pgassay-test").exists()
    if found["signal"] != "refused: Operation not permitted":
        release = tuple(int(number) for number in os.uname().release.split("-")[0].split(".")[:2])
        # Root's signal to itself is another account's; older kernels have no scopes.
        assert os.geteuid() != 0 and release < (6, 12)


def test_servers_are_enclosed_until_the_end_and_nobody_elses(require: Callable[[str], None]) -> None:
    require("enclosure")
    assert not is_enclosing()
    with isolated(leaves_network=False) as missing:
        assert (missing, is_enclosing()) == ((), True)
        with isolated(leaves_network=False):
            pass
        assert is_enclosing()
    assert not is_enclosing()


def test_what_the_machine_refuses_is_told_and_the_servers_start_as_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A launcher that is refused stands in for a container that allows no mount namespace."""
    launcher = tmp_path / "refused.py"
    launcher.write_text("import sys; sys.stderr.write('unshare: Operation not permitted\\n'); sys.exit(126)")
    monkeypatch.setattr(enclosed, "__file__", str(launcher))
    assert why_not_enclosed() == "unshare: Operation not permitted"
    with isolated(leaves_network=False) as missing:
        assert not is_enclosing()
    assert len(missing) == 1
    assert "is not enclosed (unshare: Operation not permitted): a function of the data may" in missing[0]
    monkeypatch.setattr(enclosure.sys, "executable", str(tmp_path / "none"))
    assert why_not_enclosed() == "No such file or directory"


def test_as_root_a_process_leaves_the_network_with_all_that_it_starts() -> None:
    """In a process of its own: the one that runs the tests stays where it is."""
    if os.geteuid() != 0:
        assert "only root" in without_network()
        return
    script = (
        "import subprocess; from pgassay.environment.server.enclosure import without_network; "
        "said = without_network();"
        "print(said or subprocess.run(['cat', '/proc/net/dev'], capture_output=True, text=True).stdout)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names = [line.split(":")[0].strip() for line in ended.stdout.splitlines() if ":" in line]
    # Only the loopback, which is down; or a sentence where a container forbids it.
    assert names == ["lo"] or "could not be taken off the network" in ended.stdout


def test_libraries_that_settings_name_are_shown_and_never_the_whole_machine(tmp_path: Path) -> None:
    build, libraries = tmp_path / "build" / "bin", tmp_path / "libraries"
    for folder in (build, build.parent / "lib", libraries):
        folder.mkdir(parents=True)
    (build / "postgres").touch()
    settings = {
        "shared_preload_libraries": f"pg_stat_statements, '{libraries}/own.so', /own.so",
        "dynamic_library_path": f"$libdir:{libraries}",
        "data_directory": "/etc",
    }
    argv = [str(build / "postgres"), "-D", "/data"]
    words = enclosed_command(argv, [tmp_path], settings=settings)
    assert words[-3:] == argv
    seen = json.loads(words[-4])
    assert seen["writable"] == [str(tmp_path)]
    assert seen["readable"] == [str(build), str(build.parent / "lib"), str(libraries)]
    assert "root" in seen["files"]["/etc/passwd"] or os.geteuid() != 0
