"""A gate from its file to its last trial: two systems, the same workloads, one run."""
