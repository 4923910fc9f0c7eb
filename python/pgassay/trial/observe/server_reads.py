"""What a server says that it has read, again and again: by this series SQL alone judges storage."""

import math

import psycopg

from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import first_line

# Often enough for intervals of two seconds: a busy session hands its counters in once a second.
INTERVAL_S = 1.0
_IO_MAJOR_MIN = 16
_REQUESTS_MAJOR_MIN = 18
# Until 17 writes of WAL are counted in a view of their own.
_OF_WAL = "(SELECT wal_write + wal_sync FROM pg_stat_wal)::float8"
_OF_DATABASES = f"""
SELECT coalesce(sum(blks_read), 0)::float8 * current_setting('block_size')::float8, NULL::float8,
       coalesce(sum(blk_read_time), 0)::float8,
       {_OF_WAL} + (SELECT buffers_checkpoint + buffers_clean + buffers_backend + buffers_backend_fsync
                    FROM pg_stat_bgwriter)::float8
FROM pg_stat_database"""
# Each of 16 and 17 counts blocks of op_bytes, whatever the size of a request.
_OF_BLOCKS = f"""
SELECT coalesce(sum(reads * op_bytes), 0)::float8, NULL::float8, coalesce(sum(read_time), 0)::float8,
       {_OF_WAL} + coalesce(sum(coalesce(writes, 0) + coalesce(fsyncs, 0)), 0)::float8
FROM pg_stat_io"""
_OF_REQUESTS = """
SELECT coalesce(sum(read_bytes) FILTER (WHERE object <> 'wal'), 0)::float8,
       coalesce(sum(reads) FILTER (WHERE object <> 'wal'), 0)::float8,
       coalesce(sum(read_time) FILTER (WHERE object <> 'wal'), 0)::float8,
       coalesce(sum(coalesce(writes, 0) + coalesce(fsyncs, 0)), 0)::float8
FROM pg_stat_io"""
# Counters stand still during a statement: the longest of those that wait for a read now.
_STATEMENT = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0)::float8
FROM pg_stat_get_activity(NULL)
WHERE state = 'active' AND wait_event_type = 'IO' AND backend_type = 'client backend'"""


class ServerReadsSampler:
    """Bytes and requests that all of a server's processes have read, and the time they waited for them.

    `reads` is NaN before 18, which counts blocks alone; `read_time_ms` stays at 0 without track_io_timing.
    `writes`: with flushes, and with those of the WAL.
    """

    name = "server_reads"
    version = 2
    columns: tuple[str, ...] = ("read_bytes", "reads", "read_time_ms", "writes", "statement_s")

    def __init__(self, session: ControlSession, major: int) -> None:
        """The session is used by the sampler alone, in autocommit mode; whoever opened it closes it."""
        counters = _OF_REQUESTS if major >= _REQUESTS_MAJOR_MIN else _OF_BLOCKS
        if major < _IO_MAJOR_MIN:
            counters = _OF_DATABASES
        self._session = session
        self._query = f"SELECT * FROM ({counters}) AS counters, ({_STATEMENT}) AS statements"

    def available(self) -> bool:
        """Every version has such counters."""
        return True

    def sample(self) -> tuple[float, ...]:
        """One row; raises OSError when the server does not answer."""
        try:
            row = self._session.execute(self._query.encode()).fetchone()
        except psycopg.Error as error:
            raise OSError(first_line(error)) from error
        assert row is not None, "sums are one row"
        return tuple(math.nan if value is None else float(value) for value in row)
