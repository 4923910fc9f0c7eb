"""What a profile holds: the functions that differ between arms, and how they were sampled."""
