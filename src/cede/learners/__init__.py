"""Learners: settings, state, and the way from counts to beliefs to plans."""
