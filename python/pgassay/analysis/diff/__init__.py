"""Two experiments beside each other. Pure."""
