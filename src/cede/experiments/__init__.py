"""The paper's experiments and our own: the runs, their tables and figures, the paper's claims, and a report. Behind `cede figure`.

figure              Figure, Part, Options, Outcome: what an experiment is made of
run                 make the tables of figures and draw them
parallel, cache     run parts side by side; decide by the code whether a stored part can be used again
tables, statistics  CSV in and out, rows by column; means, intervals, ratios
drawing, style      curves and ratios; colours, captions, files
runs/, figures/     what is run; one module for each figure
catalogue           all figures by name
comparison/         `cede.compare` and `cede compare`: learners on worlds with paired seeds
claims/, report     what the paper claims, what we claim, and what we measured; one page with everything
fleet_command       `cede fleet`
"""
