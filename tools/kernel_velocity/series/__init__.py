"""Every recorded series as columns, adjusted, cached: the ONE way to ask for the past."""
