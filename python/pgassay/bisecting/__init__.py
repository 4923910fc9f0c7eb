"""Finds the commit, or the release, that made a difference: `line` what there is, `run` the search."""
