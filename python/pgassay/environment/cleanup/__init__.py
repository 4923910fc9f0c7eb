"""What must be removed after a crash: written down before it is made, removed only after a check."""
