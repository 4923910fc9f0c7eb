"""Processors set the speed: one of them, all of them, or the share that a cap allows.

CPU time and time in the queue for a processor are the scheduler's own counts
(Documentation/scheduler/sched-stats.rst); what a cap holds back is counted by the bandwidth controller
(Documentation/scheduler/sched-bwc.rst) and shows as time in the queue. A missing wait event is no evidence.
"""

from dataclasses import replace

from pgassay.analysis.causes.base import CAP, Answer, Found, Missing, OnRunningServer, Rule, lifted, raising
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.rules import remote_limits

# The server was held back in at least so many of its periods of 100 ms.
_THROTTLED_MIN = 0.5
_SATURATED = 0.85
# Of the time that everybody used of full processors: from so much on it is the server's own work that fills
# them, and not others'.
_OWN_SHARE = 2 / 3
# /proc/stat counts ticks of 10 ms: how many processors there were in a shorter span it can't tell
# (Documentation/filesystems/proc.rst).
_SPAN_MIN_S = 0.1
_BUSY_CORE_MIN = 0.5
_NOISE_SHARE_MIN = 0.1


def throttled_share(evidence: Evidence) -> float:
    """The share of the periods in which the server used up what its cap allows; 0 without a cap."""
    periods = evidence.server.group.get("nr_periods", 0.0)
    return evidence.server.group.get("nr_throttled", 0.0) / periods if periods else 0.0


def is_saturated(evidence: Evidence) -> bool | None:
    """Whether the server and its client use all processors of the machine; None when not counted.

    Nearly all by themselves, or most of what is used of processors that are full. False for spans too short
    to tell.
    """
    processors = evidence.machine.processors
    if processors is None:
        return None
    if evidence.server.elapsed_s < _SPAN_MIN_S:
        return False
    if processors.own_s >= _SATURATED * processors.count * evidence.server.elapsed_s:
        return True
    used_s = processors.own_s + processors.others_s
    return is_machine_full(evidence) and processors.own_s >= _OWN_SHARE * used_s


def is_machine_full(evidence: Evidence) -> bool:
    """Whether all processors were used, by whomever; False when that was not counted."""
    processors = evidence.machine.processors
    if processors is None:
        return False
    used_s = processors.own_s + processors.others_s
    return used_s >= _SATURATED * processors.count * evidence.server.elapsed_s


def _quota(evidence: Evidence) -> Answer:
    cap = evidence.server.caps.cpus
    if cap is None:
        return None
    if "nr_periods" not in evidence.server.group:
        return Missing("how often the cap on processors held the server back")
    share = throttled_share(evidence)
    if share < _THROTTLED_MIN:
        return None
    times = evidence.times
    seconds = min(times.runnable_s, evidence.server.group.get("throttled_s", times.runnable_s))
    figures: dict[str, float | str] = {
        "cpus": cap,
        "throttled_periods_share": share,
        "throttled_s": evidence.server.group.get("throttled_s", 0.0),
        "runnable_s": times.runnable_s,
    }
    client_s = times.client_s if evidence.is_load else 0.0
    found = lifted(evidence, seconds, figures, lifts=frozenset({CAP}))
    return replace(found, weight_s=times.cpu_s + times.runnable_s + client_s)


def _all_cores(evidence: Evidence) -> Answer:
    processors, times = evidence.machine.processors, evidence.times
    if processors is None and evidence.sql is not None:
        return remote_limits.all_cores(evidence, evidence.sql)
    saturated = is_saturated(evidence)
    if processors is None or saturated is None:
        return Missing("the machine's processor time")
    if not saturated:
        return None
    figures: dict[str, float | str] = {
        "processors": processors.count,
        "own_cpu_s": processors.own_s,
        "others_cpu_s": processors.others_s,
        "runnable_s": times.runnable_s,
    }
    # Who was woken from a wait for a page of transaction status counts there.
    seconds = times.cpu_s + times.runnable_s - times.slru_queue_s
    # The client beside the server waits for a processor too, and the server for it meanwhile.
    return Found(seconds, figures, None, seconds + times.client_s)


def _backend_core(evidence: Evidence) -> Answer:
    times = evidence.times
    if throttled_share(evidence) >= _THROTTLED_MIN or is_saturated(evidence):
        return None
    if times.share_awake(times.cpu_s) < _BUSY_CORE_MIN:
        return None
    if times.runnable_s > times.cpu_s:
        # Not one processor for each connection, but less than that.
        return Missing("why its connections queued for a processor for longer than they had one")
    figures: dict[str, float | str] = {
        "cpu_s": times.cpu_s,
        "connections": sum(
            evidence.server.accounts[name].threads for name in evidence.server.accounts if name == "backend"
        ),
        "cpu_per_connection": times.share(times.cpu_s),
        "runnable_s": times.runnable_s,
        "cpu_in_reads_s": times.cpu_in_reads_s,
    }
    if evidence.machine.processors is not None:
        figures["processors"] = evidence.machine.processors.count
    # The queue for a processor is part of this limit: `noise` says when others caused it.
    return Found(times.cpu_s, figures, None, times.cpu_s + times.runnable_s)


def _noise(evidence: Evidence) -> Answer:
    """Others took the processors: the server waited for one that neither it nor its client used.

    Of the time in the queue they are to blame for as much as they used of what was used: its connections
    queue behind each other, too.
    """
    processors, times = evidence.machine.processors, evidence.times
    if processors is None:
        return Missing("the machine's processor time")
    if is_saturated(evidence) or throttled_share(evidence) >= _THROTTLED_MIN:
        return None
    used_s = processors.others_s + processors.own_s
    seconds = times.runnable_s * processors.others_s / used_s if used_s > 0 else 0.0
    if times.share(seconds) < _NOISE_SHARE_MIN:
        return None
    capacity_s = processors.count * evidence.server.elapsed_s
    if not is_machine_full(evidence) or processors.others_s < (1 - _SATURATED) * capacity_s:
        return None
    figures: dict[str, float | str] = {
        "runnable_s": times.runnable_s,
        "others_cpu_s": processors.others_s,
        "own_cpu_s": processors.own_s,
        "processors": processors.count,
    }
    return lifted(evidence, seconds, figures, others_stay=False)


CPU_QUOTA = Rule(
    cause="cpu-quota",
    kind="limit",
    layer="infrastructure",
    phrase="the cap on its processors",
    remedy="Give the server more processors (cpus, CPU quota).",
    next_step="Check the CPU quota of the container or the service: cpu.max of its control group.",
    find=_quota,
    settings=raising("cpus"),
)
ALL_CORES = Rule(
    cause="all-cores",
    kind="limit",
    layer="infrastructure",
    phrase="the machine's processors, all of them busy",
    remedy="Do less work per transaction, run the client on another machine, or add processors.",
    next_step=(
        "Check which statements take most time (total_exec_time of pg_stat_statements), and what else uses "
        "this machine's processors."
    ),
    on_running_server=OnRunningServer(
        layer="infrastructure",
        remedy="Do less work per transaction, move other programs to another machine, or add processors.",
    ),
    find=_all_cores,
)
BACKEND_CORE = Rule(
    cause="backend-core",
    kind="limit",
    layer="design",
    phrase="what one processor can do for each connection",
    remedy=(
        "Do less work in the statement (index, plan), or use parallel workers: one process uses one "
        "processor."
    ),
    next_step=(
        "Check the plan of the statement that takes most time (EXPLAIN (ANALYZE, BUFFERS)), and whether it "
        "is called more often than needed."
    ),
    find=_backend_core,
    settings=raising("max_parallel_workers_per_gather"),
    otherwise="Do less work in the statement (index, plan).",
)
NOISE = Rule(
    cause="noise",
    kind="fault",
    layer="measurement",
    phrase="other processes on this machine took the processors",
    remedy="Stop the other programs on this machine, and measure again.",
    next_step="Check the other processes: what are they for, and could they run elsewhere?",
    on_running_server=OnRunningServer(
        layer="operations",
        remedy="Move the other programs to another machine, or give the server its own processors.",
    ),
    find=_noise,
    # A neighbour also slows what runs, by caches and threads that share a core: that shows in no queue.
    gain_is_least=True,
)
