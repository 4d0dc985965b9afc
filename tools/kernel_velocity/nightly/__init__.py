"""Judges what is new: screen, attribute, confirm, conclude."""
