"""Control groups: the one a server starts in, the caps on a running process, and what was used."""
