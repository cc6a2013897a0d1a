"""Comparisons of learners that forget: counts as weighted sums over all that was ever seen, and the widths that follow."""

import numpy as np

from audit.learned import DELTA, learn, play
from audit.sets import layers, with_sets


def compare_forgetting(session):
    """Let a learner whose counts fade see some episodes, and compare counts and sets of both layers."""
    problem, model, rng = session.problem, session.model, session.rng
    kind, length = (("HalfLife", 30), ("Window", 2), ("Window", 7))[int(rng.integers(3))]
    runs, rule, scale = play(session, int(rng.choice([1, 5, 20]))), f"cede.{kind}({length})", float(rng.choice([1.0, 0.1]))
    of_environment = bool(rng.random() < 0.5)
    how = f"forget={rule}, forget_environment={rule if of_environment else None}, scale={scale}"
    call = f"cede.ucrl2_mc(task, {how}, {'replan=50, ' if problem.endless else ''}**told)"
    if not learn(session, "learner", call, runs):
        return
    steps = [step for run in runs for step in run]
    number = np.arange(len(steps)) if problem.endless else np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    age = (len(steps) if problem.endless else len(runs)) - number  # episodes, or steps, that have ended since it was counted
    left = 2.0 ** (-age / length) if kind == "HalfLife" else (age <= length) * 1.0
    weights = np.stack([left, left if of_environment else np.ones(len(steps))], axis=1)
    t = max(1, len(steps) if problem.endless else len(runs) * problem.horizon)
    delta = DELTA * 2 / 3 if problem.learns else DELTA
    for i, seen in enumerate(layers(problem, model, steps, weights)):
        layer = with_sets(seen, "printed", t, delta, scale, 1)
        if not session.run("forgetting", f"belief = learner.beliefs[{i}]"):
            return
        out = layer.known | (layer.visits == 0)  # rows that are known, and rows of which nothing is left: their widths tell
        mask = f"np.array({out.tolist()})[..., None]"
        counts = f"np.where({mask}, 0.0, belief.centre.matrix().toarray()[belief.row].reshape({layer.counts.shape}))"
        session.same("forgetting: counts", counts, np.where(out[..., None], 0.0, layer.counts), scale=1.0)
        widths = f"np.where(np.array({layer.known.tolist()}), 0.0, belief.width[belief.row].reshape({layer.visits.shape}))"
        session.same("forgetting: widths", widths, np.where(layer.known, 0.0, layer.width), scale=1.0)
