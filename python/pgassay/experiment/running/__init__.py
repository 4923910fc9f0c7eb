"""Runs a planned experiment: prepare, loop, stop, resume, remember."""
