"""The commands: one file each; the only place that parses arguments, prints and exits."""
