"""The report of a diagnosis. Pure."""
