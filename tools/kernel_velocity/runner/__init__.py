"""Builds commits and has asv measure them (make track)."""
