"""What finders judge, read once: scans with their conditions, shares of rows, what a change would take."""
