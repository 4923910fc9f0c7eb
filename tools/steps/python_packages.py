"""The virtual environment: exactly the packages of requirements.lock, each checked by its hash."""

import importlib.util
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from steps.project import (
    PGASSAY,
    PYTHON,
    ROOT,
    VENV,
    SetupError,
    compiling,
    fingerprint,
    is_stamped,
    run_quietly,
    say,
    write_stamp,
)

LOCK = ROOT / "requirements.lock"
STAMP = VENV / "pgassay-setup-stamp"
# Imports every module of the package that is named, and with it what each of them imports.
_IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
    importlib.import_module(module.name)
"""
_NETWORK_REMEDY = "check the network and pip's configuration, then type 'make setup' again."


def provide_python_packages() -> None:
    """Make .venv with the locked packages and .venv/bin/pgassay, unless it is there already."""
    inputs = fingerprint([LOCK, ROOT / "pyproject.toml"], sys.version, str(ROOT))
    if is_stamped(STAMP, inputs) and PGASSAY.exists():
        compile_sources(ROOT / "python")
        say("python packages: in place")
        return
    say("python packages: installing those of requirements.lock into .venv …")
    STAMP.unlink(missing_ok=True)
    pip = pip_command()
    # pip tells a lock by its hashes, but not by the name of the file; the flag makes it certain.
    # Pip would compile all files of all packages, of which few are ever imported.
    install = [*pip, "install", "--quiet", "--no-compile", "--require-hashes", "-r", LOCK]
    run_quietly(install, _NETWORK_REMEDY, compiling())
    _install_project(pip)
    compile_sources(ROOT / "python")
    compile_imported()
    write_stamp(STAMP, inputs)
    say("python packages: done")


def compile_sources(*folders: Path) -> None:
    """Compile the Python files that changed since they were compiled, so that no start waits for it.

    Python itself would do so at the first import, but not where PYTHONDONTWRITEBYTECODE is set. What
    does not compile is left alone: some packages bring files for another version of Python.
    """
    subprocess.run(
        [PYTHON, "-m", "compileall", "-q", *folders],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )


def compile_imported(package: str = "pgassay") -> None:
    """Let Python compile what a package imports: of all that is installed, that is a third."""
    remedy = "see the lines above, then type 'make setup' again."
    run_quietly([PYTHON, "-c", _IMPORT_ALL, package], remedy, compiling())


def pip_command() -> list[str | Path]:
    """Make .venv when it is missing or broken and return the command that is its pip."""
    if not _runs():
        shutil.rmtree(VENV, ignore_errors=True)
        with_pip = importlib.util.find_spec("ensurepip") is not None
        try:
            venv.EnvBuilder(with_pip=False, symlinks=True).create(VENV)
        except OSError as error:
            raise SetupError(f"{VENV} cannot be made ({error}): make the folder writable.") from error
        if with_pip:
            run_quietly([PYTHON, "-m", "ensurepip", "--default-pip"], "install pip for this Python.")
    if any(VENV.glob("lib/python*/site-packages/pip/__main__.py")):
        return [PYTHON, "-m", "pip"]
    return [PYTHON, _borrowed_pip() / "pip"]


def _runs() -> bool:
    if not PYTHON.exists():
        return False
    try:
        version = run_quietly([PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], "")
    except SetupError:
        return False
    return version.split() == [str(number) for number in sys.version_info[:2]]


def _borrowed_pip() -> Path:
    """Return pip's wheel for a Debian without python3-venv: Python runs pip from inside it."""
    from pgassay.environment.debian import has_apt, host_archive, unpack
    from pgassay.environment.home import home

    if not has_apt():
        raise SetupError("This Python has neither ensurepip nor pip: install python3-venv or pip for it.")
    destination = home() / "tools" / "pip"
    unpack(("python3-pip-whl",), host_archive("pip"), destination)
    wheels = sorted(destination.glob("usr/share/python-wheels/pip-*.whl"))
    if not wheels:
        raise SetupError("The package python3-pip-whl holds no pip: install python3-venv.")
    return wheels[-1]


def _install_project(pip: list[str | Path]) -> None:
    """Install the checkout itself so that its files are the ones that run."""
    run_quietly(
        [*pip, "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-e", ROOT],
        "see the lines above, then type 'make setup' again.",
        compiling(),
    )
    if not PGASSAY.exists():
        raise SetupError(f"pip made no {PGASSAY}: remove .venv and type 'make setup' again.")
