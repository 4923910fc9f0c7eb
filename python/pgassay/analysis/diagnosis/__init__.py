"""From an interval of a running server to its limit, its faults and what to look at next. Pure."""
