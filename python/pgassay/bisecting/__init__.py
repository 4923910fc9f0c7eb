"""Finds the commit, or the release, that made a difference.

`line` is the builds in order, `rounds` experiments of a few of them, `run` the search, `reverting` confirms
the commit, `answer` is what it comes to.
"""
