"""Pages and texts about a server's own traffic: captures, replays, upgrades."""
