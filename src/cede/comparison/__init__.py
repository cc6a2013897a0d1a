"""Learners compared on worlds with paired seeds: `cede.compare` and `cede compare study.toml`.

compare    checks and runs a comparison
named      worlds and learners by name, with arguments
runs       plays the runs of a world on an engine, and stores finished runs
result     Comparison: the arrays, as columns, frame, table or figure
paired     intervals of means, a test of paired differences, Holm's correction
table      means and paired differences as text and LaTeX
picture    curves with bands
look       fonts, axes, colours and lines of pictures
study      study.toml in, a directory of results out
code_digest  decides whether a stored run can be used again

The package is not called `compare`: a module of that name would hide the public function.
"""
