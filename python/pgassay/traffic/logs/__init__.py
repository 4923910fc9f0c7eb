"""Captures made from what a server logged."""
