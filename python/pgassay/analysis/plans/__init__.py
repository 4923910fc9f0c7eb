"""Plans with their work: any EXPLAIN output read, nodes' own times, findings, two plans compared.

`find.py` finds the plans in a text; `text_tree.py` gives EXPLAIN's text the form of its JSON, so that all
that follows knows one form: `nodes.py` the nodes, `own_time.py` the arithmetic, `read.py` the whole.
"""
