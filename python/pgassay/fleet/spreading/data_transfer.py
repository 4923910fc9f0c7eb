"""Data that one machine of a fleet has and others lack: copied to them where that is faster than making them.

Before the first trial each machine says which snapshots it needs and has
(`pgassay.fleet.experiment_data`). What one has travels through the coordinator to those that lack it, part
by part; each part has its checksum, and a snapshot is there whole or not at all. How fast it goes is
measured as it goes: where what is left would take longer than making the data does, the copy is given up and
the machine makes its own, as it does whenever anything comes between.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from pgassay.errors import MeasurementError
from pgassay.fleet.agent_requests import Document, MachineLostError
from pgassay.fleet.machine_runs import RunRequest
from pgassay.fleet.spreading.machine_differences import plan_differences, readings_of
from pgassay.fleet.spreading.member import Member
from pgassay.model.machines.spread import SpreadCopy, SpreadExperiment
from pgassay.terminal.fleet import FleetView
from pgassay.words import byte_rate, duration_rounded, join, size

# Making what takes no longer than this is over before anything could have travelled.
WORTH_S = 2.0
# So long a copy goes on before its rate is judged.
TRIED_S = 1.0
_ECHO_BYTES = 4 << 20
_SENDINGS_MAX = 3
_THREADS_MAX = 32
_SURVEY_S = 300.0
# A machine that makes data for others answers when it has made them.
_MAKE_S = 24 * 3600.0
_ANSWER_S = 30.0
# Well below the time after which the machine's process ends when nobody asks.
_ASKED_EVERY_S = 20.0


@dataclass(frozen=True)
class DataOffer:
    """What a machine says of a snapshot. make_s: how long making it takes there, None where not known.

    reads_alike: equal on machines that can use each other's files.
    """

    machine: str
    is_here: bool
    bytes: int
    make_s: float | None
    reads_alike: str = ""
    called: str = ""


@dataclass(frozen=True)
class Choice:
    """Who gives a snapshot, after making it where nobody has it; to whom, and how long each would make it."""

    source: DataOffer
    receivers: Mapping[str, float]


def choose(
    offers: Sequence[DataOffer], speeds: Mapping[str, float], rate: Callable[[str], float] = lambda _: 0.0
) -> Choice | None:
    """Whether some of these machines should get a snapshot from another; None where each makes its own.

    speeds: seconds of a fixed task on each machine. rate: bytes a second from a machine to the others, asked
    only where nobody has the snapshot: then one that is to be copied is made first, so it must be made
    sooner there by more than the way takes.
    """
    here = [offer for offer in offers if offer.is_here]
    lacking = [offer for offer in offers if not offer.is_here]
    if here:
        source = min(here, key=lambda offer: math.inf if offer.make_s is None else offer.make_s)
        expected = {offer.machine: _make_s(offer, source, speeds) for offer in lacking}
        wanted = {name: made for name, made in expected.items() if made is not None and made > WORTH_S}
        return Choice(source, wanted) if wanted else None
    known = [offer for offer in lacking if offer.make_s is not None]
    if len(known) < 2:
        return None
    source = min(known, key=lambda offer: offer.make_s or 0.0)
    others = {offer.machine: _make_s(offer, source, speeds) or 0.0 for offer in lacking if offer != source}
    first_s = (source.make_s or 0.0) + WORTH_S
    slower = {name: made for name, made in others.items() if made > first_s}
    if not slower:
        return None
    way_s = source.bytes / max(rate(source.machine), 1.0)
    slower = {name: made for name, made in slower.items() if made > first_s + way_s}
    return Choice(source, slower) if slower else None


def _make_s(offer: DataOffer, source: DataOffer, speeds: Mapping[str, float]) -> float | None:
    """As it is known there; else as long as at the source, by how much slower the machine is."""
    if offer.make_s is not None or source.make_s is None:
        return offer.make_s
    own, its = speeds.get(offer.machine), speeds.get(source.machine)
    return source.make_s * (own / its if own and its else 1.0)


class DataSharing:
    """Shares the data of one experiment among its machines, before it is started."""

    def __init__(
        self, plan: SpreadExperiment, members: Mapping[str, Member], view: FleetView, patience_s: float
    ) -> None:
        """patience_s: how long a machine that gives no answer is asked again."""
        self._plan, self._members, self._view, self._patience_s = plan, members, view, patience_s
        # The least of the readings: what the processor does while nobody else is at it.
        self._speeds = {
            machine.name: min(read["processor_s"])
            for machine in plan.machines
            if (read := readings_of(machine.facts or {})).get("processor_s")
        }
        self._surveyed: list[str] = []

    def run(self, request: Callable[[Member], RunRequest]) -> tuple[SpreadCopy, ...]:
        """What was copied; nothing where each machine has its data, or makes them sooner itself."""
        if len(self._members) < 2:
            return ()
        with ThreadPoolExecutor(min(_THREADS_MAX, len(self._members) + 2)) as pool:
            try:
                answers = dict(
                    zip(
                        self._members,
                        pool.map(lambda each: self._surveyed_by(each, request), self._members.values()),
                        strict=True,
                    )
                )
                said = {name: answer for name, answer in answers.items() if answer is not None}
                for line in plan_differences(said):
                    self._view.message(f"what the machines would run differs in {line}")
                # Loads that count as independent of each other are made on each machine for itself.
                if len(said) < 2 or not all(answer.get("is_one_load") for answer in said.values()):
                    return ()
                return tuple(copy for copy in self._all(said, pool) if copy is not None)
            finally:
                list(pool.map(self._end, self._surveyed))

    def _all(self, said: Mapping[str, Document], pool: ThreadPoolExecutor) -> Iterator[SpreadCopy | None]:
        offers: dict[str, list[DataOffer]] = {}
        for name, answer in said.items():
            snapshots = answer.get("snapshots")
            for each in snapshots if isinstance(snapshots, list) else []:
                if isinstance(each, dict):
                    offers.setdefault(str(each.get("key")), []).append(_offer(name, each))
        for key, found in offers.items():
            for alike in dict.fromkeys(offer.reads_alike for offer in found):
                group = [offer for offer in found if offer.reads_alike == alike]
                choice = choose(group, self._speeds, partial(self._rate, group, pool))
                if choice is not None:
                    yield self._share(key, choice, pool)

    def _surveyed_by(self, member: Member, request: Callable[[Member], RunRequest]) -> Document | None:
        """What a machine says of its data; None where it can't: it makes its own, and says then why not."""
        self._surveyed.append(member.name)
        try:
            return member.survey(request(member), self._plan.files, timeout_s=_SURVEY_S)
        except (MeasurementError, OSError):
            return None

    def _end(self, name: str) -> None:
        # One that is away ends by itself.
        with _as_it_comes():
            self._members[name].about_data("end")

    def _rate(self, group: Sequence[DataOffer], pool: ThreadPoolExecutor, source: str) -> float:
        """Bytes a second from a machine to the others at once; 0 where one gives no answer."""
        others = [offer.machine for offer in group if offer.machine != source]
        begun = time.monotonic()
        try:
            data = self._members[source].about_data("echo", {"bytes": _ECHO_BYTES}).get("data")
            list(pool.map(lambda name: self._members[name].about_data("echo", {"data": data}), others))
        except MeasurementError:
            return 0.0
        return _ECHO_BYTES / (time.monotonic() - begun)

    def _share(self, key: str, choice: Choice, pool: ThreadPoolExecutor) -> SpreadCopy | None:
        source, names = choice.source, list(choice.receivers)
        try:
            if not source.is_here:
                made = f"makes the data ({source.called})"
                self._view.message(f"{source.machine} {made}, which {join(names)} would make more slowly")
                source = self._made(key, source, pool)
            took = "" if source.make_s is None else f", made in {duration_rounded(source.make_s)}"
            self._view.message(
                f"{source.machine} has the data ({source.called}, {size(source.bytes)}{took}): they are "
                f"copied to {join(names)}, unless making them turns out to be faster"
            )
            copy = _Copy(self, key, source.machine, choice.receivers, pool)
            arrived, seconds = copy.run()
        except MeasurementError as error:
            self._view.message(
                f"{source.machine} can't give the data ({error}): {join(names)} make their own"
            )
            return None
        if not arrived:
            return None
        self._view.message(
            f"the data are on {join(arrived)} too: {size(copy.bytes)} in {duration_rounded(seconds)} "
            f"({byte_rate(copy.bytes / seconds)}), with their checksums"
        )
        return SpreadCopy(
            key=key,
            called=source.called,
            bytes=copy.bytes,
            source=source.machine,
            machines=tuple(arrived),
            seconds=round(seconds, 3),
        )

    def _made(self, key: str, source: DataOffer, pool: ThreadPoolExecutor) -> DataOffer:
        """The snapshot, made by its source, while the others are kept waiting."""
        member = self._members[source.machine]
        making: Future[Document] = pool.submit(member.about_data, "make", {"key": key}, timeout_s=_MAKE_S)
        while not wait([making], timeout=_ASKED_EVERY_S).done:
            for name in self._surveyed:
                if name != source.machine:
                    with _as_it_comes():
                        self._members[name].about_data("echo", {"bytes": 0})
        return _offer(source.machine, making.result())

    def ask(self, name: str, ask: str, *, is_patient: bool = True, **document: str | int) -> Document:
        """The answer of a machine, which is asked again while it gives none.

        Raises MachineLostError where it stays away, MeasurementError with its sentence.
        """
        until: float | None = None
        while True:
            try:
                return self._members[name].about_data(ask, document, timeout_s=_ANSWER_S)
            except MachineLostError:
                until = until or time.monotonic() + self._patience_s
                if not is_patient or time.monotonic() > until:
                    raise
                time.sleep(min(1.0, self._patience_s / 10))

    def say(self, sentence: str) -> None:
        """To who looks on."""
        self._view.message(sentence)


class _Copy:
    """One snapshot on its way from a machine to others, which all get the same part at a time."""

    def __init__(
        self,
        sharing: DataSharing,
        key: str,
        source: str,
        receivers: Mapping[str, float],
        pool: ThreadPoolExecutor,
    ) -> None:
        self._sharing, self._key, self._source, self._pool = sharing, key, source, pool
        self._going = dict(receivers)
        self.bytes = 0

    def run(self) -> tuple[list[str], float]:
        """Who has it now, and how many seconds that took; raises MeasurementError where the source fails."""
        packed = self._sharing.ask(self._source, "pack", key=self._key)
        self.bytes = int(str(packed.get("bytes")))
        parts, manifest = int(str(packed.get("parts"))), str(packed.get("manifest"))
        try:
            begun = time.monotonic()
            self._on_each(lambda name: self._sharing.ask(name, "take", key=self._key, manifest=manifest))
            coming = self._pool.submit(self._part, 0)
            for number in range(parts):
                part = coming.result()
                if number + 1 < parts:
                    coming = self._pool.submit(self._part, number + 1)
                self._on_each(partial(self._put, number, part))
                self._give_up_slow(time.monotonic() - begun, (number + 1) / parts)
                if not self._going:
                    return [], 0.0
        except BaseException:
            for name in list(self._going):
                self._drop(name)
            raise
        return list(self._going), max(time.monotonic() - begun, 1e-3)

    def _part(self, number: int) -> Document:
        return self._sharing.ask(self._source, "part", key=self._key, number=number)

    def _put(self, number: int, part: Document, name: str) -> None:
        for _ in range(_SENDINGS_MAX):
            data, sha256 = str(part.get("data")), str(part.get("sha256"))
            answer = self._sharing.ask(name, "put", key=self._key, number=number, data=data, sha256=sha256)
            if not answer.get("damaged"):
                return
            part = self._part(number)
        raise MeasurementError(f"a part arrived damaged {_SENDINGS_MAX} times")

    def _on_each(self, ask: Callable[[str], object]) -> None:
        """Ask all receivers at once; one that fails makes its own."""
        asked = {name: self._pool.submit(ask, name) for name in self._going}
        for name, answer in asked.items():
            try:
                answer.result()
            except MeasurementError as error:
                self._drop(name)
                self._sharing.say(f"{name} can't take the data ({error}): it makes its own")

    def _give_up_slow(self, elapsed_s: float, done: float) -> None:
        if elapsed_s < TRIED_S or done == 1:
            return
        left_s = elapsed_s * (1 - done) / done
        for name, make_s in list(self._going.items()):
            if left_s > make_s:
                self._drop(name)
                rate = byte_rate(self.bytes * done / elapsed_s)
                self._sharing.say(
                    f"{name}: copying the rest of the data at {rate} would take {duration_rounded(left_s)}, "
                    f"making them {duration_rounded(make_s)}: it makes its own"
                )

    def _drop(self, name: str) -> None:
        self._going.pop(name, None)
        with _as_it_comes():
            self._sharing.ask(name, "drop", is_patient=False, key=self._key)


def _offer(machine: str, said: Mapping[str, object]) -> DataOffer:
    make_s = said.get("make_s")
    return DataOffer(
        machine,
        bool(said.get("is_here")),
        int(str(said.get("bytes") or 0)),
        float(make_s) if isinstance(make_s, int | float) else None,
        str(said.get("reads_alike")),
        str(said.get("called")),
    )


@contextmanager
def _as_it_comes() -> Iterator[None]:
    """What a machine that fails or is away does not answer is of no consequence."""
    try:
        yield
    except MeasurementError:
        return
