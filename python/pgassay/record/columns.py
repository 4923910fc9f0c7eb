"""Columnar observation files: one Parquet file per sampler, each with its own version."""

import io
from collections.abc import Mapping, Sequence

# None where there was nothing to measure.
Column = Sequence[int] | Sequence[float] | Sequence[str] | Sequence[float | None]


def to_parquet(columns: Mapping[str, Column], *, sampler: str, version: int) -> bytes:
    """A Parquet file of equally long columns; the sampler's name and version are its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: list(values) for name, values in columns.items()})
    metadata = {"pgassay.sampler": sampler, "pgassay.version": str(version)}
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), buffer, compression="zstd")
    return buffer.getvalue()
