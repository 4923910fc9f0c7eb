"""The functions of a comparison: their section, the flame graph of its page, the table of a mail."""
