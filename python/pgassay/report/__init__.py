"""Reports: a result and a stored experiment in, text out; one file per format, all pure."""
