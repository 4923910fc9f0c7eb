"""Plans with their work: any EXPLAIN output read, nodes' own times, findings, two plans compared. Pure.

`explain_output/` finds the plans in a text and gives EXPLAIN's text the form of its JSON, so that all that
follows knows one form: `nodes.py` the nodes, `own_time.py` the arithmetic, `explain_plan.py` the whole.
"""
