"""What everything rests on: checks of input, optional dependencies, progress bars, files."""
