"""What is withheld of single machines is withheld of all of them together."""

from pgassay.analysis.machines.combine import combine
from pgassay.analysis.verdicts.compare import analyse
from samples.machines.stored import on


def test_twins_that_differ_count_where_no_machine_alone_has_a_verdict() -> None:
    """Each twin lies apart from its control, and what all machines show together lies within that."""
    result = combine([on(host, 0.008, twin=0.05) for host in "abcd"])
    assert [machine.verdict for machine in result.machines] == ["inconclusive"] * 4
    these = result.arms[0].these_machines
    assert (these.verdict, these.withheld) == ("inconclusive", True)
    assert "the twin, a duplicate of the control, differs" in result.verdict.splitlines()[0]
    like_these = combine([on(f"host{number}", 0.008, twin=0.05) for number in range(1, 7)]).arms[0]
    assert like_these.machines_like_these.machines < 6


def test_machines_that_measured_the_client_say_nothing_of_the_server_together_either() -> None:
    busy = {"threads": 1, "elapsed_s": 10.0, "client_idle_s": 0.2, "client_cpu_s": 9.9}
    experiments = [on(host, 0.0, blocks=6, client={**busy, "client_idle_s": 9.0}) for host in "abcdef"]
    assert [analyse(each).arms[1].verdict for each in experiments] == ["inconclusive"] * 6
    assert combine(experiments).arms[0].these_machines.verdict == "equivalent"
    result = combine([on(host, 0.0, blocks=6, client=busy) for host in "abcdef"])
    these = result.arms[0].these_machines
    assert (these.verdict, these.withheld) == ("inconclusive", True)
    assert "the load generator was busy for 98 % of the time" in result.verdict
    assert all(machine.withheld for machine in result.machines)
