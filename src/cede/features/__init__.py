"""Continuous situations: encoders turn measurements of a system into the states of a task.

encode     the encoders (`cede.encode`): bins, scores, clusters, grids and products of them
encoder    Encoder: the base class of encoders
"""
