"""What tune goes on from beside its own results: a stored experiment, a stored diagnosis."""
