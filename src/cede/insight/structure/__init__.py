"""Declared structure and data: test whether a structure is true, and suggest one from features of the states."""
