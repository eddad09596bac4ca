"""The CPU budget: how much of the opposite window an arrival is compared with, and which part."""
