"""One experiment on several machines: an effect for these machines, and one for machines like these. Pure."""
