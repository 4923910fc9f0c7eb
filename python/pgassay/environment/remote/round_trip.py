"""The time of a statement that does nothing: the network, both ways, and the least work of a server."""

from statistics import quantiles

from pgassay.environment.server.sessions import ConnectionParameters
from pgassay.errors import MeasurementError, UsageError
from pgassay.native.sql import SqlSession

SAMPLES_OF_A_PLAN = 21
SAMPLES_OF_A_TRIAL = 9


def round_trip_ms(session: SqlSession, samples: int) -> float:
    """The lower quartile of several `SELECT 1`, on the path by which everything else is measured.

    Whoever of client, server and what lies between waits for a processor makes an answer late, and none
    early: on a busy machine most are late, and what is late is no network. The first, which may still warm
    something, is not counted. Raises StatementError when the connection is lost.
    """
    session.execute("round trip", "SELECT 1")
    taken = [session.execute("round trip", "SELECT 1").elapsed_ns for _ in range(samples)]
    return float(quantiles(taken, n=4)[0]) / 1e6


def first_round_trip_ms(parameters: ConnectionParameters, name: str) -> float:
    """Connect as everything will be measured, and time the round trip to the server `name`.

    Raises UsageError when the measuring process can't connect where libpq could.
    """
    try:
        with SqlSession() as session:
            session.connect(parameters)
            return round_trip_ms(session, SAMPLES_OF_A_PLAN)
    except MeasurementError as error:
        raise UsageError(f"{name}: {error}") from error
