"""Index structures: insert, probe, expire; each counts its comparisons."""
