"""The way between the client and the server sets the speed: each statement waits for the last one's answer.

Over a network a connection in a closed loop does nothing for a round trip per statement, so that
connections × time = round trips × their duration + all else (Little's law). How much of the server's wait
for the client is the network's is said by the account: what the client's own CPU time does not explain.
"""

from pgassay.analysis.causes.base import Answer, Missing, Rule, lifted
from pgassay.analysis.causes.evidence import Evidence

_SHARE_MIN = 0.25


def _network(evidence: Evidence) -> Answer:
    times = evidence.times
    if evidence.work.over_network is False:
        return None
    if evidence.work.over_network is None:
        if times.share(times.network_s + times.client_s) < _SHARE_MIN or not evidence.is_load:
            return None
        return Missing("whether a network lies between the client and the server")
    figures: dict[str, float | str] = {}
    seconds = times.network_s
    trips = evidence.work.trips
    if trips is not None:
        # What waits longer than the round trips take waits for the client's threads.
        seconds = min(seconds, trips.seconds)
        figures = {"round_trips": trips.count, "round_trip_ms": 1000 * trips.each_s}
    if times.share(seconds) < _SHARE_MIN:
        return None
    load = evidence.work.load
    if load is not None and load.transactions and trips is not None:
        figures["round_trips_per_transaction"] = trips.count / load.transactions
    return lifted(evidence, seconds, {"network_s": seconds, **figures})


NETWORK = Rule(
    cause="network",
    kind="limit",
    layer="infrastructure",
    phrase="the network between its client and the server",
    remedy=(
        "Send fewer statements (one function or statement instead of several, pipelining), more "
        "concurrent connections, or run the client nearer to the server."
    ),
    next_step=(
        "Check the round trip time between the application and the server, and how many statements one "
        "request sends."
    ),
    find=_network,
)
