"""Statements that do not end in the time that they are given: how long they are waited for, what is told."""
