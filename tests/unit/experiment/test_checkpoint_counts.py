"""What is said before trials of max_wal_size: how much WAL a second they need to have three checkpoints."""

from plans_for_tests import make_arms

from pgassay.experiment.planning.checkpoint_counts import checkpoint_warnings


def said(*factors: str, workload: str) -> list[str]:
    return list(checkpoint_warnings(make_arms([*factors], workload=workload)[0]))


def test_the_wal_that_three_checkpoints_take_is_said() -> None:
    """190 MB / 1.9 are 100 MB from one checkpoint to the next: 3 of them in 30 s are 10 MB a second."""
    (sentence,) = said("max_wal_size=190MB,8GB", workload="tpcb:clients=4,duration=30s")
    assert "100 MB of WAL ask for a checkpoint" in sentence
    assert "a trial of 30 s has 3 from 10 MB of WAL a second on" in sentence


def test_it_is_of_the_arm_with_most_checkpoints() -> None:
    """A longer completion target has the next one asked for sooner."""
    factors = ("max_wal_size=152MB,8GB", "checkpoint_completion_target=0.5,0.9")
    (sentence,) = said(*factors, workload="tpcb:clients=4,duration=30s")
    assert "80 MB of WAL ask for a checkpoint" in sentence


def test_nothing_is_said_where_no_checkpoint_is_compared_or_nothing_written() -> None:
    assert not said("max_wal_size=1GB,8GB", workload="select-only:clients=4,duration=30s")
    assert not said("max_wal_size=1GB,8GB", workload="full-scan")
    assert not said("work_mem=1MB,8MB", workload="tpcb:clients=4,duration=30s")
