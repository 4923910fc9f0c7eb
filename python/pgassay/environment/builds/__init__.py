"""PostgreSQL binaries of known origin: find them, provide them, say what they can do."""
