"""What an upgrade to another major version changes, and what it does to each statement."""
