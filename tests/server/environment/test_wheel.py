"""The wheel as its user has it: installed in an empty environment, away from the sources, without Rust."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator
from email.parser import HeaderParser
from pathlib import Path

import pytest

import whole_tool
from pgassay import __version__
from pgassay.native.binary import source_id
from steps.project import ROOT, SetupError
from steps.python_packages import pip_command
from steps.wheel import COMPLETIONS, GLIBC, make_wheel

pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.slow]
# Nothing of a checkout, of Rust or of these tests may be found by chance.
HIDDEN = ("PYTHONPATH", "PGASSAY_NATIVE", "PGASSAY_HOME", "CARGO_HOME", "RUSTUP_HOME")


@pytest.fixture(scope="module")
def wheel(require: Callable[[str], None]) -> Path:
    require("wheel-linker")
    return make_wheel()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The bin folder of an environment with the wheel alone.

    What it depends on is read from the tests' own environment, without a network: a `.pth` file adds that
    folder to the path, and those in it, such as the one of this checkout, are not followed.
    """
    prefix = tmp_path_factory.mktemp("installed")
    prefix.chmod(0o755)
    venv.EnvBuilder(with_pip=False, symlinks=True).create(prefix)
    python = prefix / "bin" / "python"
    command = [*pip_command(), "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True, capture_output=True)
    (own,) = prefix.glob("lib/python*/site-packages")
    dependencies = next(Path(place) for place in sys.path if place.endswith("site-packages"))
    (own / "dependencies.pth").write_text(f"{dependencies}\n")
    yield python.parent


def run(
    bin_folder: Path, *words: str, folder: Path, home: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run the installed `pgassay` in a folder of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    environment["PATH"] = f"{bin_folder}:/usr/bin:/bin"
    if home is not None:
        environment["PGASSAY_HOME"] = str(home)
    return subprocess.run(
        [str(bin_folder / "pgassay"), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=whole_tool.TIMEOUT_S,
    )


def test_the_name_says_what_the_binary_asks_for(wheel: Path) -> None:
    """Every version of a symbol is written in the file, so the newest can be read without a tool."""
    tag = re.fullmatch(
        rf"pgassay-{re.escape(__version__)}-py3-none-manylinux_(\d+)_(\d+)_\w+\.whl", wheel.name
    )
    assert tag is not None
    assert f"{tag[1]}.{tag[2]}" == GLIBC
    with zipfile.ZipFile(wheel) as packed:
        content = packed.read("pgassay/bin/pgassay-native")
        mode = packed.getinfo("pgassay/bin/pgassay-native").external_attr >> 16
    assert content.startswith(b"\x7fELF")
    assert mode & 0o111
    versions = {tuple(map(int, found)) for found in re.findall(rb"\x00GLIBC_(\d+)\.(\d+)", content)}
    assert versions
    assert max(versions) <= (int(tag[1]), int(tag[2]))
    # The compiler's own library is not on every machine.
    assert b"libgcc_s" not in content


@pytest.fixture(scope="module")
def foreign(require: Callable[[str], None]) -> Path:
    """The wheel for the other kind of processor; skipped where Rust can't build for it."""
    require("wheel-linker")
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[platform.machine()]
    try:
        return make_wheel(other)
    except SetupError as error:
        pytest.skip(str(error))


def test_a_wheel_for_another_processor(foreign: Path, wheel: Path) -> None:
    machine = {"aarch64": 183, "x86_64": 62}[foreign.stem.split("2_28_")[1]]
    with zipfile.ZipFile(foreign) as packed, zipfile.ZipFile(wheel) as own:
        content = packed.read("pgassay/bin/pgassay-native")
        # All but the binary, and what is said of it, is the same.
        names = set(packed.namelist()) ^ set(own.namelist())
        sources = packed.read("pgassay/bin/pgassay-native.sources").decode().strip()
    assert int.from_bytes(content[18:20], "little") == machine
    versions = {tuple(map(int, found)) for found in re.findall(rb"\x00GLIBC_(\d+)\.(\d+)", content)}
    assert versions and max(versions) <= tuple(map(int, GLIBC.split(".")))
    assert names == set() and sources == source_id(ROOT)
    assert foreign.is_file() and wheel.is_file(), "the one does not remove the other"


def test_a_binary_for_another_processor_runs_where_it_is_emulated(foreign: Path, tmp_path: Path) -> None:
    machine = foreign.stem.split("2_28_")[1]
    emulator, libraries = shutil.which(f"qemu-{machine}"), Path(f"/usr/{machine}-linux-gnu")
    if emulator is None or not libraries.is_dir():
        pytest.skip(
            f"there is no qemu-{machine}, or no C library for it: apt-get install qemu-user libc6-…-cross"
        )
    with zipfile.ZipFile(foreign) as packed:
        binary = Path(packed.extract("pgassay/bin/pgassay-native", tmp_path))
    binary.chmod(0o755)
    command = [emulator, "-L", str(libraries), str(binary), "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split()[2:] == [source_id(ROOT)]


def test_all_that_is_read_at_run_time_is_in_it(wheel: Path) -> None:
    package = ROOT / "python"
    unwanted = ("__pycache__", ".egg-info")
    wanted = {
        str(path.relative_to(package))
        for path in package.rglob("*")
        if path.is_file() and not any(part.endswith(unwanted) for part in path.parts)
    }
    assert any(name.endswith(".toml") for name in wanted)
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        (record,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(packed.read(record).decode())
        is_pure = "Root-Is-Purelib: true" in packed.read(record.replace("METADATA", "WHEEL")).decode()
    assert wanted <= names
    assert not is_pure
    share = f"pgassay-{__version__}.data/data/share"
    assert {f"{share}/{place}" for place in COMPLETIONS.values()} <= names
    assert f"{share}/man/man1/pgassay.1" in names
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    required = [line for line in metadata.get_all("Requires-Dist") or [] if "extra ==" not in line]
    assert sorted(required) == sorted(declared)


def test_it_is_the_installed_package_that_runs(installed: Path, tmp_path: Path) -> None:
    assert run(installed, "--version", folder=tmp_path).stdout == f"pgassay {__version__}\n"
    finished = run(installed, "doctor", "--json", "--seconds", "0", folder=tmp_path)
    assert finished.returncode == 0, finished.stderr
    findings = {each["name"]: each for each in json.loads(finished.stdout)["findings"]}
    native = findings["native"]
    assert native["status"] == "ok", native
    assert Path(native["figures"]["path"]).is_relative_to(installed.parent)
    # Nobody needs the sources to know what the binary was built from.
    (sources,) = installed.parent.glob("lib/python*/site-packages/pgassay/bin/pgassay-native.sources")
    assert sources.read_text().strip() == source_id(ROOT)


def test_a_binary_of_other_sources_is_refused_with_what_helps_there(installed: Path, tmp_path: Path) -> None:
    (sources,) = installed.parent.glob("lib/python*/site-packages/pgassay/bin/pgassay-native.sources")
    kept = sources.read_text()
    sources.write_text("00000000\n")
    try:
        finished = run(installed, "doctor", "--json", "--seconds", "0", folder=tmp_path)
    finally:
        sources.write_text(kept)
    native = next(each for each in json.loads(finished.stdout)["findings"] if each["name"] == "native")
    assert native["status"] == "missing"
    assert "install pgassay again" in native["remedy"]
    assert "make setup" not in native["text"]


def test_it_compares_on_a_real_server(
    installed: Path, tmp_path: Path, require: Callable[[str], None]
) -> None:
    require("server")
    words = ["compare", "enable_seqscan=on,off", "--workload", "select-only:duration=1s,warmup=0s", "--json"]
    with whole_tool.prepared_home() as home:
        options = [*whole_tool.SMALL, *whole_tool.build(), "--blocks", "1", "--no-pool", "--quiet"]
        finished = run(installed, *words, *options, folder=tmp_path, home=home)
    result = whole_tool.result_of(finished)
    assert result["blocks"] == 1
    assert all(arm["trials"] >= 1 for arm in result["arms"])
    folder = Path(result["folder"])
    page = (tmp_path / folder / "report.html").read_text()
    # Templates and the charts' library came with it.
    assert "<svg" in page
    stored = json.loads((tmp_path / folder / "experiment.json").read_text())
    assert stored["pgassay_version"] == __version__
