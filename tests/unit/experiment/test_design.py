"""Arms, strata and randomised blocks."""

from collections import Counter

import pytest
from plans_for_tests import base_spec, make_arms

from pgassay.design.arms import build_arms, choose_control, select_strata
from pgassay.design.schedule import block_order
from pgassay.errors import UsageError
from pgassay.factors.registry import parse_factors


def test_one_factor_has_one_control_and_one_twin() -> None:
    arms, contrasts = make_arms(["io_method=sync,worker,io_uring"])
    roles = Counter(arm.role for arm in arms)
    assert roles == {"control": 1, "arm": 2, "twin": 1}
    control = next(arm for arm in arms if arm.role == "control")
    twin = next(arm for arm in arms if arm.role == "twin")
    assert control.levels == twin.levels == {"io_method": "sync"}
    assert control.spec == twin.spec
    assert (control.data_copy, twin.data_copy) == (0, 1)
    assert {contrast.control_id for contrast in contrasts} == {control.id}
    assert {contrast.twin_id for contrast in contrasts} == {twin.id}
    assert [arm.spec.settings["io_method"] for arm in arms if arm.role == "arm"] == ["worker", "io_uring"]


def test_a_grid_compares_the_first_factor_within_strata() -> None:
    arms, contrasts = make_arms(["io_method=sync,worker", "clients=1,8,50"], workload="select-only")
    assert len(arms) == 9
    assert len(contrasts) == 3
    by_id = {arm.id: arm for arm in arms}
    for contrast in contrasts:
        arm, control = by_id[contrast.arm_id], by_id[contrast.control_id]
        assert arm.levels["clients"] == control.levels["clients"]
        assert contrast.stratum == f"clients={arm.levels['clients']}"


def test_the_control_chooses_the_compared_factor() -> None:
    factors = parse_factors(["io_method=sync,worker", "work_mem=4MB,64MB"])
    assert choose_control(factors, None).factor == "io_method"
    assert choose_control(factors, "work_mem=64MB").control == "64MB"
    assert choose_control(factors, "worker").factor == "io_method"
    with pytest.raises(UsageError, match="write FACTOR=LEVEL"):
        choose_control(factors, "nothing")


def test_a_stratum_that_lost_its_control_is_refused() -> None:
    factors = parse_factors(["io_method=sync,worker,io_uring"])
    specs = [({"io_method": level}, base_spec()) for level in ("worker", "io_uring")]
    with pytest.raises(UsageError, match="the control io_method=sync is not available"):
        build_arms(factors, choose_control(factors, None), specs, 1)


def test_one_level_left_is_nothing_to_compare() -> None:
    factors = parse_factors(["io_method=sync,io_uring"])
    with pytest.raises(UsageError, match="no two levels"):
        build_arms(factors, choose_control(factors, None), [({"io_method": "sync"}, base_spec())], 1)


def test_a_grid_beyond_reason_is_refused() -> None:
    many = ",".join(str(number) for number in range(30))
    with pytest.raises(UsageError, match="take fewer levels"):
        make_arms([f"work_mem={many}", f"io_workers={many}"])


def test_identifiers_do_not_give_the_twin_away() -> None:
    twins = Counter()
    for seed in range(200):
        arms, _ = make_arms(["io_method=sync,worker,io_uring"], seed=seed)
        twins[next(arm.id for arm in arms if arm.role == "twin")] += 1
    assert set(twins) == {f"arm-{number:03d}" for number in range(4)}
    assert max(twins.values()) < 90


def test_each_block_holds_each_arm_once_in_an_order_of_its_own() -> None:
    ids = ["arm-000", "arm-001", "arm-002", "arm-003"]
    orders = [block_order(11, block, ids) for block in range(400)]
    assert all(sorted(order) == ids for order in orders)
    assert orders[5] == block_order(11, 5, list(reversed(ids)))
    assert orders != [block_order(12, block, ids) for block in range(400)]
    first = Counter(order[0] for order in orders)
    assert min(first.values()) > 60  # 100 expected; 4.6 standard deviations below


def test_the_order_is_the_same_on_every_machine_and_version() -> None:
    ids = ["arm-000", "arm-001", "arm-002", "arm-003"]
    assert ["".join(name[-1] for name in block_order(1, block, ids)) for block in range(4)] == RECORDED_ORDERS


RECORDED_ORDERS = ["3120", "2031", "3012", "3021"]


def test_some_strata_of_a_grid_keep_their_arms_and_no_others() -> None:
    arms, contrasts = make_arms(["io_method=sync,worker", "clients=1,8,50"], workload="select-only")
    wanted = ("clients=1", "clients=50")
    kept, compared = select_strata(arms, contrasts, wanted)
    assert kept == tuple(arm for arm in arms if arm.stratum in wanted)
    assert {contrast.stratum for contrast in compared} == set(wanted)
    assert len(kept) == 6
    with pytest.raises(
        UsageError, match="'clients=2' is not a stratum of this grid: name one of clients=1; cl"
    ):
        select_strata(arms, contrasts, ("clients=1", "clients=2"))
    alone = make_arms(["io_method=sync,worker"])
    with pytest.raises(UsageError, match="there is only one: leave it out"):
        select_strata(*alone, ("clients=1",))
