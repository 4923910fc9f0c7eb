"""What the catalogs of a server say of its tables: keys, indexes, statistics, states."""
