"""From factors to arms, and from arms to randomised blocks; pure."""
