"""`pgassay completion` in real shells, and what is offered for each kind of argument."""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pgassay.cli import completion, main
from pgassay.environment.builds.registry import ORIGINS
from pgassay.factors.registry import KINDS as FACTOR_KINDS
from pgassay.storage.registry import KINDS as STORAGE_KINDS
from pgassay.workloads.registry import FAMILIES

Require = Callable[[str], None]
# The shell's own function is called as the shell calls it, with the line up to the cursor.
BASH = """
eval "$(pgassay completion bash)"
complete -p pgassay >&2
COMP_LINE={line} COMP_POINT={length} COMP_TYPE=9 COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
_python_argcomplete pgassay
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
autoload -Uz compinit && compinit -u -D
eval "$(pgassay completion zsh)"
[[ ${{_comps[pgassay]}} == _python_argcomplete ]] || exit 9
_describe() {{ print -l -- "${{(@P)2}}"; }}
BUFFER={line} CURSOR={length} words=(pgassay)
_python_argcomplete
"""
FISH = "pgassay completion fish | source; complete -C {line}"


def asked(shell: list[str], script: str, line: str, folder: Path) -> list[str]:
    """The candidates for the word at the end of a line, in a shell without the user's own settings."""
    search = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    finished = subprocess.run(
        [*shell, "-c", script.format(line=shlex.quote(line), length=len(line))],
        cwd=folder,
        env=os.environ | {"PATH": search, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    # Zsh and fish are told what a word means as well, after a colon or a tab.
    return [each.split("\t")[0].split(":")[0].strip() for each in finished.stdout.splitlines() if each]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `pgassay` on its path, a folder of results and a file of statements."""
    program = tmp_path / "bin" / "pgassay"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pgassay.cli.main "$@"\n')
    program.chmod(0o755)
    (tmp_path / "results-of-may").mkdir()
    (tmp_path / "mine.sql").write_text("SELECT 1;\n")
    return tmp_path


def test_bash_completes_commands_options_and_folders(folder: Path, require: Require) -> None:
    require("bash")
    bash = ["bash", "--norc", "--noprofile"]
    assert asked(bash, BASH, "pgassay com", folder) == ["compare", "combine", "completion"]
    assert asked(bash, BASH, "pgassay compare io_method=a,b --obs", folder) == ["--observe"]
    assert asked(bash, BASH, "pgassay compare io_method=a,b --observe f", folder) == ["fast"]
    assert asked(bash, BASH, "pgassay report results", folder) == ["results-of-may/"]


def test_bash_completes_within_a_word(folder: Path, require: Require) -> None:
    """Bash breaks words at `=` and `:`, so only what follows those is offered."""
    require("bash")
    bash = ["bash", "--norc", "--noprofile"]
    assert asked(bash, BASH, "pgassay compare x=1,2 --workload select-only:dur", folder) == ["duration="]
    assert asked(bash, BASH, "pgassay compare x=1,2 --workload sql:mi", folder) == ["mine.sql"]


def test_zsh_completes(folder: Path, require: Require) -> None:
    require("zsh")
    assert asked(["zsh", "-f"], ZSH, "pgassay com", folder) == ["compare", "combine", "completion"]


def test_fish_completes(folder: Path, require: Require) -> None:
    require("fish")
    found = asked(["fish", "--no-config"], FISH, "pgassay com", folder)
    assert sorted(found) == ["combine", "compare", "completion"]


def test_every_command_is_offered_and_no_start_is_taken_for_a_question() -> None:
    commands = [command.__name__.rpartition(".")[2] for command in main.COMMANDS]
    assert "completion" in commands
    environment = {name: value for name, value in os.environ.items() if name != completion.VARIABLE}
    finished = subprocess.run(
        [sys.executable, "-m", "pgassay.cli.main", "--version"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.startswith("pgassay ")


def test_factors_are_completed_by_name_and_then_by_level(require: Require) -> None:
    require("build")
    names = set(completion._factors(""))
    assert {f"{name}=" for name in FACTOR_KINDS} <= names
    assert "io_method=" in names
    assert "enable_seqscan=" in set(completion._factors("enable"))
    assert list(completion._factors("enable_seqscan=")) == ["enable_seqscan=on", "enable_seqscan=off"]
    levels = list(completion._factors("synchronous_commit=local,"))
    assert "synchronous_commit=local,remote_apply" in levels
    assert "synchronous_commit=local,local" not in levels
    # A number has no list of values, and what is no setting's name is asked of nobody.
    assert list(completion._factors("work_mem=")) == []
    assert list(completion._factors("no such setting=")) == []
    assert list(completion._factors("-c port=")) == []


def test_without_a_build_no_setting_is_offered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(completion, "_program_of_the_newest_build", lambda: str(tmp_path / "postgres"))
    assert list(completion._settings()) == []
    assert list(completion._factors("io_method=")) == []


def test_values_of_options_are_those_of_the_registries() -> None:
    assert {name.rstrip(":") for name in completion._workloads("")} == set(FAMILIES)
    assert "tpcb:clients=8,duration=" in completion._workloads("tpcb:clients=8,")
    assert "tpcb:clients=8,clients=" not in completion._workloads("tpcb:clients=8,")
    assert {name.rstrip(":") for name in completion._storages("")} == set(STORAGE_KINDS)
    assert "loop:size=" in completion._storages("loop:")
    assert "volume:gp3" in completion._storages("volume:")
    assert "volume:gp3,size=1GiB,wal=" in completion._storages("volume:gp3,size=1GiB,")
    assert "host:wal=volume:io2" in completion._storages("host:wal=volume:")
    inner = list(completion._storages("loop:size=4GB,wal=loop:"))
    assert "loop:size=4GB,wal=loop:size=" in inner and not [each for each in inner if each.count("wal=") > 1]
    assert "gp3,size=" in completion._volumes("gp3,")
    assert list(completion._storages("nothing:")) == []


def test_what_can_be_required_are_checks_of_the_doctor() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "doctor.md").read_text()
    offered = list(completion._capabilities("builds,"))
    assert "builds,io_uring" in offered
    assert "builds,builds" not in offered
    assert not [name for name in completion.REQUIRED_OFTEN if f"`{name}`" not in page]


def test_builds_to_install_are_those_that_an_origin_offers() -> None:
    offered = set(completion._obtainable())
    named = {each for each in offered if ":" in each}
    assert {each.partition(":")[0] for each in named} <= {origin.name for origin in ORIGINS}
    assert {each.partition(":")[2] for each in named} == offered - named


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_what_is_printed_is_a_script_that_the_shell_accepts(
    shell: str, require: Require, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    require(shell)
    assert main.main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    program = shutil.which(shell)
    assert program is not None
    finished = subprocess.run([program, "-n", script], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_what_is_completed_follows_from_what_stands_for_the_value() -> None:
    """Alike in every command that takes such a value, whatever its option is called."""
    actions = main.parser()._actions
    commands = next(each for each in actions if isinstance(each, argparse._SubParsersAction)).choices

    def completer(command: str, flag: str) -> object:
        return completion._completer_of(commands[command]._option_string_actions[flag])

    assert completer("size", "--vary") is completion._factors
    assert completer("tune", "--workload") is completer("compare", "--workload") is completion._workloads
    assert completer("upgrade", "--to") is completion._obtainable
    assert completer("size", "--wal") is completion._volumes
    assert type(completer("compare", "--out")).__name__ == "DirectoriesCompleter"
    assert type(completer("gate", "--junit")).__name__ == "FilesCompleter"
    assert not set(completion._NO_VOLUMES) & set(completion._volumes(""))
