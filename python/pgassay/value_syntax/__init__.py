"""One grammar of typed values, quantities, paths and lists of options, for the command line and for files."""
