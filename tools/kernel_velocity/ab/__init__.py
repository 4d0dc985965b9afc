"""Two commits in turns: gate, bisect, confirm."""
