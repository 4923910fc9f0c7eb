"""Cache states: how each is made, and how it is verified before anything is timed."""
