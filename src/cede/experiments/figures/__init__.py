"""One module for each figure: its settings, its table, its picture."""
