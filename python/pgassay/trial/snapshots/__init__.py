"""What is read before and after the measured part: counters, statements, the state of vacuum, clocks."""
