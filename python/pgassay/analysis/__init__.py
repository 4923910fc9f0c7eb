"""Statistics and verdicts: pure functions of a stored experiment; nothing here needs a server."""
