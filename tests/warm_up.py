"""Compile what most tests use, once, before they run side by side; `.ci/run` calls it while lint and site are made."""

from dataclasses import replace

import cede
from golden.runs import RUNS

river = cede.worlds.riverswim()
unknown = river.task.with_unknown_costs()
for learner in (
    cede.ucrl2_mc(river.task),
    cede.ucrl2_mc(unknown, belief="bernstein"),
    cede.posterior_sampling(river.task),
    cede.ucrl2(river.task),
    cede.ucrl2_mc(river.task, planning="greedy"),
):
    cede.simulate(river, learner, 2, progress=False)
    learner.observe_episode(cede.rollout(river, learner.plan))
    learner.end_episode()
endless = replace(river, horizon=None)
cede.simulate(endless, cede.ucrl2_mc(endless.task), steps=20, progress=False)
for golden_run in RUNS.values():  # every learner and every belief
    golden_run()
