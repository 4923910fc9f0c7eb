"""The demonstration: published cases of slow statements as a script and a list of statements."""
