"""Learners: what they were told, what they keep, how they count, believe and plan."""
