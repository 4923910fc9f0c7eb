"""Reads ahead of a bitmap scan, the I/O method, and checkpoints that come too often.

Evidence: a bitmap heap scan or a sequential scan most of whose time is reads that took as long as a device's
(track_io_timing), with effective_io_concurrency at 0 or 1, or io_method = sync from 18 on; checkpoints that
max_wal_size asked for, with full-page images in the WAL of the workload's writes.
Threshold: 30 µs for a page, which no page cache takes, and a third of the node's time; the machine's own
probe must be known. Checkpoints: three that were asked for, and half of all; a third of the WAL full-page
images. A trial executes what writes once, after a checkpoint, whatever max_wal_size is: that fix is told
and not tried.
Prediction: with reads under way together the wait of a bitmap scan falls to a quarter, a sequential scan's,
which the system reads ahead for already, by a third. Half of what writing the images took.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence
from pgassay.tune.finders.evidence.work import size_in_words
from pgassay.words import percent_rounded

PAGE_MS_MIN, READ_SHARE_MIN = 0.03, 0.33
CONCURRENCY = 64
REQUESTED_MIN, REQUESTED_SHARE_MIN, IMAGES_SHARE_MIN = 3, 0.5, 0.33
_MB = 1 << 20
_FIRST_WITH_METHODS = 180_000
_WAL_MB_MAX = 16384
UNTRIED = (
    "the cost of checkpoints is spread over everything written after them, so no single execution shows it: "
    "it is reported, not tested; check pg_stat_checkpointer some days after setting it"
)


def _reading(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    if evidence.symptom.machine.random_read_us is None:
        return
    for scan in evidence.scans:
        read, of_all_ms = scan.node.own_buffers_read or 0, scan.node.io_read_ms or 0.0
        # Of each process, as the scan's time is: EXPLAIN sums the waits of all of them.
        waited = of_all_ms / max(scan.node.processes, 1.0)
        if not read or waited < READ_SHARE_MIN * scan.ms:
            continue
        bitmap = scan.node.type == "Bitmap Heap Scan"
        page_ms = of_all_ms / read
        if bitmap and page_ms < PAGE_MS_MIN:
            continue
        settings = {}
        if bitmap and evidence.setting("effective_io_concurrency", 1) <= 1:
            settings["effective_io_concurrency"] = str(CONCURRENCY)
        if (
            evidence.facts.version >= _FIRST_WITH_METHODS
            and evidence.facts.settings.get("io_method") == "sync"
            and (bitmap or (scan.is_sequential and page_ms >= PAGE_MS_MIN / 3))
        ):
            settings["io_method"] = "worker"
        if not settings:
            continue
        words = ", ".join(f"{name} = {value}" for name, value in sorted(settings.items()))
        yield FinderOffer(
            Candidate(
                id=f"io:{words.replace(' ', '')}",
                layer="infrastructure",
                kind="io",
                title=words,
                reason=f"{scan.node.type} on {scan.read_table.name} waited {waited:.0f} of "
                f"{scan.ms:.0f} ms for "
                f"{read:,} pages, one after the other",
                statements=(),
                settings=settings,
                restart="io_method" in settings,
                bytes=0,
            ),
            (ExpectedSaving(scan.statement.name, scan.plan_number, waited * (0.75 if bitmap else 0.33)),),
        )


def _writing(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    requested, timed = evidence.facts.checkpoints_requested, evidence.facts.checkpoints_timed
    if requested is None or requested < REQUESTED_MIN:
        return
    if requested < REQUESTED_SHARE_MIN * (requested + (timed or 0)):
        return
    have_mb = evidence.setting("max_wal_size", 1024)
    wanted_mb = int(min(have_mb * 8, _WAL_MB_MAX))
    if wanted_mb < 2 * have_mb:
        return
    for statement, number, plan in evidence.plans:
        top = plan.nodes[0]
        images = (top.wal_fpi or 0) * evidence.facts.block_bytes
        written = top.wal_bytes or 0
        if not written or images < IMAGES_SHARE_MIN * written:
            continue
        writing = sum(node.own_ms or 0.0 for node in plan.nodes if node.type == "ModifyTable")
        yield FinderOffer(
            Candidate(
                id=f"max_wal_size:{wanted_mb}MB",
                layer="infrastructure",
                kind="wal",
                title=f"max_wal_size = {wanted_mb}MB",
                reason=f"{requested:,} checkpoints were requested, {timed or 0:,} were timed; "
                f"{percent_rounded(min(images / written, 1.0))} of {size_in_words(written)} of WAL were "
                "full-page images, which follow each checkpoint; a crash takes longer to recover from",
                statements=(),
                settings={"max_wal_size": f"{wanted_mb}MB"},
                bytes=(wanted_mb - int(have_mb)) * _MB,
                why_not=UNTRIED,
            ),
            (ExpectedSaving(statement.name, number, writing * min(images / written, 1.0) * 0.5),),
        )


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    yield from _reading(evidence)
    yield from _writing(evidence)


READING_AND_WRITING = Finder("reading-and-writing", "infrastructure", ("io", "wal"), _find)
