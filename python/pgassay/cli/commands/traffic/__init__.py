"""Commands about a server's own traffic and what becomes of it."""
