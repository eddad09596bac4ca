"""The compiled drivers, and what they need to know of a spec and of columns."""
