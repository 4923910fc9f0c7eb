"""What owns a terminal: progress while something runs, and live screens."""
