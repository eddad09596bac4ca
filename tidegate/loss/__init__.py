"""How much a running join loses: a sample of tuples that is never shed, and what it says."""
