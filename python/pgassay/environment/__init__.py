"""The machine: what it is, what it can do, and the servers and storage it provides."""
