"""A simulated machine for the probe's analysis: cells run against a device and cores of known speeds."""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from pgassay.model.probe import (
    CellRun,
    CellSpec,
    ChecksumSpeed,
    ExecutorCost,
    MeasuredCell,
    ProbeRecord,
    Window,
)
from pgassay.probe.analysis.probe_plan import Facilities, tiers

MB = 1e6
PAGE = 8192


@dataclass
class Machine:
    """A device with a bandwidth and a latency, and what a page costs on a core (seconds)."""

    device_mb_s: float = 1000.0
    latency_s: float = 100e-6
    parallel: int = 64
    copy_s: float = 1.0e-6
    checksum_s: float = 0.8e-6
    submit_s: float = 0.3e-6
    hand_over_s: float = 0.2e-6
    cores: int = 2
    noise: float = 0.01
    falls_after_s: float = math.inf
    crowded: float = 0.0
    draw: random.Random = field(default_factory=lambda: random.Random(1))

    def rate_mb_s(self, spec: CellSpec, at_s: float = 0.0) -> float:
        """Of all consumers together, without noise."""
        execute = spec.execute_ns_per_page * 1e-9
        # What shared buffers have is not asked of the device.
        device = self._device_mb_s(spec) / (1 - spec.found) if spec.cache != "cached" else math.inf
        serial = execute + self.hand_over_s
        checksum_s = self.checksum_s if spec.verify else 0.0
        cpu = execute + self.hand_over_s + self.copy_s + checksum_s
        pool = math.inf
        if spec.engine == "sync":
            serial += self.copy_s + checksum_s
        elif spec.engine == "io_uring":
            serial += self.copy_s / 2 + checksum_s + self.submit_s
        elif spec.engine == "worker":
            pool = spec.workers * PAGE / (self.copy_s + checksum_s) / MB
        cores = max(1, self.cores - spec.competing_cpus / 2)
        rates = (spec.consumers * PAGE / serial / MB, cores * PAGE / cpu / MB, pool, device)
        return min(rates) * (0.4 if at_s > self.falls_after_s and spec.cache != "cached" else 1.0)

    def _device_mb_s(self, spec: CellSpec) -> float:
        depth = spec.depth
        if spec.pins is not None:
            depth = max(1, min(depth, spec.pins * PAGE // spec.request_bytes))
        if spec.engine == "sync":
            # Alone it waits for each request; the kernel reads ahead of a buffered sequential one.
            depth = 1
            if spec.cache == "cold" and spec.pattern in ("sequential", "parallel"):
                depth = max(1, 2 * 1024 * (spec.read_ahead_kb or 128) // spec.request_bytes)
            elif spec.advise:
                depth = spec.depth
        elif spec.engine == "worker":
            depth = min(depth, spec.workers)
        if spec.pattern == "dependent":
            depth = 1
        in_flight = min(depth * spec.consumers, self.parallel)
        request = PAGE if spec.pattern in ("gaps", "random", "dependent") else spec.request_bytes
        alone = self.latency_s + request / (self.device_mb_s * MB)
        return min(self.device_mb_s, in_flight * request / alone / MB)

    def run(self, spec: CellSpec, at_s: float) -> CellRun:
        """One run of 0.4 s with its windows."""
        if spec.engine == "write":
            return self._write(at_s)
        rate = self.rate_mb_s(spec, at_s) * math.exp(self.draw.gauss(0, self.noise))
        elapsed = 0.4
        total = rate * MB * elapsed
        pages = total / PAGE
        parts = {
            "execute": pages * spec.execute_ns_per_page * 1e-9,
            "hand_over": pages * self.hand_over_s,
            "checksum": pages * self.checksum_s if spec.engine != "worker" else 0.0,
            "kernel": pages * self.copy_s if spec.engine != "worker" else 0.0,
            "runnable": self.crowded * elapsed * spec.consumers,
        }
        parts["device_wait"] = max(0.0, elapsed * spec.consumers - sum(parts.values()))
        request = PAGE if spec.pattern in ("gaps", "random", "dependent") else spec.request_bytes
        latency_us = max(self.latency_s, spec.depth * request / (rate * MB)) * 1e6
        return CellRun(
            started_s=at_s,
            elapsed_s=elapsed,
            bytes=int(total),
            operations=int(total / request),
            mb_s=rate,
            iops=rate * MB / request,
            latency_us={"p50": latency_us, "p99": 3 * latency_us},
            cpu_s={"consumers": elapsed * 0.5},
            cpu_s_per_gb=0.3,
            time_s=parts,
            windows=tuple(
                Window(
                    start_s=number * elapsed / 20,
                    mb_s=rate * math.exp(self.draw.gauss(0, 0.02)),
                    operations=10,
                )
                for number in range(20)
            ),
        )

    def _write(self, at_s: float) -> CellRun:
        per_s = 1 / (2 * self.latency_s) * math.exp(self.draw.gauss(0, self.noise))
        return CellRun(
            started_s=at_s,
            elapsed_s=0.4,
            bytes=int(per_s * 0.4) * PAGE,
            operations=int(per_s * 0.4),
            mb_s=per_s * PAGE / MB,
            iops=per_s,
        )


def facilities(**changes: object) -> Facilities:
    """Everything works, on two cores."""
    return Facilities(
        **(
            {
                "engines": ("null", "sync", "worker", "io_uring", "hybrid"),
                "cores": 2,
                "direct": True,
                "cold": True,
                "read_ahead_kb": 128,
                "can_set_read_ahead": True,
                "can_write": True,
                "execute_ns_per_page": 2000,
            }
            | changes
        )  # type: ignore[arg-type]
    )


def measure(
    machine: Machine, specs: Iterable[CellSpec], runs: int = 3, cell_s: float = 0.4
) -> tuple[MeasuredCell, ...]:
    """Every cell so many times, round after round."""
    listed = list(specs)
    made: dict[CellSpec, list[CellRun]] = {spec: [] for spec in listed}
    at_s = 0.0
    for _ in range(runs):
        for spec in listed:
            made[spec].append(machine.run(spec, at_s))
            at_s += cell_s
    return tuple(MeasuredCell(spec=spec, runs=tuple(each)) for spec, each in made.items())


def record(machine: Machine, have: Facilities | None = None, runs: int = 3, **changes: object) -> ProbeRecord:
    """The record of a probe of the simulated machine, with the curves of the method that leads."""
    from pgassay.probe.analysis.estimates import estimate
    from pgassay.probe.analysis.recommend import leader

    have = have or facilities(cores=machine.cores)
    first = [spec for tier in tiers(have, None) for spec in tier]
    leading = leader(have, estimate(measure(machine, first)))
    specs = [spec for tier in tiers(have, leading) for spec in tier]
    document = {
        "pgassay_version": "0",
        "measured_at": "2026-01-01T00:00:00+00:00",
        "path": "/data",
        "seconds": 60.0,
        "cores": have.cores,
        "device": {"name": "sda", "disk": "sda", "read_ahead_kb": have.read_ahead_kb, "file_system": "xfs"},
        "executor": ExecutorCost(
            ns_per_page=float(have.execute_ns_per_page), interval=(1500.0, 2500.0), source="PostgreSQL 18"
        ),
        "checksum": ChecksumSpeed(scalar_gb_s=4.0, simd_gb_s=12.0, simd="avx2", memory_read_gb_s=10.0),
        "cells": measure(machine, specs, runs),
    }
    return ProbeRecord.model_validate(document | changes)
