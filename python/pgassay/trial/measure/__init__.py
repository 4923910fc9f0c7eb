"""The measured part of a trial: statements, loads and maintenance commands."""
