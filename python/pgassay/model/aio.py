"""Which plan nodes can read asynchronously, by the first major version in which they do.

The users of read streams for relation data in src/backend (access/heap/heapam.c,
executor/nodeBitmapHeapscan.c): sequential, bitmap heap and TID range scans. Index and index-only
scans read page by page whatever the method, in 18 and in 19.
"""

AIO_NODES = {"Seq Scan": 18, "Bitmap Heap Scan": 18, "Tid Range Scan": 18}

COMMANDS_SINCE = 18


def can_read_asynchronously(node_type: str, major: int) -> bool:
    """Whether a plan node of this type uses asynchronous reads on this major version."""
    return major >= AIO_NODES.get(node_type, 10**6)


def command_reads_asynchronously(major: int) -> bool:
    """Whether maintenance commands, which have no plan to look into, use asynchronous reads on this major.

    All of them scan the heap by a read stream from 18 on (src/backend/access/heap/vacuumlazy.c and heapam.c,
    src/backend/commands/analyze.c); a CLUSTER that reads by its index is the exception.
    """
    return major >= COMMANDS_SINCE
