"""The analysis half: reads recorded results and the repository, and concludes. Always run from HEAD."""
