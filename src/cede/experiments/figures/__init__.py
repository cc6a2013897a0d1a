"""One module for each figure: its settings at the top, the runs it asks for, its table and its picture, together as FIGURE.

`ratio_figure` makes the three figures that show a ratio of regrets; `cede.experiments.catalogue` lists all figures.
"""
