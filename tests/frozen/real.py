"""Runs the real experiments, the probe and the diagnosis of the frozen set, with the tool as it is used."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg

from frozen import entry_points
from frozen.plans import FILES, PLANS, SEED
from native_servers import started_server
from remote_servers import DATABASE, RemoteTestServer

DIAGNOSED_S = 6.0
PROBE_S = 25
SOURCES = Path(__file__).resolve().parents[2] / "python"
WRITES = "UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1", "SELECT pg_sleep(0.05)"


def pgassay(results: Path, *words: str, statuses: tuple[int, ...] = (0, 1)) -> None:
    """Run the tool below `results`; another exit status than these ends the recording."""
    started = time.monotonic()
    done = subprocess.run(_argv(words), cwd=results, env=_environment(), capture_output=True, text=True)
    # The words hold passwords of servers that are gone by then; the name is enough.
    name = words[words.index("--out") + 1] if "--out" in words else words[1]
    print(f"{time.monotonic() - started:5.1f} s  {done.returncode}  {words[0]} {name}", flush=True)
    if done.returncode not in statuses:
        sys.exit(f"{name}: {done.stderr}")


def _argv(words: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "pgassay.cli.main", *words]


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(SOURCES)}


def make(results: Path) -> None:
    """Make every experiment that is not there yet."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # In the background of a shell; what is ignored is inherited, and one experiment must be interrupted.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, text in FILES.items():
        (results / name).write_text(text)
    for name, words in PLANS.items():
        if not (results / name).exists():
            if name == "own-dump":
                make_dump(results / "shop-dump.sql")
            pgassay(results, *words, "--out", name, "--quiet")
    interrupted_and_resumed(results)
    remote(results)
    for name in ("probe", "probe-again"):
        if not (results / name).exists():
            words = (
                "probe",
                str(results),
                "--seconds",
                str(PROBE_S),
                "--seed",
                SEED,
                "--out",
                name,
                "--quiet",
            )
            pgassay(results, *words, statuses=(0,))


def make_dump(target: Path) -> None:
    """A dump of the data of own-script, made by a server of its own."""
    with started_server(RemoteTestServer) as server:
        places = ("-h", str(server.folder), "-p", str(server.port), "-U", "postgres")
        source = server.folder / "shop.sql"
        source.write_text(FILES["shop.sql"])
        source.chmod(0o644)
        server.run("psql", "-X", "-q", *places, "-f", str(source), "postgres")
        server.run("pg_dump", *places, "-t", "orders", "-f", str(server.folder / "dump"), "postgres")
        shutil.copyfile(server.folder / "dump", target)


def interrupted_and_resumed(results: Path) -> None:
    """One experiment that Ctrl-C stopped in a block, and the same gone on with to its end."""
    stopped, resumed = results / "interrupted", results / "resumed"
    if resumed.exists():
        return
    words = ("compare", "work_mem=4MB,8MB", "--workload", "sql:wait.sql", "--scale", "1", "--set")
    words += ("shared_buffers=64MB", "--blocks", "3", "--seed", SEED, "--out", stopped.name, "--quiet")
    with subprocess.Popen(
        _argv(words), cwd=results, env=_environment(), stdout=subprocess.DEVNULL, process_group=0
    ) as process:
        while len(list(stopped.glob("trials/*/attempt-*/trial.json"))) < 4 and process.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.wait()
    shutil.copytree(stopped, resumed)
    pgassay(results, "resume", resumed.name, "--quiet")


def alter(server: RemoteTestServer, value: str) -> list[str]:
    """The words that give a server's work_mem another value, as its administrator."""
    psql = [str(server.bin / "psql"), "-X", "-q", "-h", str(server.folder), "-p", str(server.port)]
    psql += ["-U", "postgres", "-d", "postgres"]
    return [*psql, "-c", f"alter system set work_mem = '{value}'", "-c", "select pg_reload_conf()"]


def remote(results: Path) -> None:
    """Two servers that run already: compared, swapped, one of them alone, and looked at."""
    if (results / "diagnosis").exists():
        return
    with ExitStack() as stack:
        servers = []
        for value in ("8MB", "4MB"):
            server = RemoteTestServer()
            stack.callback(server.stop)
            server.start()
            with server.query_connection() as connection:
                connection.execute(f"alter system set work_mem = '{value}'")
            server.reload()
            servers.append(server)
        first, second = servers
        workload = ("--workload", "sql:by-setting.sql", "--seed", SEED, "--quiet")
        pair = ("compare", f"server={first.uri()},{second.uri()}", *workload)
        pgassay(results, *pair, "--blocks", "3", "--out", "remote-servers")
        one = ("compare", "work_mem=4MB,8MB", "--server", first.uri(), *workload)
        pgassay(results, *one, "--blocks", "4", "--out", "remote-setting")
        load = ("--workload", "tpcb:duration=1s,warmup=0s", "--allow-writes", DATABASE)
        writing = ("compare", "synchronous_commit=on,off", "--server", first.uri(), *load, "--seed", SEED)
        pgassay(results, *writing, "--blocks", "2", "--out", "remote-writes", "--quiet")
        equal = ("calibrate", "--server", second.uri(), *workload)
        pgassay(results, *equal, "--blocks", "3", "--out", "remote-calibrated")
        swap = " && ".join(
            shlex.join(alter(server, value)) for server, value in ((first, "4MB"), (second, "8MB"))
        )
        pgassay(results, *pair, "--swap", swap, "--blocks", "10", "--out", "remote-swap")
        diagnosed(results / "diagnosis", first)


def diagnosed(target: Path, server: RemoteTestServer) -> None:
    """An interval of a server whose sessions all change one row."""
    ended = threading.Event()
    own = f"host={server.folder} port={server.port} user=postgres dbname={DATABASE}"

    def change() -> None:
        with psycopg.connect(own) as session:
            while not ended.is_set():
                for statement in WRITES:
                    session.execute(statement)
                session.commit()

    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            interval = entry_points.sample_interval(own, DIAGNOSED_S, Path(folder))
            shutil.copytree(folder, target)
        (target / "interval.json").write_bytes(interval)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
