"""Sets the project up, runs its checks, builds its wheel: `python3 tools/setup.py --help` lists the commands.

Standard library only; needs Python 3.11, git and make. Each step skips itself when it is done. Exit
codes: 2 when something cannot be had on this machine (one sentence says what to do), else that of
the program that failed.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from steps.browser import provide_browser
from steps.demo import run_demonstration
from steps.native_binary import BARE_LOOP, build, provide_native_binary
from steps.project import (
    ALONE_FOLDERS,
    PGASSAY,
    PYTHON,
    ROOT,
    VENV,
    SetupError,
    StepError,
    compiling,
    run_all,
    run_collected,
    run_openly,
    run_side_by_side,
    say,
)
from steps.python_packages import LOCK, provide_python_packages
from steps.rust_toolchain import rust_environment
from steps.servers import (
    provide_compared_versions,
    provide_postgresql,
    provide_storage_tools,
)
from steps.sysbench import provide_sysbench
from steps.wheel import LOCK as WHEEL_LOCK
from steps.wheel import make_wheel


def setup() -> None:
    """Provide all that the checkout needs to run; pip waits for the network while cargo builds."""
    run_side_by_side([provide_python_packages, provide_native_binary])
    provide_servers()
    say(f"ready: {PGASSAY.relative_to(ROOT)}")


def provide_servers() -> None:
    """Provide what measuring needs beside the checkout's own packages."""
    provide_storage_tools()
    provide_postgresql()


def demo() -> None:
    """Compare the three I/O methods on a server of its own, in under three minutes after the set-up."""
    setup()
    run_demonstration()


def lint() -> None:
    """Check style and types of Python and Rust."""
    run_side_by_side([check_python_style, check_python_types, check_rust])


def check_python_style() -> str:
    """Run ruff over every Python file."""
    places = [
        name for name in ("python", "tools", "tests", "benchmarks", "examples") if (ROOT / name).is_dir()
    ]
    ruff = VENV / "bin" / "ruff"
    # The cache does not notice that a module elsewhere came or went, which changes how imports are sorted.
    return run_collected([ruff, "check", "--quiet", "--no-cache", *places]) + run_collected(
        [ruff, "format", "--check", "--quiet", *places]
    )


def check_python_types() -> str:
    """Run mypy."""
    return run_collected([VENV / "bin" / "mypy"])


def collect_python_tests() -> None:
    """Let pytest compile the tests, which else each of its workers would do for itself at the same time."""
    run_collected([PYTHON, "-m", "pytest", "--collect-only", "-qq"], compiling())


def check_rust() -> str:
    """Check the format of Rust, and run clippy: one cargo after the other, for they share a lock."""
    options = ["--quiet", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]
    return run_cargo("fmt", "--all", "--check") + run_cargo("clippy", *options)


def test_rust() -> str:
    """Run the Rust tests."""
    return run_cargo("test", "--quiet", "--workspace", "--locked")


def run_cargo(*words: str) -> str:
    """Run cargo with what the processors have left: beside it the tests of Python wait for servers a lot."""
    return run_collected(["nice", "-n", "19", "cargo", *words], rust_environment())


def set_up_and_check_python() -> None:
    """All of the set-up and of the checks that needs no cargo."""
    provide_python_packages()
    # Most of what is provided waits for the network.
    run_side_by_side([provide_what_tests_need, check_python_style, check_python_types])
    # Some tests plan with a build while they are collected.
    collect_python_tests()


def provide_what_tests_need() -> None:
    """Provide what measuring needs, and what the tests need beside it."""
    provide_servers()
    provide_browser()
    provide_compared_versions()
    provide_sysbench()


def test(*, slow: bool = False) -> None:
    """Set up, lint, and run the tests of both languages; pytest's closing lines come last."""
    run_side_by_side([set_up_and_check_python, provide_native_binary])
    all_of_them = "" if slow else " and not slow"
    # A server that is measured wants the machine for itself; all other tests run beside each other.
    # Two workers for each processor: those with servers wait for them most of their time.
    workers = ["-n", str(2 * (os.cpu_count() or 1)), "--no-loadscope-reorder"]
    beside = [*workers, "-m", f"(not server or shares_machine){all_of_them}"]
    # Which are in these folders alone (tests/conftest.py): the others need not be collected a second time.
    alone = [*ALONE_FOLDERS, "-m", f"server and not shares_machine{all_of_them}"]
    run_all(
        [
            lambda: run_side_by_side([lambda: run_pytest(*beside), lambda: check_rust() + test_rust()]),
            lambda: run_pytest(*alone),
        ]
    )


def run_pytest(*options: str) -> None:
    """Run tests of Python, whose progress is shown, and which of them took longest."""
    run_openly([PYTHON, "-m", "pytest", "--durations=40", "--durations-min=4", *options], compiling())


def test_all() -> None:
    """The tests, the slow ones among them."""
    test(slow=True)


def bench() -> None:
    """Run each benchmark and let it print its figures."""
    setup()
    build(BARE_LOOP)
    for script in sorted((ROOT / "benchmarks").glob("*.py")):
        if not script.name.startswith("_"):
            say(f"== {script.relative_to(ROOT)}")
            run_openly([PYTHON, script])


def wheel() -> None:
    """Build the wheel with the native binary into dist/; PLATFORM=aarch64 names another machine."""
    provide_python_packages()
    make_wheel(os.environ.get("PLATFORM") or None)


def lock() -> None:
    """Write requirements.lock and tools/wheel.lock anew: hashes of every file, no address of any index."""
    options = [
        "--universal",
        "--python-version",
        "3.11",
        "--generate-hashes",
        "--no-emit-index-url",
        "--no-header",
    ]
    with tempfile.TemporaryDirectory(prefix="pgassay-lock-") as folder:
        # Not in .venv, which holds what the lock names and nothing else.
        run_openly([PYTHON, "-m", "pip", "install", "--quiet", "--target", folder, "uv"])
        compile_lock = [Path(folder) / "bin" / "uv", "pip", "compile", "--quiet", "--upgrade", *options]
        run_openly([*compile_lock, "--extra", "dev", "pyproject.toml", "-o", LOCK.name])
        run_openly([*compile_lock, "--group", "wheel", "-o", WHEEL_LOCK.relative_to(ROOT)])


COMMANDS = {
    "setup": setup,
    "demo": demo,
    "test": test,
    "test-all": test_all,
    "lint": lint,
    "bench": bench,
    "wheel": wheel,
    "lock": lock,
}


def main() -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="tools/setup.py", description="Set pgassay up, or run its checks.")
    parser.add_argument("command", choices=COMMANDS)
    command = parser.parse_args().command
    os.chdir(ROOT)
    from pgassay.errors import PgassayError

    try:
        COMMANDS[command]()
    except SetupError as error:
        print(error, file=sys.stderr)
        return 2
    except PgassayError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except StepError as error:
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
