"""Ceilings of a machine and how far a timing is from them."""
