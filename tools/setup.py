"""Sets the project up and runs its checks: `python3 tools/setup.py setup|demo|test|test-all|lint|bench|lock`.

Standard library only; needs Python 3.11, git and make. Each step skips itself when it is done. Exit
codes: 2 when something cannot be had on this machine (one sentence says what to do), else that of
the program that failed.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from steps.browser import provide_browser
from steps.demo import run_demonstration
from steps.native_binary import LATE_DISK, provide_late_disk, provide_native_binary
from steps.project import PGASSAY, PYTHON, ROOT, VENV, SetupError, StepError, run_openly, say
from steps.python_packages import LOCK, provide_python_packages
from steps.rust_toolchain import rust_environment
from steps.servers import provide_compared_versions, provide_postgresql, provide_storage_tools


def setup() -> None:
    """Provide all that the checkout needs to run."""
    provide_python_packages()
    provide_native_binary()
    provide_storage_tools()
    provide_postgresql()
    say(f"ready: {PGASSAY.relative_to(ROOT)}")


def demo() -> None:
    """Compare the three I/O methods on a server of its own, in under three minutes after the set-up."""
    setup()
    run_demonstration()


def lint() -> None:
    """Check style and types of Python and Rust."""
    places = [
        name for name in ("python", "tools", "tests", "benchmarks", "examples") if (ROOT / name).is_dir()
    ]
    # The cache does not notice that a module elsewhere came or went, which changes how imports are sorted.
    run_openly([VENV / "bin" / "ruff", "check", "--quiet", "--no-cache", *places])
    run_openly([VENV / "bin" / "ruff", "format", "--check", "--quiet", *places])
    run_openly([VENV / "bin" / "mypy"])
    environment = rust_environment()
    late_disk = ["--manifest-path", LATE_DISK]
    for package in (["--all"], late_disk):
        run_openly(["cargo", "fmt", *package, "--check"], environment)
    for target in (["--workspace"], [*late_disk, "--target-dir", ROOT / "target"]):
        run_openly(
            ["cargo", "clippy", "--quiet", *target, "--all-targets", "--locked", "--", "-D", "warnings"],
            environment,
        )


def test(*pytest_options: str) -> None:
    """Set up, lint, and run the tests of both languages; pytest's closing line comes last."""
    setup()
    provide_browser()
    provide_compared_versions()
    lint()
    run_openly(["cargo", "test", "--quiet", "--workspace", "--locked"], rust_environment())
    run_openly([PYTHON, "-m", "pytest", *pytest_options])


def test_all() -> None:
    """The tests, the slow ones among them."""
    setup()
    provide_late_disk()
    test("-m", "slow or not slow")


def bench() -> None:
    """Run each benchmark and let it print its figures."""
    setup()
    provide_late_disk()
    for script in sorted((ROOT / "benchmarks").glob("*.py")):
        if not script.name.startswith("_"):
            say(f"== {script.relative_to(ROOT)}")
            run_openly([PYTHON, script])


def lock() -> None:
    """Write requirements.lock anew: hashes of every file, no address of any index."""
    options = [
        "--universal",
        "--python-version",
        "3.11",
        "--generate-hashes",
        "--no-emit-index-url",
        "--no-header",
    ]
    command = [PYTHON, "-m", "uv", "pip", "compile", "--quiet", "--upgrade", *options, "--extra", "dev"]
    run_openly([*command, "pyproject.toml", "-o", LOCK.name])


COMMANDS = {
    "setup": setup,
    "demo": demo,
    "test": test,
    "test-all": test_all,
    "lint": lint,
    "bench": bench,
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
