"""What the planner says of candidates before they are timed, alone and on top of others."""
