"""Belief in, plan out: tables of probabilities, sets around them, and the policies of least cost."""
