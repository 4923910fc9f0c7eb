"""A server whose statements are tuned: what is read from it, and how a copy of it is made."""
