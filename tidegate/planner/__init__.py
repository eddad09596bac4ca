"""Which indexes, which budgets, before anything runs: kang2003 and srivastava2004, section 5."""
