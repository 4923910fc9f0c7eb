"""A shop drawn by a seed: its data, and the statements that its users type."""
