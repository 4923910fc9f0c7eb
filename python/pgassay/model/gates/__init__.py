"""What gates find, each alone and over time."""
