"""Defects planted in small real databases, each with a decoy that differs in one fact and needs nothing."""
