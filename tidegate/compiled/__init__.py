"""Compiled functions: how they are made, where their code is kept, and their arrays."""
