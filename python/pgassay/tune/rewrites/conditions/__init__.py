"""Conditions of rewrites: what keys, orders and calls prove, what can fail, and what a rewrite may move."""
