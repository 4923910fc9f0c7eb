"""The report of a probe. Pure."""
