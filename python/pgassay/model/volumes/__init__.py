"""Volumes for sale: the catalogue as its file holds it, and what a volume gives as it is printed."""
