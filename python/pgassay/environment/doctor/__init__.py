"""What this machine can do and what disturbs it: one file for each group of checks."""
