"""What every factor of a grid does: main effects, interactions, and which matters most. Pure."""
