"""The machine: what it is, what it can do, what it remembers, and the servers and storage it provides."""
