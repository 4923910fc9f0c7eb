"""The accounts as tables, as a drawing, and in the reports."""

import json

import report_examples
from pgassay.model.account import Account, AccountItem, ArmAccounts
from pgassay.report.charts import account_chart
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX, svg
from pgassay.report.compare import page as comparison
from pgassay.report.compare.accounts import RESIDUE, account_tables


def item(kind: str, state: str, seconds: float, event: str = ":") -> AccountItem:
    event_type, _, name = event.partition(":")
    return AccountItem.model_validate(
        {
            "kind": kind,
            "state": state,
            "wait_event_type": event_type,
            "wait_event": name,
            "seconds": seconds,
            "share": seconds / 2.0,
        }
    )


def account(process: str, *items: AccountItem) -> Account:
    residue = 2.0 - sum(each.seconds for each in items)
    return Account(
        process=process,
        threads=1.0,
        wall_s=2.0,
        items=items,
        residue_s=residue,
        sampling_error_s=0.01,
        samples=100,
    )


def accounts(stored_arms: list[str], stratum: str = "") -> tuple[ArmAccounts, ...]:
    """Two arms: one waits for the device, the other has I/O workers that do, and a negative residue."""
    first = account(
        "backend",
        item("cpu", "running", 1.0),
        item("cpu", "running", 0.2, "IO:DataFileRead"),
        item("runnable", "runnable", 0.1),
        item("wait", "device", 0.6, "IO:DataFileRead"),
        item("wait", "asleep", 0.004, "LWLock:WALWrite"),
    )
    second = account(
        "backend",
        item("cpu", "running", 1.2),
        item("wait", "asleep", 0.7, "IO:AioIoCompletion"),
        item("client", "asleep", 0.3, "Client:ClientRead"),
    )
    worker = account("io worker", item("wait", "asleep", 2.0, "Activity:IoWorkerMain"))
    return (
        ArmAccounts(arm=stored_arms[0], stratum=stratum, trials=3, measured_s=2.0, accounts=(first,)),
        ArmAccounts(arm=stored_arms[1], stratum=stratum, trials=3, measured_s=2.0, accounts=(second, worker)),
    )


def test_tables_have_a_column_for_each_arm_and_add_up_small_items() -> None:
    stored = report_examples.stored(levels=["sync", "worker"], blocks=2)
    result = report_examples.result(stored, accounts=accounts(["io_method=sync", "io_method=worker"]))
    connections, workers = account_tables(result)
    assert (connections.title, workers.title) == ("connections", "I/O workers")
    assert connections.arms == ("io_method=sync", "io_method=worker")
    rows = {row.name: row for row in connections.rows}
    assert rows["on CPU"].seconds == (1.0, 1.2)
    assert rows["on CPU within IO:DataFileRead"].seconds == (0.2, 0)
    assert rows["IO:DataFileRead, waiting for a device"].cells[0] == "600 ms (30.0 %)"
    assert rows["everything else"].seconds == (0.004, 0)
    assert list(rows)[-1] == RESIDUE
    assert rows[RESIDUE].seconds[1] < 0
    for place, wall_s in enumerate(connections.walls_s):
        assert abs(sum(row.seconds[place] or 0 for row in connections.rows) - (wall_s or 0)) < 1e-9
    assert workers.walls_s == (None, 2.0)
    assert workers.rows[0].cells == ("-", "2.000 s (100.0 %)")


def test_every_item_is_drawn_and_a_negative_residue_lies_left_of_zero() -> None:
    stored = report_examples.stored(levels=["sync", "worker"], blocks=2)
    result = report_examples.result(stored, accounts=accounts(["io_method=sync", "io_method=worker"]))
    tables = account_tables(result)
    for width in (WIDE_PX, NARROW_PX):
        chart = account_chart.specification(tables, width_px=width)
        drawn = {(row["arm"][-4:], row["item"]): row["value"] for row in chart["datasets"]["items"]}
        assert drawn["sync", "on CPU"] == 1.0
        assert drawn["rker", RESIDUE] < 0
        colours = chart["spec"]["encoding"]["color"]["scale"]
        assert set(colours["domain"]) == {row["item"] for row in chart["datasets"]["items"]}
        assert len(set(colours["range"])) == len(colours["range"])
        assert "<svg" in svg(chart, "accounts")
    json.dumps(chart, allow_nan=False)


def test_arms_that_differ_in_the_middle_of_their_names_have_a_bar_each() -> None:
    stored = report_examples.stored(levels=["sync", "worker"], blocks=2)
    result = report_examples.result(stored)
    levels = [{"random_page_cost": cost, "effective_cache_size": "1GB"} for cost in ("1.1", "4", "4")]
    levels[2] |= {"effective_cache_size": "4GB"}
    arms = tuple(
        result.arms[0].model_copy(update={"name": " ".join(level.values()), "levels": level})
        for level in levels
    )
    made = accounts([arm.name for arm in arms])
    result = result.model_copy(update={"arms": arms, "accounts": made})
    for width in (WIDE_PX, NARROW_PX):
        items = account_chart.specification(account_tables(result), width_px=width)["datasets"]["items"]
        cpu = [row for row in items if row["item"] == "on CPU"]
        assert len({row["arm"] for row in cpu}) == len(cpu) == 2


def test_a_large_grid_draws_connections_first_and_no_more_than_fits() -> None:
    strata = [f"clients={number}" for number in range(15)]
    levels = ["sync", "worker"]
    stored = report_examples.stored(levels=levels, strata=[name.split("=")[1] for name in strata], blocks=1)
    names = [[f"io_method={level} {stratum}" for level in levels] for stratum in strata]
    made = [accounts(pair, stratum) for pair, stratum in zip(names, strata, strict=True)]
    result = report_examples.result(stored, accounts=tuple(arm for pair in made for arm in pair))
    chart = account_chart.specification(account_tables(result), width_px=WIDE_PX)
    panels = list(dict.fromkeys(row["panel"] for row in chart["datasets"]["items"]))
    assert [panel for panel in panels if panel.startswith("connections")] == [
        f"connections at {stratum}" for stratum in strata
    ]
    assert len(panels) < 2 * len(strata)


def test_reports_show_them_and_escape_what_a_server_named() -> None:
    stored = report_examples.stored(levels=["sync", "worker"], blocks=2)
    hostile = account("backend", item("wait", "asleep", 2.0, f"Extension:{report_examples.HOSTILE}\x1b[31m"))
    made = accounts(["io_method=sync", "io_method=worker"])
    result = report_examples.result(
        stored, accounts=(made[0].model_copy(update={"accounts": (hostile,)}), made[1])
    )
    page = comparison.page_of(result, stored).html()
    assert 'id="accounts"' in page
    assert report_examples.HOSTILE not in page
    said = comparison.page_of(result, stored).terminal(width=100, unicode=False)
    assert "Where the time went" in said
    assert "\x1b" not in said
    assert "wall time" in said
    assert "means over the trials" in said
    starts = result.model_copy(update={"arms": [arm.model_copy(update={"starts": 3}) for arm in result.arms]})
    assert "one execution in each start; not judged" in comparison.page_of(starts, stored).html()
    without = report_examples.result(stored)
    assert "Where the time went" not in comparison.page_of(without, stored).terminal(width=100, unicode=False)
    assert 'id="accounts"' not in comparison.page_of(without, stored).html()
