"""Time accounts: from counters and samples of threads to where the time went. Pure."""
