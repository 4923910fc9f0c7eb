"""Finders of the operations layer: statistics, dead rows, bloat, what autovacuum is told, freezing."""
