"""Runs learners in simulations: one team or many, in this process or on many machines, with checkpoints."""
