"""Estimators: what a tuple is worth, learned online in bounded memory."""
