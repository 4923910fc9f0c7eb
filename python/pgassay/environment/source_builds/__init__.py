"""PostgreSQL built from source trees: a revision of a local clone, a folder, a tarball."""
