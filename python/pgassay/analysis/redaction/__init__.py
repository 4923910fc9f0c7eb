"""Literals left out of what is shown of a stored experiment, and of an answer of `tune`. Pure."""
