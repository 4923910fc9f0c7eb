"""The noise of equal arms and where it comes from. Pure."""
