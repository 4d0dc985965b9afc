"""Change points."""
