"""A provider's parameter group takes plain numbers, in the unit that pg_settings has."""

from pgassay.tune.answer.parameter_group import parameter_group


def test_memory_is_in_the_settings_own_unit() -> None:
    given = {
        "work_mem": "64MB", "shared_buffers": "512MB", "effective_cache_size": "6144MB",
        "max_wal_size": "4096MB", "random_page_cost": "1.1", "jit": "off",
    }  # fmt: skip
    assert parameter_group(given) == (
        "work_mem = 65536",
        "shared_buffers = 65536",
        "effective_cache_size = 786432",
        "max_wal_size = 4096",
        "random_page_cost = 1.1",
        "jit = off",
    )
