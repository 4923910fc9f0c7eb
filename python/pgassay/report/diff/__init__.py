"""The report of two experiments beside each other. Pure."""
