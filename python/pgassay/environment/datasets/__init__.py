"""The kinds of data that an experiment can be run on, and how each is made and frozen.

One file a kind, one line each in `registry.py`; the contract is in `base.py`.
"""

from pgassay.environment.datasets.base import (
    DATABASE,
    EMPTY_CLUSTER_BYTES,
    MEGABYTE,
    OBSERVING_EXTENSIONS,
    Made,
    OnStage,
    bulk_settings,
)
from pgassay.environment.datasets.final_steps import (
    LEFT_AS_MADE,
    freeze,
    install_extensions,
    prepare,
    relation_facts,
    settle,
)
from pgassay.environment.datasets.pgbench import load
from pgassay.environment.datasets.registry import (
    KINDS,
    check_dataset,
    content,
    describe,
    kind_named,
    make_dataset,
    needed_bytes,
    parse_dataset,
)

__all__ = [
    "DATABASE",
    "EMPTY_CLUSTER_BYTES",
    "KINDS",
    "LEFT_AS_MADE",
    "MEGABYTE",
    "OBSERVING_EXTENSIONS",
    "Made",
    "OnStage",
    "bulk_settings",
    "check_dataset",
    "content",
    "describe",
    "freeze",
    "install_extensions",
    "kind_named",
    "load",
    "make_dataset",
    "needed_bytes",
    "parse_dataset",
    "prepare",
    "relation_facts",
    "settle",
]
