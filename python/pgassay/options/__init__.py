"""Every option that commands share, or that a file has as a key: declared once, by subject."""
