"""What a join costs: the unit-time cost model of kang2003, its weights, the choice of indexes."""
