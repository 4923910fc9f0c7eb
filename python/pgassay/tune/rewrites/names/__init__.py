"""What the names in a statement mean: tables, columns and output columns, and the types of these."""
