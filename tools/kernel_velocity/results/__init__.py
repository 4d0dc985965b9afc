"""The recorded past: asv's files, telemetry beside them, git; reads, ingests, merges."""
