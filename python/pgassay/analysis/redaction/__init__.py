"""Literals left out of what is shown: of EXPLAIN's documents, and of a stored experiment. Pure."""
