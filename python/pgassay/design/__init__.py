"""From factors to arms, and from arms to the schedule: randomised blocks, trial by trial; pure."""
