"""What all other packages use: checks of input, array types, optional dependencies, progress bars, files."""
