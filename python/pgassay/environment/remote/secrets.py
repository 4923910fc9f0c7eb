"""Keeping passwords out of whatever is written or shown."""

import shlex
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from psycopg import conninfo

SECRET_KEYWORDS = frozenset(
    {"password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret"}
)


def redacted(connection_string: str, given: Mapping[str, str]) -> str:
    """The connection string as it may be stored: as typed, or written anew without its secrets.

    `given` are its keywords and values, as libpq reads them.
    """
    if not any(name in SECRET_KEYWORDS for name in given):
        return connection_string
    return conninfo.make_conninfo(**{name: given[name] for name in given if name not in SECRET_KEYWORDS})


def scrub(text: str, secrets: Iterable[str]) -> str:
    """The text with *** for every secret, as it is or quoted for a URI, a connection string or a shell."""
    forms = {form for secret in secrets if secret for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return text


def _forms(secret: str) -> set[str]:
    escaped = secret.replace("\\", "\\\\").replace("'", "\\'")
    return {secret, escaped, quote(secret), quote(secret, safe=""), shlex.quote(secret)}
