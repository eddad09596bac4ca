"""Policies that are raced while a join runs, so that `auto` can take the best of them."""
