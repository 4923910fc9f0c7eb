"""A comparison as a mail shows it: plain text of 72 columns."""
