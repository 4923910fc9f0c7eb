"""Names of what is made: within the bytes that PostgreSQL keeps of a name, and no two alike."""

import hashlib

# NAMEDATALEN of src/include/pg_config_manual.h, without the byte at its end.
NAME_BYTES_MAX = 63
_DIGITS = 6


def digest(text: str) -> str:
    """Some digits that tell this text from others."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def shortened(text: str, size: int) -> str:
    """The beginning of a text that takes at most so many bytes; no character is cut in two."""
    return text.encode()[: max(size, 0)].decode(errors="ignore")


def bounded(text: str, tail: str = "") -> str:
    """The text and its tail where PostgreSQL keeps all of it, else cut, with digits of the whole text.

    PostgreSQL cuts a longer name without a word, and the tails that tell two names apart go first.
    """
    whole = text + tail
    if len(whole.encode()) <= NAME_BYTES_MAX:
        return whole
    end = f"_{digest(whole)}{tail}"
    return shortened(text, NAME_BYTES_MAX - len(end.encode())) + end
