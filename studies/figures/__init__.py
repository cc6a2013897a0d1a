"""One module for each figure: its settings at the top, the runs it asks for, its table and its picture, together as FIGURE.

In every module `parts(options)` returns the runs that the figure needs, `table(outcomes)` makes the rows of its table, and
`draw(rows, path)` draws the table and returns the files; `Figure` has their types. `ratio_figure` makes the three figures that show
a ratio of regrets. `studies.catalogue` lists all figures.

Titles and stories stand over quick runs too: they say what to look at, and name no number of a run. Captions come from the table.
"""
