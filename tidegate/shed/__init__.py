"""Which tuples to keep under a budget."""
