"""How many clients the proof has for the sessions that a server has at work."""

import pytest

from pgassay.tune.source.sessions import AtWork


@pytest.mark.parametrize(
    ("since", "seen", "processors", "clients"),
    [
        (None, 0.0, 2, 1),
        (0.01, 0.3, 2, 1),
        (1.6, 0.0, 2, 2),
        (0.2, 3.4, 2, 3),
        (7.6, 8.2, 2, 8),
        (40.0, 60.0, 2, 8),
        (40.0, 60.0, 0.5, 2),
    ],
)
def test_the_larger_figure_counts_as_far_as_processors_serve(
    since: float | None, seen: float, processors: float, clients: int
) -> None:
    at_work = AtWork(since, seen)
    assert at_work.clients(processors) == clients
    note = at_work.note(processors)
    assert (f"--clients {clients} measures that many together" in note) is bool(note) is (clients > 1)
