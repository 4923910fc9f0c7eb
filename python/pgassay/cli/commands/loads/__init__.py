"""Commands that load a server, or measure the client alone: nothing is compared and nothing is stored."""
