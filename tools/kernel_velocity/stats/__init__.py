"""Mathematics only: two samples, adjusting, speed-ups, change points."""
