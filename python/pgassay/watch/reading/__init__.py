"""What `pgassay watch` reads, once an interval: a running server, its machine, a running experiment."""
