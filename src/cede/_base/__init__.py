"""Shared basics: checks of input, array types, optional dependencies, progress bars, files."""
