"""Passwords in text that looks like a connection string, wherever it comes to be shown."""

import re

# libpq ends a password at the first @, whatever else stands in it but a / (conninfo_uri_parse_options of
# src/interfaces/libpq/fe-connect.c). What was typed may hold either unquoted: a port has digits before a /.
_SECRET_IN_URI = re.compile(r"(?<=://)([^/@:\[\s]*):(?:[^/\s]*|(?!\d{1,5}/)\S*)@")
_SECRET_WORD = re.compile(
    r"(\b(?:password|sslpassword|scram_client_key|scram_server_key|oauth_client_secret)\s*=\s*)"
    r"(?:'(?:[^'\\]|\\.)*'?|[^\s&,']+)",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """The text with *** in place of what stands where a URI or a connection string has its passwords."""
    return _SECRET_WORD.sub(r"\1***", _SECRET_IN_URI.sub(r"\1:***@", text))
