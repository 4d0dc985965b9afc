"""Charts of the pages."""
