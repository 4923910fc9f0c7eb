"""Measures a device and this machine's cores in the shape of PostgreSQL's reads, without PostgreSQL."""
