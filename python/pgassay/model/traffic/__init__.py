"""What is printed of a server's own traffic."""
