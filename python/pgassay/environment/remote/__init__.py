"""Servers that run already: reached by libpq's rules, read and never administered."""
