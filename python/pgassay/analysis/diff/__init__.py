"""Two experiments compared. Pure."""
