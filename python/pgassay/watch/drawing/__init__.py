"""The screen and the lines of `pgassay watch`."""
