"""Settings as lines of a provider's parameter group, which takes numbers in the setting's own unit alone.

As pg_settings has them: Amazon RDS writes shared_buffers as {DBInstanceClassMemory/32768}, in pages of 8 kB,
and refuses "512MB".
"""

from collections.abc import Mapping

from pgassay.environment.server.setting_values import parse_number

# The units of what finders set (src/backend/utils/misc/guc_tables.c).
_UNITS = {"work_mem": "kB", "shared_buffers": "8kB", "effective_cache_size": "8kB", "max_wal_size": "MB"}


def parameter_group(settings: Mapping[str, str]) -> tuple[str, ...]:
    """A line for each setting; a value without a unit as it is."""
    return tuple(f"{name} = {_plain(name, value)}" for name, value in settings.items())


def _plain(name: str, value: str) -> str:
    unit = _UNITS.get(name)
    number = parse_number(value, unit) if unit is not None else None
    return value if number is None else str(round(number))
