"""The JSON document for scripts: the contract of `pgassay compare --json`."""

import json
import math

from pydantic import BaseModel

from pgassay.model.result import CompareResult


def render(result: CompareResult) -> str:
    """One JSON document with a newline at its end; schema in schemas/compare.schema.json.

    Keys stand in the order of the model. A number that is not finite is null. Only ASCII is
    written, so that the document survives any locale of the pipe it goes through.
    """
    return render_document(result)


def render_document(result: BaseModel) -> str:
    """Any of the documents for scripts, written alike."""
    document = _finite(result.model_dump(mode="python", by_alias=True))
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def render_line(result: BaseModel) -> str:
    """As `render_document` on a line of its own, for a stream of documents."""
    document = _finite(result.model_dump(mode="python", by_alias=True))
    return json.dumps(document, ensure_ascii=True, allow_nan=False) + "\n"


def _finite(value: object) -> object:
    """The value with every NaN and infinity replaced by None, and tuples by lists."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
