"""How often the intervals that cede prints hold the truth: many small random problems, each learned anew, for some seconds.

Every row of the result is one kind of interval, with the level that it promises. Of one run each row gets one trial, so trials are
independent. `ok` is false only where chance cannot explain how seldom the interval held.
"""

import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

import cede
from cede.learners.learner import Learner
from cede.rows.stored import Counts

LEVEL = 0.9  # of posterior draws
BY_CHANCE = 0.001  # a row is not ok if it would hold so seldom with less than this probability


@dataclass(frozen=True)
class Coverage:
    """How often one kind of interval held the truth."""

    name: str
    promised: float
    held: int
    tried: int

    @property
    def ok(self):
        """Return whether the promised level is not refuted: a one-sided exact binomial test."""
        return self.tried == 0 or binomtest(self.held, self.tried, self.promised, alternative="less").pvalue >= BY_CHANCE


def coverages(seed, seconds, least=1):
    """Return the coverages of all intervals, from as many rounds of runs as fit into some seconds, or the least number of them."""
    found, until, number = defaultdict(lambda: [0, 0]), time.monotonic() + seconds, 0
    while number < least or time.monotonic() < until:
        for part, trial in enumerate((estimates, estimates, sets, fading)):
            for (name, promised), held in trial(np.random.default_rng([seed, number, part])):
                found[name, promised][0] += held
                found[name, promised][1] += 1
        number += 1
    return [Coverage(name, promised, held, tried) for (name, promised), (held, tried) in sorted(found.items())]


# ------------------------------------------------------------------------------------- random problems


def world(rng, *, random_costs=False):
    """Make a small random problem: dense or sparse rows, with or without a terminal state, one agent perhaps varying with time."""
    n, a, horizon, dense = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(2, 7)), rng.choice([0.3, 1.0])
    cost = rng.random((n, a, 3)) if random_costs else rng.random((n, a))
    terminal = [n - 1] if n > 2 and not random_costs and rng.random() < 0.3 else []
    start = rng.dirichlet(np.ones(n))
    start[terminal], cost[terminal] = 0.0, 0.2
    environment = cede.Environment(rng.dirichlet(np.full(n, dense), (n, a)), cost, start=start / start.sum(), terminal=terminal)
    varies = "time" if rng.random() < 0.2 else None
    shape = (horizon, n) if varies else (n,)
    agents = [
        cede.Agent("first", rng.dirichlet(np.full(a, dense), shape), control_cost=rng.random() / 3, varies_with=varies),
        cede.Agent("second", rng.dirichlet(np.full(a, dense), n), control_cost=rng.random() / 3),
    ]
    return cede.TwoLayerMDP(environment, cede.Team(agents, switch_cost=rng.random() / 5), horizon)


def policies(mdp, rng):
    """Return policies of past controllers: some at random, each agent alone."""
    task = mdp.task
    drawn = [rng.integers(0, task.n_agents, task.policy_shape) for _ in range(6)]
    return [*drawn, task.always(0), task.always(1)]


def holds(found, truth):
    """Return whether an interval holds the truth, up to rounding."""
    near = 1e-9 * (1.0 + abs(truth))
    return bool(found.low - near <= truth <= found.high + near)


# ------------------------------------------------------------------------------------- estimates by posterior draws


def estimates(rng):
    """Yield whether each kind of estimate held, of a learner that ran, and of a log."""
    mdp, episodes = world(rng), int(rng.choice([40, 150, 600]))
    task, start, seed = mdp.task, mdp.environment.start, int(rng.integers(2**30))
    learner = (cede.recommended, cede.posterior_sampling, cede.greedy)[rng.integers(3)](task, seed=seed)
    cede.simulate(mdp, learner, episodes, seed=seed, progress=False)
    past = policies(mdp, rng)
    log = [cede.rollout(mdp, past[k % len(past)], rng) for k in range(min(episodes, 150))]
    told = {"draws": 60, "seed": seed}
    counts = learner.counts
    before = Counts.of(task, counts.agents, counts.environment, counts.episodes)
    for who, source, more, note in (
        (learner, "own runs", {"start": start}, "start given"),
        (learner, "own runs", {}, "start counted"),
        (Learner(task, learner.settings, seed=seed, counts=before), "own runs", {}, "start not counted"),
        (task, "log", {"log": log, "start": start}, "start given"),
        (task, "log", {"log": log}, "start from the log"),
    ):
        plan = learner.plan.policy
        for name, policy, against in (
            ("the plan", plan, None),
            ("an agent alone", "first", None),
            ("a rule", past[0], None),
            ("a difference of agents", "first", "second"),
            ("a difference of rules", past[0], past[1]),
            ("a difference to the plan", plan, "second"),
        ):
            found = cede.estimate(who, policy, against=against, **more, **told)
            truth = expected(mdp, policy) - (0.0 if against is None else expected(mdp, against))
            yield (f"estimate, {source}, {note}: {name}", LEVEL), holds(found, truth)


def expected(mdp, policy):
    """Return the exact cost of a policy, or of an agent by name."""
    return cede.expected_cost(mdp, mdp.task.always(policy) if isinstance(policy, str) else policy)


# ------------------------------------------------------------------------------------- confidence sets


def is_inside(belief, truth):
    """Return whether every row of a table, (places, outcomes), lies in its set, by the definition of the set."""
    centre = belief.centre.matrix().toarray()
    total = centre.sum(axis=1, keepdims=True)
    centre = np.where(total > 0, centre / np.maximum(total, 1e-300), 1.0 / centre.shape[1])
    for row, p in zip(belief.row.ravel(), truth.reshape(-1, truth.shape[-1]), strict=True):
        q, width = centre[row], belief.width[row] + 1e-12
        if belief.kl:
            with np.errstate(divide="ignore", invalid="ignore"):
                far = np.where(q > 0, q * np.log(q / p), 0.0).sum() > width
        elif belief.linear:
            far = (np.abs(p - q) > np.sqrt(2 * q * (1 - q) * width) + belief.linear * width).any()
        else:
            far = np.abs(p - q).sum() > width
        if far:
            return False
    return True


def sets(rng):
    """Yield whether the sets of agents and environment, the intervals of learned costs, and what follows from them held."""
    mdp, delta = world(rng, random_costs=True), float(rng.choice([0.1, 0.5]))
    seed, belief = int(rng.integers(2**30)), str(rng.choice(["printed", "weissman", "kl", "bernstein"]))
    learner = cede.ucrl2_mc(mdp.task.with_unknown_costs((0.0, 1.0)), delta=delta, belief=belief, seed=seed)
    cede.simulate(mdp, learner, int(rng.choice([5, 40, 300])), seed=seed, progress=False)
    yield (f"sets and costs at once, {belief}", 1 - delta), all_inside(mdp, learner)
    costs, truth = learner.costs, mdp.environment.cost
    yield (f"cost intervals, {belief}", 1 - delta / 3), bool(((costs.low <= truth) & (truth <= costs.high)).all())
    value, limits = cede.evaluate(mdp, learner.plan.policy), cede.insight.bounds(learner)
    yield ("bounds of the plan, everywhere", 1 - delta), bool(((limits.low <= value + 1e-9) & (value <= limits.high + 1e-9)).all())
    for name, policy, against in (("the plan", learner.plan.policy, None), ("a difference", "first", "second")):
        truth = expected(mdp, policy) - (0.0 if against is None else expected(mdp, against))
        for note, start in (("given", mdp.environment.start), ("counted", None)):
            found = cede.estimate(learner, policy, against=against, start=start, interval="sets")
            yield (f"estimate by sets, start {note}: {name}", found.level), holds(found, truth)


def all_inside(mdp, learner):
    """Return whether all true tables and costs are in the sets of a learner."""
    agents, environment = learner.beliefs
    policies = np.concatenate([agent.policy.reshape(-1, *agent.policy.shape[-2:]) for agent in mdp.team.agents])
    costs, cost = learner.costs, mdp.environment.cost
    held = is_inside(agents, policies) and is_inside(environment, mdp.environment.transition.toarray())
    return bool(held and ((costs.low <= cost + 1e-12) & (cost <= costs.high + 1e-12)).all())


def fading(rng):
    """Yield whether sets from counts that fade held, at the end of a run in which nothing changed."""
    mdp, delta = world(rng), float(rng.choice([0.1, 0.5, 0.9]))
    rule = cede.HalfLife(float(rng.choice([2.0, 20.0]))) if rng.random() < 0.5 else cede.Window(int(rng.choice([3, 30])))
    seed = int(rng.integers(2**30))
    learner = cede.ucrl2_mc(mdp.task, delta=delta, forget=rule, forget_environment=rule, seed=seed)
    cede.simulate(mdp, learner, int(rng.choice([40, 300])), seed=seed, progress=False)
    yield (f"sets of faded counts, {type(rule).__name__}", 1 - delta), all_inside(mdp, learner)
