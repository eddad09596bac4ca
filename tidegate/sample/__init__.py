"""Random samples of a join: the chance of a result to be included, and what a sample says."""
