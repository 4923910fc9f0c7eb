"""Finders of what may help: from executed plans, facts of the schema and the statements' own text."""
