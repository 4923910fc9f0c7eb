"""Other ways to say the same statement, offered only where catalog facts prove that the rows stay the
same."""
