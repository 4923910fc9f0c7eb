"""The workload as it is, measured on a copy: what is refused, what fails, what does not end."""

import json
import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from pgassay.errors import UsageError
from pgassay.experiment.running.result_bag import Bag
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.baseline import MeasuredBaseline, baseline_of
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.copy import TrialCopy
from pgassay.tune.timeouts.time_limits import StatementTimeout
from pgassay.tune.tuned_statements import MeasuredStatement


class _Copy:
    """A copy on which every statement reads one table; times are by words of the texts.

    `times`: infinite of what does not end, None of what fails. `foreign`: (schema, name) of foreign tables.
    """

    timeout_s = 20.0

    def __init__(
        self,
        times: Mapping[str, float | None],
        foreign: Sequence[tuple[str, str]] = (),
        schema: str = "public",
    ) -> None:
        self.times, self.foreign, self.schema = times, foreign, schema
        self.endless: dict[str, StatementTimeout] = {}
        self.session = SimpleNamespace(execute=self._execute)

    def _execute(self, sql: str, *_: object) -> SimpleNamespace:
        names = [name for _, name in self.foreign]
        rows = self.foreign if "nspname" in sql.partition("FROM")[0] else [(name,) for name in names]
        return SimpleNamespace(fetchall=lambda: rows, fetchone=lambda: (1000.0,))

    def _time(self, sql: str) -> float:
        found = next((each for word, each in self.times.items() if word in sql), 0.01)
        if found is None:
            raise UsageError(f"it fails: {sql}")
        return found

    def estimate(self, sql: str, _name: str) -> ExplainedPlan:
        self._time(sql)
        node = {
            "Node Type": "Seq Scan", "Relation Name": "orders", "Schema": self.schema, "Startup Cost": 0,
            "Total Cost": 1e9, "Plan Rows": 10, "Plan Width": 8,
        }  # fmt: skip
        return read_plans(json.dumps([{"Plan": node}]), "made")[0]

    def executed(self, sql: str, name: str, *, writes: bool) -> ExplainedPlan:
        assert not writes
        return self.estimate(sql, name)

    def seconds(self, _: MeasuredStatement, sql: str, *, limit_s: float) -> float:
        return found if (found := self._time(sql)) <= limit_s else math.inf

    def rows(self, _sql: str) -> Bag:
        return Bag(())


def measure(copy: _Copy, *sets: str) -> MeasuredBaseline:
    """The baseline of one statement with these values, or of one without any."""
    sql = "SELECT * FROM orders" + (" WHERE customer = $1" if sets else "")
    statement = TunedStatement(name="list", sql=sql, parameters=tuple((each,) for each in sets))
    return baseline_of(cast(TrialCopy, copy), (statement,), goes_on=True)


def test_a_foreign_table_of_the_same_name_in_another_schema_is_no_matter_of_a_statement() -> None:
    assert measure(_Copy({}, [("archive", "orders")])).baseline.seconds == {"list": 0.01}
    with pytest.raises(UsageError, match="list reaches the foreign table orders"):
        measure(_Copy({}, [("archive", "orders")], schema="archive"))


@pytest.mark.parametrize(
    ("times", "names"),
    [
        ({"'a'": None, "'b'": math.inf}, ["list [1]"]),
        ({"'a'": None, "'c'": math.inf}, ["list [2]"]),
        ({"'a'": None, "'b'": None, "'c'": math.inf}, ["list"]),
        ({"'b'": math.inf, "'c'": math.inf}, ["list [2]", "list [3]"]),
    ],
)
def test_what_did_not_end_is_known_by_the_name_that_it_has_without_sets_that_failed(
    times: Mapping[str, float | None], names: Sequence[str]
) -> None:
    copy = _Copy(times)
    found = measure(copy, "a", "b", "c")
    assert [*found.baseline.endless] == [*copy.endless] == names
    assert found.said[-1].startswith(f"{', '.join(names)} did not finish in ")
    assert not found.baseline.rows.keys() & {*names}
    assert [found.baseline.seconds[name] for name in names] == [
        each.limit_s for each in copy.endless.values()
    ]
