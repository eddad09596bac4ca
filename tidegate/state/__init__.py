"""What a join holds between two pushes."""
