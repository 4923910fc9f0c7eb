"""Asserted from inside the server before anything is timed: version, checksums, every setting.

A setting that was asked for and does not hold makes the trial fail: a benchmark of something
else than its label is worse than none.
"""

from typing import TYPE_CHECKING, Any

from pgassay.environment.server.settings import describe_settings, effective, equal_value
from pgassay.errors import MeasurementError
from pgassay.model.arm import ArmSpec

if TYPE_CHECKING:
    import psycopg


def assert_from_inside(connection: "psycopg.Connection[Any]", spec: ArmSpec) -> dict[str, Any]:
    """Check the running server against the arm; returns the facts for the record.

    Raises MeasurementError naming the first setting, version or option that is not as asked for.
    """
    facts = effective(connection)
    version = str(connection.info.server_version)
    if connection.info.server_version // 10000 != spec.build.major:
        raise MeasurementError(f"the server is version {version}, not {spec.build.version}: check --pg")
    checksums = facts.get("data_checksums", "off")
    if (checksums == "on") != spec.dataset.checksums:
        raise MeasurementError(f"data_checksums is {checksums}, the dataset was made otherwise: remove it")
    described = describe_settings(connection)
    for name, wanted in spec.settings.items():
        held = _current(connection, name)
        fact = described.get(name)
        if held is None or (fact is not None and not equal_value(name, wanted, held, fact)):
            raise MeasurementError(
                f"{name} was set to {wanted} and the server runs with {held}: "
                f"choose a value that it accepts as it is, or leave {name} out"
            )
    return {"settings": facts, "server_version": version, "dataset_load": spec.dataset.load}


def _current(connection: "psycopg.Connection[Any]", name: str) -> str | None:
    row = connection.execute("SELECT current_setting(%s, true)", (name,)).fetchone()
    return None if row is None or row[0] is None else str(row[0])
