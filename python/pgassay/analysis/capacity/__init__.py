"""The highest rate that a server holds within a bound of its latencies. Pure."""
