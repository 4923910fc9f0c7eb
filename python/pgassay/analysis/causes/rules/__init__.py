"""The rules, one file for each tight family of causes."""
