"""Learners: what they are told, what they keep, and how they get from counts to beliefs to plans."""
