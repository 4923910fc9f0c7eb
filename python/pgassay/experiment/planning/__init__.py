"""From what was typed to the whole plan of an experiment, fixed before its first trial."""
