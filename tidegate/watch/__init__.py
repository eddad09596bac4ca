"""A page to watch a join: numbers over time, served on the loopback address."""
