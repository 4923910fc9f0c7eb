"""Conditions of rewrites: what calls, tables and moved expressions have to be."""
