"""Where a data directory lives: one file per kind of storage."""
