"""One grammar of typed values, quantities and lists of options, for the command line and for files."""
