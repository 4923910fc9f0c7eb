"""A private PostgreSQL server: its folder, settings, processes, limits, and why it did not start."""
