"""Whether a server has the settings that were asked for: first a small one, then the one of each trial.

The small one's cluster is made once a build and kept in home()/data/validation, with what the build says of
its settings, so that most questions need no server. A setting that was asked for and does not hold makes a
trial fail: a benchmark of something other than its label is worse than none.
"""

import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from pgassay.environment.atomic_folder import locked, made_whole
from pgassay.environment.builds.io_uring_gates import io_uring_gate
from pgassay.environment.home import home
from pgassay.environment.server.control_file import read_control_file
from pgassay.environment.server.initdb import make_cluster
from pgassay.environment.server.private_server import Server, ServerStartError
from pgassay.environment.server.programs import ensure_private_folder, file_limit_raised, write_private_file
from pgassay.environment.server.server_folder import PINNED_SETTINGS, check_settings
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.environment.server.setting_values import SettingFact, equal_value, parse_number
from pgassay.environment.server.settings import Level, classify, describe_settings, fact_of, storable_value
from pgassay.environment.server.start_failure import StartFailure
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import ArmSpec, DatasetSpec
from pgassay.model.base import PAGE_BYTES
from pgassay.model.build import Build

SETTINGS_FILE = "pgassay-settings.json"
SMALL_SETTINGS = {"shared_buffers": "16MB", "max_connections": "10"}
CLOSE_MATCHES_MAX = 3
# What a server can't be given, and initdb can.
MADE_BY_INITDB = {
    "data_checksums": "compare clusters with and without by checksums=on,off, or leave it out.",
    "wal_segment_size": "compare clusters that differ in it by wal_segsize=16MB,64MB, or leave it out.",
}
# A value above the other's is cut to it without a word, and SHOW still prints the first
# (src/backend/storage/buffer/bufmgr.c, io_combine_limit_guc; src/backend/postmaster/autovacuum.c).
CLAMPED_BY = {
    "io_combine_limit": "io_max_combine_limit",
    "autovacuum_max_workers": "autovacuum_worker_slots",
}
# What differs from one start to the next and says nothing of the server's behaviour.
_NOT_REPORTED = PINNED_SETTINGS | {"application_name"}
_ALWAYS_REPORTED = ("block_size", "data_checksums", "huge_pages_status", "wal_segment_size")
_EFFECTIVE = """
SELECT name, current_setting(name) FROM pg_settings
WHERE setting IS DISTINCT FROM boot_val OR source NOT IN ('default', 'override') OR name = ANY(%s)
ORDER BY name"""


def build_settings(build: Build) -> dict[str, SettingFact]:
    """Return what a build says of each of its settings; starts a server at the first call for a build."""
    folder = small_cluster(build)
    file = folder / SETTINGS_FILE
    with locked(folder.with_suffix(".lock")):
        if not file.exists():
            with Server(build, folder, SMALL_SETTINGS) as server, control(server) as session:
                described = describe_settings(session)
            write_private_file(file, json.dumps([asdict(fact) for fact in described.values()]))
        documents = json.loads(file.read_text(encoding="utf-8"))
    facts = (SettingFact(**{**document, "enumvals": tuple(document["enumvals"])}) for document in documents)
    return {fact.name: fact for fact in facts}


def setting_level(build: Build, name: str) -> Level:
    """When a change of a setting takes effect; starts a server at the first call for a build."""
    return classify(build_settings(build), name)


def validate_settings(build: Build, settings: Mapping[str, str]) -> None:
    """Start a server with the settings and check that they hold; about 0.3 s.

    Raises UsageError naming the first setting that the build does not know, refuses or changes,
    with what it accepts, and for io_uring the gate and its remedy. Duplicates are the caller's to avoid.
    """
    facts = build_settings(build)
    check_settings(settings)
    # Before the names: an older major has no io_method, and the gate says what to do about it.
    _check_io_uring(build, settings)
    for name in settings:
        _check_name(build, facts, name)
    folder = small_cluster(build)
    with locked(folder.with_suffix(".lock")):
        try:
            with Server(build, folder, {**SMALL_SETTINGS, **settings}) as server, control(server) as session:
                held = describe_settings(session)
        except ServerStartError as error:
            raise UsageError(_refusal(build, facts, settings, error.failure)) from error
    for name, value in settings.items():
        _check_held(build, held, name, value)
    _check_clamps(held)


def shared_buffers_bytes(build: Build, text: str) -> int:
    """The size that a value of shared_buffers means to a build; 0 for one that is none.

    A bare number counts the build's own blocks, so it is asked what these are; starts a server then, at the
    first call for a build.
    """
    number = parse_number(text, None)
    if number is None:
        return round(parse_number(text, "B") or 0)
    return round(number * block_bytes(build))


def block_bytes(build: Build) -> int:
    """The size of a build's blocks, as it says itself; starts a server at the first call for a build."""
    return int(build_settings(build)["block_size"].value or PAGE_BYTES)


def _check_name(build: Build, facts: dict[str, SettingFact], name: str) -> None:
    level = classify(facts, name)
    if level == "initdb":
        remedy = MADE_BY_INITDB.get(name.lower(), "leave it out.")
        raise UsageError(f"The setting {name} is fixed by initdb and can't be changed on a server: {remedy}")
    # A name with a dot belongs to an extension, which only its library knows.
    if level == "unknown" and "." not in name:
        close = difflib.get_close_matches(name.lower(), facts, n=CLOSE_MATCHES_MAX)
        advice = f"did you mean {' or '.join(close)}?" if close else "see SHOW ALL for those it has."
        raise UsageError(f"PostgreSQL {build.version} has no setting {name}: {advice}")


def _check_io_uring(build: Build, settings: Mapping[str, str]) -> None:
    if settings.get("io_method", "").casefold() != "io_uring":
        return
    connections = parse_number(settings.get("max_connections", ""), None)
    # The server raises its limit of open files the same way before it starts.
    with file_limit_raised():
        gate = io_uring_gate(build, int(connections)) if connections else io_uring_gate(build)
    if gate is not None:
        raise UsageError(
            f"io_method=io_uring is refused by the gate '{gate.name}' ({gate.reason}): {gate.remedy}"
        )


def _refusal(
    build: Build, facts: dict[str, SettingFact], settings: Mapping[str, str], failure: StartFailure
) -> str:
    name = failure.setting
    who = f"PostgreSQL {build.version}"
    if name is None or name not in settings:
        return f"{who} does not start with these settings: {failure.sentence()}"
    fact = fact_of(facts, name)
    accepted = fact.accepted() if fact else ""
    advice = f": choose {accepted}." if accepted else f": {failure.remedy or 'choose another value.'}"
    return f"{who} refuses {name}={settings[name]} ({failure.message.rstrip('.')}){advice}"


def _check_held(build: Build, held: dict[str, SettingFact], name: str, value: str) -> None:
    fact = fact_of(held, name)
    if fact is None:
        library = name.partition(".")[0]
        raise UsageError(
            f"No loaded library of PostgreSQL {build.version} knows the setting {name}: "
            f"add --set shared_preload_libraries={library}, or leave it out."
        )
    if not equal_value(fact.name, value, fact.value or "", fact):
        raise UsageError(
            f"PostgreSQL {build.version} runs with {name}={fact.shown()} when asked for {value}: "
            "choose a value that it keeps."
        )


def _check_clamps(held: dict[str, SettingFact]) -> None:
    for name, limit in CLAMPED_BY.items():
        if name not in held or limit not in held:
            continue
        value = parse_number(held[name].value or "", held[name].unit)
        most = parse_number(held[limit].value or "", held[limit].unit)
        if value is not None and most is not None and value > most:
            raise UsageError(
                f"{name}={held[name].shown()} would silently be cut to {limit}={held[limit].shown()}: "
                f"raise {limit} in all arms with --set, or choose a smaller {name}."
            )


def assert_from_inside(connection: ControlSession, spec: ArmSpec) -> dict[str, object]:
    """Check the running server against the arm; returns the facts for the record.

    Raises MeasurementError naming the first setting, version or option that is not as asked for.
    """
    facts = effective(connection)
    version = str(connection.info.server_version)
    if connection.info.server_version // 10000 != spec.build.major:
        raise MeasurementError(f"the server is version {version}, not {spec.build.version}: check --pg")
    checksums = facts.get("data_checksums", "off")
    if (checksums == "on") != spec.dataset.checksums:
        raise MeasurementError(f"data_checksums is {checksums}, unlike the dataset's: remove the dataset")
    segment = facts.get("wal_segment_size", "")
    if spec.server is None and parse_number(segment, "MB") not in (None, spec.dataset.wal_segment_mb):
        raise MeasurementError(
            f"wal_segment_size is {segment}, not {spec.dataset.wal_segment_mb}MB: remove the dataset"
        )
    described = describe_settings(connection)
    for name, wanted in spec.settings.items():
        held = _current(connection, name)
        fact = fact_of(described, name)
        if held is None or (fact is not None and not equal_value(name, wanted, held, fact)):
            raise MeasurementError(
                f"{name} was set to {wanted} and the server runs with {held}: "
                f"choose a value that it accepts as it is, or leave {name} out"
            )
    return {"settings": facts, "server_version": version, "dataset_load": spec.dataset.load}


def _current(connection: ControlSession, name: str) -> str | None:
    row = connection.execute("SELECT current_setting(%s, true)", (name,)).fetchone()
    return None if row is None or row[0] is None else str(row[0])


def effective(connection: ControlSession) -> dict[str, str]:
    """Return the settings in force that are not a default or were given, as SHOW prints them.

    With them the server's own `version`, block_size, data_checksums, wal_segment_size and
    huge_pages_status (17+). Names of private folders are left out, and values that may hold secrets.
    """
    rows = connection.execute(_EFFECTIVE, (list(_ALWAYS_REPORTED),)).fetchall()
    found = {
        str(name): storable_value(str(name), str(value))
        for name, value in rows
        if name.lower() not in _NOT_REPORTED
    }
    version = connection.execute("SELECT version()").fetchone()
    return found | {"version": str(version[0]) if version else ""}


def with_data_format(build: Build) -> Build:
    """The build with the versions of its catalogs and control file, as its own initdb writes them.

    No program of a build prints them without a cluster, and its version may say nothing: all trees of one
    development version call themselves alike.
    """
    control = read_control_file(small_cluster(build))
    found = {"catalog_version": control.catalog_version, "control_version": control.control_version}
    return build.model_copy(update=found)


def small_cluster(build: Build) -> Path:
    """Return the build's own tiny cluster, making it at its first use; who starts it holds its `.lock`."""
    parent = ensure_private_folder(home() / "data" / "validation")
    identity = f"{build.bin_directory} {build.version} {build.binary_sha256}"
    folder = parent / hashlib.sha256(identity.encode()).hexdigest()[:16]
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with made_whole(folder) as partial:
                make_cluster(build, partial, DatasetSpec())
    return folder


def settings_known(build: Build, planned: Build, settings: Mapping[str, str]) -> dict[str, str]:
    """Of these settings those that the build has, as the arms of a proof get them: what is fixed stays fixed.

    What the build that it was `planned` for does not have either stays, so that a slip of the fingers is
    found. Starts a server of a build at its first use.
    """
    if build == planned:
        return dict(settings)
    known, before = build_settings(build), build_settings(planned)
    return {
        name: value
        for name, value in settings.items()
        if classify(known, name) != "unknown" or classify(before, name) == "unknown"
    }
