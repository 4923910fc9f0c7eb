"""One experiment on several machines: `agent.py` answers on each, `spreading/` coordinates, `cluster/` connects them."""
