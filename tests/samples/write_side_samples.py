"""Evidence of what writes wait for, with what makes each harmless, as `cause_samples.evidence` takes it."""

from typing import Any

from pgassay.model.trial import Counters

WRITERS = [
    {"backend_type": name, "object": "relation", "context": "normal", "writes": writes}
    for name, writes in (("client backend", 9e4), ("checkpointer", 1e4))
]
WRITE_SIDE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "backend-writes": (
        {
            "writing": {"data write": {"DataFileWrite": 40.0}},
            "total_s": 80.0,
            "counters": Counters({"pg_stat_io": WRITERS}),
        },
        {"writing": {"data write": {"DataFileWrite": 1.0}}},
    ),
    "extension": (
        {"writing": {"extension": {"DataFileExtend": 40.0}}, "total_s": 80.0},
        {"writing": {"extension": {"DataFileExtend": 1.0}}},
    ),
    "slru": (
        {"writing": {"slru": {"SubtransSLRU": 39.0, "SlruRead": 1.0}}, "total_s": 80.0},
        {"writing": {"slru": {"SubtransSLRU": 1.0}}},
    ),
    "wal-insert": (
        {"writing": {"wal insert": {"WALInsert": 40.0}}, "total_s": 80.0},
        {"writing": {"wal insert": {"WALInsert": 1.0}}},
    ),
    "checkpoint-wait": (
        {"writing": {"checkpoint": {"CheckpointDone": 40.0}}, "total_s": 80.0},
        {"writing": {"checkpoint": {"CheckpointDone": 1.0}}},
    ),
}
