"""Benchmarks: the engine side by side with bare kernels and peers, in one run on one machine.

Law: only ratios are claims. Tuples per second depend on the machine and on who else uses it; both
sides of a ratio are measured in turn, on the same data, in the same run. `python -m benchmarks`
prints them.
"""
