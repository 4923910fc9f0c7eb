"""Workloads: one file per family, one line each in `registry.py`."""
