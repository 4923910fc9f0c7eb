"""Runs the cells of a probe on this machine."""
