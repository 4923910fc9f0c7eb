"""One trial with perf: its samples from what perf script writes, folded by their stacks."""
