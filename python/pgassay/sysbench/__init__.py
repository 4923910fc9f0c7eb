"""sysbench's own command line on the native load generator: its options, tables, runs and report."""
