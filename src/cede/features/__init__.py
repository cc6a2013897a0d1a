"""Continuous situations: encoders turn measurements of a system into the states of a task.

encode     `cede.encode`: all encoders, and functions that make them from data
kinds      bins, scores, clusters, grids, counters, flags, names, and products of them
frames     an encoder for each column of a data frame
encoder    Encoder: the base class of encoders
"""
