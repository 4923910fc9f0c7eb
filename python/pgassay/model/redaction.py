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
# SQL has no = there: PASSWORD 'x' of a role, password 'x' among the OPTIONS of a user mapping.
_SECRET_IN_SQL = re.compile(
    r"(\b(?:password|passwd|sslpassword|secret|token)\"?\s+)"
    r"(?:(?:E|U&)?'(?:[^'\\]|''|\\.)*'?|\$(\w*)\$.*?(?:\$\2\$|$))",
    re.IGNORECASE | re.DOTALL,
)


def without_secrets(text: str) -> str:
    """The text with *** in place of what stands where a URI, a connection string or SQL has its passwords."""
    text = _SECRET_WORD.sub(r"\1***", _SECRET_IN_URI.sub(r"\1:***@", text))
    return _SECRET_IN_SQL.sub(r"\1***", text)
