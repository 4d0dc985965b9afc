"""The measuring engine: problems, timers, stopping rules, statistics, telemetry, and the asv benchmark type."""
