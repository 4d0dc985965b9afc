"""Problems and solutions from files."""
