"""What a probe found: which cells to measure, what they tell, what follows for PostgreSQL. Pure."""
