"""The laboratory: data to try the join on, and what is learned from it.

Law: every generator takes a seed, and the same seed gives the same rows.
"""
