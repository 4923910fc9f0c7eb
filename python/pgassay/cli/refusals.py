"""What can't be parsed: one sentence that says what is wrong and what to type instead.

argparse would print the usage of the command first, which hides the sentence behind a screen of options.
Imported only when something was refused, so that `pgassay --help` answers at once.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from pgassay.options.option import excluding

# What argparse says, as far as better can be said.
_CHOICE = re.compile(r"argument (.+?): invalid choice: (.+?) \(choose from .*\)", re.DOTALL)
_WANTS_VALUE = re.compile(r"argument (\S+): expected (?:one argument|at least one argument)")
_BOTH = re.compile(r"argument (\S+): not allowed with argument (\S+)")
_LACKS = re.compile(r"the following arguments are required: (.+)")
_ARGUMENT = re.compile(r"argument (--\S+): (.+)", re.DOTALL)
# What people's fingers know from pgbench, and psql's own; of a command that measures.
_OF_PGBENCH = {
    "-s": "the scale is --scale N",
    "-c": "clients are a factor, clients=1,8, or an option of the workload, --workload tpcb:clients=8",
    "-j": "threads are an option of the workload: --workload tpcb:clients=8,threads=2",
    "-T": "the length of a trial is an option of the workload: --workload tpcb:duration=60s",
    "-S": "read-only is --workload select-only",
    "-N": "updates without branches are --workload simple-update",
    "-M": "the protocol is an option of the workload: --workload tpcb:protocol=simple",
    "-f": "scripts are --workload pgbench:file=FILE@WEIGHT, statements of a file --workload sql:FILE",
    "-t": "the length of a trial is an option of the workload: --workload tpcb:duration=60s",
    "-D": "a variable is an option of the workload, --workload pgbench:file=FILE,var.NAME=1, and a factor",
    "-R": "a rate is an option of the workload: --workload tpcb:clients=8,rate=500",
    "-L": "a limit is an option of the workload: --workload tpcb:clients=8,rate=500,latency_limit=20ms",
    "-C": "a connection for each transaction is --workload tpcb:clients=8,lifetime=0s",
    "-d": "a running server is --server 'host=HOST dbname=DATABASE'",
    "-p": "a running server is --server 'host=HOST port=5432 dbname=DATABASE'",
    "-U": "a running server is --server 'host=HOST user=USER dbname=DATABASE'",
}
# Values that are no numbers.
_KINDS = {"FILE": "a file", "DIR": "a folder", "FOLDER": "a folder", "ADDRESS:PORT": "an address and a port"}
# A command with as many options has them named where a wrong one was typed.
_LISTED_MAX = 10
_OF_LOADS = ("clients", "threads", "duration", "warmup", "protocol")


def sentence(parser: argparse.ArgumentParser, message: str) -> str:
    """What argparse refused, for one line on standard error; `message` is argparse's own."""
    if match := _CHOICE.fullmatch(message):
        return _no_choice(parser, match[1], match[2].strip("'\""))
    if match := _WANTS_VALUE.fullmatch(message):
        action = parser._option_string_actions.get(match[1].split("/")[-1])
        value = str(action.metavar or "VALUE") if action is not None else "VALUE"
        if value in _KINDS or "=" in value:
            return f"{match[1]} needs {_KINDS.get(value, 'a value')}: write {match[1]} {value}"
        # A value that begins with a minus is taken for an option.
        return f"{match[1]} needs a value that is not negative: write {match[1]} {value}"
    if match := _BOTH.fullmatch(message):
        return str(excluding(match[1], match[2]))
    if match := _LACKS.fullmatch(message):
        return f"'{parser.prog}' needs {match[1]}{_example_of(parser)}"
    if match := _ARGUMENT.fullmatch(message):
        return f"{match[1]} {match[2]}" if match[2].startswith("needs") else f"{match[1]}: {match[2]}"
    return message


def unknown_words(name: str, commands: Mapping[str, argparse.ArgumentParser], words: Sequence[str]) -> str:
    """Why the words that are left over can't be taken by the command `name`; for the first of them."""
    parser = commands[name]
    word = next((each for each in words if each.startswith("-")), words[0])
    if not word.startswith("-"):
        taken = [str(each.metavar or each.dest) for each in _positionals(parser)]
        takes = f"takes {' '.join(taken)} and options" if taken else "takes only options"
        return f"'{word}' is one word too many: 'pgassay {name}' {takes}"
    option = word.partition("=")[0]
    return f"'pgassay {name}' has no option {option}: {_instead(name, commands, option)}"


def take_late_words(
    parser: argparse.ArgumentParser, chosen: argparse.Namespace, words: Sequence[str]
) -> list[str]:
    """Give words that stand behind options to the argument that takes several; returns what is left over.

    argparse hands over only the first row of them: `compare A=1,2 --scale 5 B=1,2` would lose B.
    """
    several = [each for each in _positionals(parser) if each.nargs in ("+", "*")]
    if len(several) != 1 or any(word.startswith("-") for word in words):
        return list(words)
    convert = several[0].type if callable(several[0].type) else str
    first = getattr(chosen, several[0].dest)
    setattr(chosen, several[0].dest, [*first, *map(convert, words)])
    return []


def _positionals(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (each for each in parser._actions if not each.option_strings and each.help != argparse.SUPPRESS)


def _no_choice(parser: argparse.ArgumentParser, argument: str, typed: str) -> str:
    action = next(each for each in parser._actions if argument in _names(each))
    known = [str(each) for each in action.choices or ()]
    if isinstance(action, argparse._SubParsersAction):
        close = get_close_matches(typed, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"use {', '.join(known)}"
        return (
            f"'{parser.prog}' has no command '{typed}': {hint} ('{parser.prog} --help' says what each does)"
        )
    if action.metavar is not None:
        # One that is for pgassay's own use stands in no help.
        known = [each for each in known if each in (action.help or "")]
    return f"{argument} can't be '{typed}': use {', '.join(known)}"


def _names(action: argparse.Action) -> Iterator[str]:
    yield from (action.dest, "/".join(action.option_strings))
    if isinstance(action.metavar, str):
        yield action.metavar


def _example_of(parser: argparse.ArgumentParser) -> str:
    """The first example of the command's help, or where its help is."""
    lines = (line.strip() for line in (parser.epilog or "").splitlines())
    example = next((line for line in lines if line.startswith(f"{parser.prog} ")), "")
    return f", as in '{example}'" if example else f": '{parser.prog} --help' says what that is"


def _instead(name: str, commands: Mapping[str, argparse.ArgumentParser], option: str) -> str:
    parser = commands[name]
    takes_workload = "--workload" in parser._option_string_actions
    bare = option.lstrip("-").replace("-", "_")
    if takes_workload and option in _OF_PGBENCH:
        return _OF_PGBENCH[option]
    if takes_workload and bare in _OF_LOADS:
        return f"it is an option of the workload, --workload tpcb:{bare}=…" + (
            ", and a factor, clients=1,8" if bare == "clients" else ""
        )
    others = [other for other, each in commands.items() if option in each._option_string_actions]
    close = get_close_matches(option, parser._option_string_actions, n=1, cutoff=0.75)
    if close and (not others or close[0].startswith(option)):
        return f"did you mean {close[0]}?"
    if others:
        best = "report" if "report" in others else others[0]
        return f"'pgassay {best}' has it; '{parser.prog} --help' lists those of {name}"
    if "--set" in parser._option_string_actions and "_" in option:
        return f"a setting for all arms is --set {bare}=VALUE, one to compare {bare}=VALUE,VALUE"
    own = [each for each in parser._option_string_actions if each.startswith("--") and each != "--help"]
    if len(own) <= _LISTED_MAX:
        return f"it has {', '.join(own)}"
    return f"'{parser.prog} --help' lists those it has"
