"""Commands about a server's own traffic."""
