"""The experiments of the paper and our own, over the public face of cede: runs, tables, figures, claims, reports.

Not part of the wheel. Call `python -m studies` at the root of the repository.

figure              Figure, Part, Options, Outcome: what an experiment is made of
run                 make the tables of figures and draw them
parallel            run parts side by side, and store each outcome
tables, statistics  CSV in and out, rows by column; means, intervals, ratios
drawing, style      curves and ratios; colours, captions, files
runs/, figures/     what is run; one module for each figure
catalogue           all figures by name
claims/, report     what the paper claims, what we claim, and what we measured; one page with everything
paper               the paper's figures in its order on one page
fleet_cli, fleet_run  `python -m studies fleet`
rivals_table        PPO and DQN in the worlds of the league
train_machine       trains the machine of lane driving
results/            tables and pictures of full runs
tests/              the tests of all this
"""
