"""Looking at a running server for an interval: samples and counters, by as little work as tells enough."""
