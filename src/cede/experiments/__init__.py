"""Experiments: each module holds its settings, a `run` that makes a table, and a `draw` that only reads it."""
