"""Finds the commit, or the release, that made a difference.

`commit_line` is the builds in order, `rounds` experiments of a few of them, `run_bisection` the search,
`revert_check` confirms the commit, `bisect_answer` is what it comes to.
"""
