"""Finders of the design layer: indexes of every kind, those that nobody needs, partitioning."""
