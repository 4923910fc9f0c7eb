"""Factors: what is varied. One file per kind; a level is a patch of an ArmSpec."""
