"""What EXPLAIN is asked for by version, and which names of a statement could be functions."""

from pgassay.trial.measure.plan_safety import called
from pgassay.trial.measure.work_plans import options


def test_each_version_is_asked_for_what_it_has() -> None:
    alike = "ANALYZE, BUFFERS, WAL, SETTINGS, VERBOSE"
    assert options(14) == options(16) == f"{alike}, FORMAT JSON"
    assert options(17) == options(18) == f"{alike}, MEMORY, SERIALIZE, FORMAT JSON"
    assert options(19) == f"{alike}, MEMORY, SERIALIZE, IO, FORMAT JSON"


def test_functions_are_found_however_they_are_written() -> None:
    sql = 'SELECT NextVal(\'s\'), public.My_F (1), "Odd ""name"(2), größe(3) FROM t WHERE a IN (1)'
    assert set(called(sql)) >= {"nextval", "my_f", 'Odd "name', "größe"}
    assert "t" not in set(called(sql))
