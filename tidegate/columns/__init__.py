"""Columns in and out: join columns as numbers, payload as it came."""
