"""Finders of the infrastructure layer: settings by what was seen, and by the machine they are for."""
