"""Samplers: one file each, one line each in `registry.py`."""
