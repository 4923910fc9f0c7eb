"""A cluster of an older major version brought to a newer one by pg_upgrade.

`programs.py` finds builds that have what it takes; `cluster.py` runs it on a copy and reads what it says.
"""
