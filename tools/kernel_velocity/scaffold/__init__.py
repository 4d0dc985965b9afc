"""Files of a new kernel."""
