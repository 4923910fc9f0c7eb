"""`pgbench:file=FILE@WEIGHT+FILE@WEIGHT,…`: scripts of a user's in pgbench's language, as a load."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.workload import LoadScript, WorkloadSpec
from pgassay.native.scripts import ReadScripts, read_scripts
from pgassay.sql_text import split_statements
from pgassay.value_syntax import option_lists as typed_options
from pgassay.value_syntax import quantities
from pgassay.workloads import holding, pace
from pgassay.workloads.pgbench_builtin import OPTIONS, load_of, metric_of
from pgassay.workloads.sql_files import read_sql_file
from pgassay.workloads.statements import begins_or_ends_transaction, changes_data
from pgassay.workloads.transactions import ends

FAMILY = "pgbench"
VARIABLE = "var."
_WEIGHT = re.compile(r"(?P<path>.+)@(?P<weight>\d{1,15})")
# pgbench's own variables, which have a value without being given one.
_OWN_VARIABLES = frozenset({"client_id", "scale", "random_seed", "default_seed"})


def parse(family: str, text: str) -> WorkloadSpec:
    """`pgbench:file=FILE[@W][+FILE[@W]…],clients=…,var.NAME=VALUE,writes=yes|no`.

    Raises UsageError for an option, a file or a script that is none, naming script, line and column.
    """
    parts = [part for part in typed_options.split(text) if part]
    names = [part.partition("=")[0].strip() for part in parts]
    variables = [name for name in names if name.startswith(VARIABLE)]
    given = typed_options.pairs(parts, f"workload {family}", ("file", *OPTIONS, "writes", *variables))
    if "file" not in given:
        raise UsageError(
            "workload pgbench needs a script: write --workload pgbench:file=FILE, "
            "or tpcb, simple-update or select-only for one of pgbench's own"
        )
    writes = given.get("writes", "")
    if writes not in ("", "yes", "no"):
        raise UsageError(f"workload pgbench: writes={writes} is not known: write writes=yes or writes=no")
    scripts = tuple(_script(typed) for typed in given["file"].split("+"))
    if not any(script.weight for script in scripts):
        raise UsageError(
            f"workload pgbench: file={given['file']} gives no script a weight above 0, so none would run: "
            "write 1 or more after the @ of one of them"
        )
    read = read_scripts([{"name": each.name, "text": each.text} for each in scripts])
    # pgbench's own default: scripts are written for it, and may not be possible with parameters.
    of_load = {"protocol": "simple", **{name: given[name] for name in OPTIONS if name in given}}
    load = load_of(family, of_load)
    if read["has_pipeline"] and load.protocol == "simple":
        raise UsageError(
            "workload pgbench: a pipeline is not possible with protocol=simple: "
            "add protocol=prepared or protocol=extended"
        )
    holding.check(load, family, has_transaction=has_transaction(read))
    values = {name.removeprefix(VARIABLE): given[name] for name in variables}
    for name in values:
        check_variable(name, read["variables"], scripts)
    return WorkloadSpec(
        text=f"{family}:{text}",
        family=family,
        kind="load",
        metric=metric_of(load),
        writes=writes == "yes" if writes else _writes(read),
        load=load.model_copy(update={"scripts": scripts, "variables": values}),
    )


def with_files(text: str, place: Callable[[str], str]) -> str:
    """A load's options with each script and curve where `place` says; it is given the file as typed."""
    typed = typed_options.split(text)
    parts = [_with_files(part, place) for part in typed]
    return text if parts == typed else typed_options.joined(parts)


def _with_files(part: str, place: Callable[[str], str]) -> str:
    name, equals, value = part.partition("=")
    if equals and name.strip() == "file":
        return f"{name}=" + "+".join(_placed(typed.strip(), place) for typed in value.split("+"))
    if equals and name.strip() == "curve":
        return f"{name}={pace.placed_curve(value.strip(), place)}"
    return part


def _placed(typed: str, place: Callable[[str], str]) -> str:
    path, _ = _path_and_weight(typed)
    return f"{place(path)}{typed.removeprefix(path)}" if path else typed


def check_variable(name: str, known: list[str], scripts: Sequence[LoadScript]) -> None:
    """Raise UsageError for a variable whose value changes nothing: unused, or set by the scripts first."""
    if name not in known:
        others = ", ".join(sorted(set(known) - _OWN_VARIABLES)) or "none"
        raise UsageError(f"{VARIABLE}{name}: no script uses the variable {name}; the variables are {others}")
    found = {each.name: _sets_first(each.text, name) for each in scripts}
    setting = [script for script, is_set in found.items() if is_set]
    if setting and False not in found.values():
        raise UsageError(
            f"{VARIABLE}{name}: {setting[0]} sets {name} itself, so that another value would change nothing: "
            f"leave its \\set {name} out"
        )


def _sets_first(text: str, name: str) -> bool | None:
    """Whether a script sets a variable in any case before it uses it; None where it does neither."""
    depth = 0
    for line in text.replace("\\\n", " ").splitlines():
        words = line.strip()
        command = next(iter(words.split()), "")
        is_used = not words.startswith("--") and re.search(rf":{name}(?!\w)", words) is not None
        is_set = re.match(rf"\\set\s+{name}(?!\w)", words) is not None
        if is_used or is_set:
            return not is_used and depth == 0
        depth += {"\\if": 1, "\\endif": -1}.get(command, 0)
    return None


def _path_and_weight(typed: str) -> tuple[str, int]:
    match = _WEIGHT.fullmatch(typed.strip())
    if match is None:
        return typed.strip(), 1
    return match["path"], quantities.whole(match["weight"], "workload option file: weight", most=2**31 - 1)


def _script(typed: str) -> LoadScript:
    path, weight = _path_and_weight(typed)
    if not path:
        raise UsageError("workload pgbench: a file has no name: write file=FILE@WEIGHT+FILE@WEIGHT")
    file, at, rest = path.rpartition("@")
    if at and not Path(path).exists() and Path(file).is_file():
        raise UsageError(
            f"workload pgbench: '{rest}' is not the weight of {file}: write a whole number from 0 on, as "
            f"{file}@3"
        )
    return LoadScript(name=path, text=read_sql_file(Path(path)), weight=weight)


def has_transaction(read: ReadScripts) -> bool:
    """Whether any script has an end of a transaction that is sent by itself: one can be idle before it."""
    return any(ends(statement["sql"]) for statement in read["statements"])


def _writes(read: ReadScripts) -> bool:
    # What \; joins is sent at once, and is several statements all the same.
    statements = (sql for sent in read["statements"] for sql in _separate(sent["sql"]))
    return any(changes_data(sql) for sql in statements if not begins_or_ends_transaction(sql))


def _separate(sql: str) -> list[str]:
    try:
        return split_statements(sql, "")
    except UsageError:
        return [sql]  # a quote that is never closed: the server says so
