"""Who is alive, and who comes next."""
