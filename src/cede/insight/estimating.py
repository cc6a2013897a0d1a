"""Estimates the expected cost of a policy from counts, or the difference to another policy, with an interval.

The result names the kind of its interval:

    posterior draws    tables and costs are drawn from the counts (draws.py), the policy is evaluated exactly under each draw, and
                       the interval holds the middle part of these costs. A fraction of each row, the larger the fewer its visits,
                       is unconstrained: at its best for the lower end, at its worst for the upper end. Two policies are compared
                       under the same draws, each with its own best and worst; so in a difference only rows with fewer than 30
                       visits have such a fraction, since the others would not cancel. Without it draws are spread a little too
                       narrowly (by a factor of 1 + 1/n after n visits, more where outcomes are rare), so the interval of a
                       difference is 1.1 times as wide. Quantiles are those of the next draw (Weibull): the truth is one more.
    confidence sets    the least and the most within sets that hold the truth with probability 1 - delta (`bounds`); 1 - 2 delta
                       if starts of episodes are counted: then there is a set around these, too

The start distribution is known or counted (starts.py). Counted starts are drawn in the same way. Their unknown fraction is at its
best for the lower end, and at its worst for the upper end.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede._base.calls import clear_call
from cede._base.reprs import plural
from cede.beliefs.belief import Belief
from cede.beliefs.posterior import checked_prior
from cede.insight import figures
from cede.insight.bounding import extremes
from cede.insight.draws import costs_of_draws, free_parts
from cede.insight.frequencies import CountsAlone, frequencies
from cede.insight.starts import Starts, starts_of
from cede.insight.visits import visits_by_place
from cede.learners.baseline import is_kept_to
from cede.learners.learner import MOST_SEED, Learner
from cede.learners.promises import trial_at
from cede.planning.control_shares import Mixture
from cede.planning.passes import Plan, gain_under, value_under
from cede.problem.policies import checked_switching_policy
from cede.problem.task import Task
from cede.steps.log import read_log

DRAWS, PRIOR, LEVEL = "posterior draws", 1.0, 0.9
SETS = "confidence sets"
PLENTY = 30  # visits from which on, in a difference, a row has no unconstrained fraction
WIDER = 1.1  # factor by which the interval of a difference is wider than that of the draws
FEW, MANY = 10, 0.1  # visits of a row that are few; fraction of steps in such rows from which on there is a warning
Policies = ArrayLike | Plan | Mixture | str | int


@dataclass(frozen=True)
class Estimate:
    """The expected cost of a policy, or the difference to another one, with an interval. `estimate` returns it."""

    mean: float  # of the draws; with sets, the cost under the observed frequencies
    low: float
    high: float
    kind: str  # of the interval: "posterior draws" or "confidence sets"
    level: float  # the fraction of the draws in the interval; with sets, the probability with which all of them hold
    policy: str  # its name
    against: str | None  # name of the policy whose cost is subtracted; None: none
    per: str  # unit of the cost: "episode", "step in the long run", or "run, discounted"
    starts: str  # source of the start distribution
    draws: int | None  # how many; None with sets
    prior: float | None  # unconstrained pseudo-counts of a row, for the ends of the interval; None with sets
    warnings: tuple[str, ...] = ()  # sentences

    def __repr__(self) -> str:
        saves = self.against is not None and self.mean < 0
        middle, low, high = (-self.mean, -self.high, -self.low) if saves else (self.mean, self.low, self.high)
        amount, least, most = figures.interval(middle, low, high)
        what = f"costs {amount} per {self.per}"
        if self.against is not None:
            against = check.printable(self.against)
            what = f"saves {amount} per {self.per} against {against}"
            if not saves:
                what = f"costs {amount} more per {self.per} than {against}"
            if self.mean == self.low == self.high == 0.0:
                what = f"costs as much per {self.per} as {against}"
        held = f"{self.level:.0%} of {self.draws} posterior draws" if self.kind == DRAWS else f"confidence sets of {self.level:.0%}"
        others = f"; {plural(len(self.warnings) - 1, 'more warning')}" if len(self.warnings) > 1 else ""
        more = f"; {self.warnings[0]}{others}" if self.warnings else ""
        return f"<Estimate: {check.printable(self.policy)} {what} ({least} to {most}, {held}){more}>"


@clear_call
def estimate(
    learner: Learner | Task,
    policy: Policies | None = None,
    *,
    against: Policies | None = None,
    log: Any = None,
    start: ArrayLike | None = None,
    interval: Literal["draws", "sets"] | None = None,
    level: float | None = None,
    draws: int = 200,
    prior: float | None = None,
    seed: int = 0,
) -> Estimate:
    """Estimate the cost of a policy per episode from counts, or the difference to another policy, with an interval.

    learner: any; or a Task, with `log`: the steps of any past controller, as for `Learner.learn_from`. policy: one of

    - "plan", the default: the plan of the learner; with a log, the best plan under its frequencies
    - "own plan": the plan that a learner with a baseline would use without it (`Learner.own_plan`); its "plan" may be the baseline
    - "baseline": that of the learner
    - the name or index of an agent, which is then always in control
    - a switching policy, (L, S, D), a Plan, or a Mixture

    against: another policy. The result is then the difference, policy minus against, under the same draws: negative if it saves.

    start: (S,) probabilities of the first state. By default they follow from the counts; `Estimate.starts` says how.

    interval: "sets" for the bounds of confidence sets, the default of learners whose sets hold the truth with probability 1 - delta
    (`ucrl2_mc`, not scaled, nothing forgotten; `Estimate.level` is 1 - 2 delta if starts are counted and not given); "draws" for
    posterior draws, the default of all others. level: the fraction of the draws in the interval, 0.9 by default. prior: number of
    unconstrained pseudo-counts of each row, for the ends of the interval; by default that of the learner, or 1. draws: number of
    draws. seed: of the draws.

    Without a horizon it is the discounted cost of all future steps, or the cost of a step in the long run. Prices of limits are not
    costs and do not count.
    """
    owner, first = "estimate", None
    if isinstance(learner, Task):
        learner, first = from_log(owner, learner, log)
    elif log is not None:
        check.fail(owner, "log", "given", "left out with a learner: let it learn from the log (learn_from), or give a Task")
    check.instance(owner, "learner", learner, Learner, " or a Task")
    settings = learner.settings
    valid = settings.has_sets and not settings.is_scaled and not settings.forgetting.any
    kind = check.choice(owner, "interval", interval, (None, "draws", "sets")) or ("sets" if valid else "draws")
    if kind == "sets" and not valid:
        check.fail(
            owner, "interval", "'sets'", f"'draws' with {settings.name}: it has no sets that hold the truth with a probability"
        )
    if kind == "sets" and level is not None:
        check.fail(owner, "level", check.show(level), "left out with sets, whose level follows from delta")
    held = LEVEL if level is None else check.probability(owner, "level", level)
    pseudo_counts = settings.prior or PRIOR if prior is None else checked_prior(owner, prior)
    number = check.integer(owner, "draws", draws, 2, 10**6)
    seed = check.integer(owner, "seed", seed, 0, MOST_SEED)
    parts = [named_policy(owner, "policy", learner, policy)]
    if against is not None:
        parts.append(named_policy(owner, "against", learner, against))
    where = first if first is not None and start is None else starts_of(owner, learner, start)
    warnings = warnings_of(learner, parts, where)
    if len(parts) == 2 and parts[0].is_same(parts[1]):
        same = f"{parts[0].name} and {parts[1].name} are the same policy"
        ends, warnings = (0.0, 0.0, 0.0), (check.printable(same), *warnings)
    elif kind == "sets":
        ends = by_sets(owner, learner, parts, where)
    else:
        ends = by_draws(learner, parts, where, held, pseudo_counts, number, seed)
    task = learner.task
    return Estimate(
        *ends,
        kind=SETS if kind == "sets" else DRAWS,
        level=level_of_sets(learner, where) if kind == "sets" else held,
        policy=parts[0].name,
        against=parts[1].name if len(parts) > 1 else None,
        per="episode" if task.horizon is not None else "step in the long run" if task.discount is None else "run, discounted",
        starts=where.source,
        draws=None if kind == "sets" else number,
        prior=None if kind == "sets" else pseudo_counts,
        warnings=warnings,
    )


@dataclass(frozen=True, eq=False)
class Named:
    """A policy, or several of which one is drawn at the start of each episode, and its name."""

    name: str
    policies: tuple[Policy, ...]  # (L, S, D) each, as kernels read them
    weights: Floats  # (n,)

    def is_same(self, other: "Named") -> bool:
        """Return whether this is the same policy as another one."""
        alike = len(self.policies) == len(other.policies) and np.array_equal(self.weights, other.weights)
        return alike and all(np.array_equal(*pair) for pair in zip(self.policies, other.policies, strict=True))


def named_policy(owner: str, place: str, learner: Learner, policy: Any) -> Named:
    """Return a policy as `estimate` takes it, after checks."""
    task, certain = learner.task, np.ones(1)

    def named(name: str, policy: Any) -> Named:
        return Named(name, (checked_switching_policy(owner, task, policy),), certain)

    if policy is None or (isinstance(policy, str) and policy not in task.agents):
        if policy in (None, "plan"):
            return named("plan", learner.plan.policy)
        if policy == "own plan":
            return named("own plan", learner.own_plan.policy)
        if policy != "baseline":
            expected = f"'plan', 'own plan', 'baseline', an array, a Plan, a Mixture, or {check.one_of(task.agents)}"
            check.fail(owner, place, check.show(policy), expected)
        if learner.settings.baseline is None:
            check.fail(owner, place, "'baseline'", f"one that there is: {learner.settings.name} has no baseline")
        return named("baseline", learner.settings.baseline.policy)
    if isinstance(policy, Mixture):
        return Named("mixture", tuple(checked_switching_policy(owner, task, p) for p in policy.policies), policy.weights)
    if isinstance(policy, Plan):
        return named("a plan", policy.policy)
    if check.ndim(policy) == 0:
        agent = task.agent_index(owner, place, policy)
        return named(f"{task.agents[agent]} alone", task.always(agent))
    return named("a policy", policy)


def from_log(owner: str, task: Task, log: Any) -> tuple[Learner, Starts | None]:
    """Return a learner that has learned from a log, and the starts of its episodes; None if no first steps are logged."""
    if log is None:
        check.fail(owner, "log", "missing", "given with a Task: the steps of some past controller")
    learner, episodes = Learner(task, CountsAlone()), read_log(owner, task, log)
    learner.learn_from(log, progress=False)
    firsts = [int(steps.state[0]) for steps in episodes if len(steps) and steps.t[0] == 0]
    if not firsts:
        return learner, None
    counts = np.bincount(firsts, minlength=task.n_states).astype(np.float64)
    return learner, Starts(counts / counts.sum(), f"as in {len(firsts):,} logged episodes", float(len(firsts)))


Ends = tuple[float, float, float]  # mean, low, high


def by_draws(learner: Learner, parts: list[Named], where: Starts, level: float, prior: float, draws: int, seed: int) -> Ends:
    """Return the estimate by posterior draws."""
    policies = [policy for part in parts for policy in part.policies]
    sign = np.concatenate([part.weights * (1.0 if i == 0 else -1.0) for i, part in enumerate(parts)])
    few = np.inf if len(parts) == 1 else PLENTY
    costs = costs_of_draws(learner, policies, prior, draws, seed, few)
    added, taken_off = (sign > 0)[:, None], (sign < 0)[:, None]  # a subtracted cost lowers the difference most at its highest
    best = added * costs.low + taken_off * costs.high
    worst = added * costs.high + taken_off * costs.low
    start, known, free = drawn_starts(learner.task, where, draws, seed, few)
    possible, ends = ~learner.task.is_terminal, []
    for cost, extreme in ((costs.mean, None), (best, np.min), (worst, np.max)):
        total = np.einsum("npx,p->nx", cost, sign)  # (draws, S)
        expected = np.einsum("nx,nx->n", total, start if extreme is None else known)
        ends.append(expected if extreme is None else (1.0 - free) * expected + free * extreme(total[:, possible], axis=1))
    mean = ends[0].mean()
    low, high = (
        np.quantile(end, part, method="weibull") for end, part in zip(ends[1:], (0.5 - level / 2, 0.5 + level / 2), strict=True)
    )
    if len(parts) == 2:
        low, high = mean - WIDER * (mean - low), mean + WIDER * (high - mean)
    return float(mean), float(low), float(high)


def drawn_starts(task: Task, where: Starts, draws: int, seed: int, few: float) -> tuple[Floats, Floats, Floats]:
    """Draw start distributions: for the mean and for the ends, (draws, S) each, and the unconstrained fraction at the ends,
    (draws,).
    """
    guess = np.broadcast_to(where.chances, (draws, task.n_states))
    if where.seen is None:
        return guess, guess, np.zeros(draws)
    rng, seen = np.random.default_rng([seed, 5]), float(where.seen)
    gammas: Floats = rng.standard_gamma(where.known * max(seen, 1.0), size=(draws, task.n_states))
    free = free_parts(np.full(draws, seen), PRIOR, rng) if seen < few else np.zeros(draws)
    total = gammas.sum(axis=1)
    known = gammas / np.maximum(total, 1e-300)[:, None]
    if where.anywhere == 0.0:
        return known, known, free
    rest = rng.standard_gamma(where.anywhere * max(seen, 1.0), size=draws)
    return guess, known, free + (1.0 - free) * rest / np.maximum(total + rest, 1e-300)


def by_sets(owner: str, learner: Learner, parts: list[Named], where: Starts) -> Ends:
    """Return the estimate by the bounds of confidence sets. A difference is least if one policy costs least and the other most."""
    task, costs, total = learner.task, learner.costs, np.zeros(3)
    sets, plain, middle = learner.beliefs, frequencies(learner), learner.costs.middle(owner, learner.task)
    for i, part in enumerate(parts):
        for policy, weight in zip(part.policies, part.weights, strict=True):
            low, high = (
                least_from_starts(where, sign * end[0, :, task.start_agent], ~task.is_terminal, learner.settings.delta) * sign
                for end, sign in zip(extremes(task, *sets, policy, costs), (1.0, -1.0), strict=True)
            )
            mean = expected_cost(middle, plain, policy, where)
            total += weight * np.array([mean, low, high] if i == 0 else [-mean, -high, -low])
    mean, low, high = total.tolist()
    return mean, low, high


def expected_cost(task: Task, beliefs: tuple[Belief, Belief], policy: Policy, where: Starts) -> float:
    """Return the cost of a policy under the centres of beliefs; for averages, that of a step in the long run."""
    if task.horizon is None and task.discount is None:
        return gain_under(task, *beliefs, policy)
    return float(where.chances @ value_under(task, *beliefs, policy)[0, :, task.start_agent])


def level_of_sets(learner: Learner, where: Starts) -> float:
    """Return the probability with which sets hold: delta for those of tables and costs, and delta for counted starts."""
    return max(0.0, 1.0 - learner.settings.delta * (1 if where.seen is None else 2))


def least_from_starts(where: Starts, values: Floats, possible: NDArray[np.bool_], delta: float) -> float:
    """Return the least mean of values, (S,), over all possible start distributions. possible: (S,) states that may be first.

    By Weissman et al. (2003) the frequencies of n starts in m states are, with probability 1 - delta, no more than
    sqrt(2 log(2^m / delta) / n) away in L1 distance. Half of that may move from the greatest value to the least.
    """
    least, most = float(values[possible].min()), float(values[possible].max())
    mean = float(where.known @ values + where.anywhere * least)
    if where.seen is None:
        return mean
    moved = 0.5 * np.sqrt(2.0 * (possible.sum() * np.log(2.0) - np.log(delta)) / max(where.seen, 1.0))
    return max(least, mean - float(moved) * (most - least))


def warnings_of(learner: Learner, parts: list[Named], where: Starts) -> tuple[str, ...]:
    """Return warnings about an estimate: rows with few visits, trial episodes, unknown starts."""
    task, settings, warnings = learner.task, learner.settings, []
    known = {task.tables[table] for table in settings.knowledge.agents}
    for part in parts:
        used = {int(task.acting[d]) for policy in part.policies for d in np.unique(policy)}
        for member in sorted(used):
            if not learner.steps_in_control[member] and task.members[member] not in known:
                name, unit = check.printable(task.members[member]), "steps" if task.horizon is None else "episodes"
                warnings.append(f"{name} was not in control once in {learner.episode - 1:,} {unit}: how it acts is not known")
        share = 0.0 if settings.flat else hardly_seen(learner, part, where)
        if share >= MANY:
            what = f"how the agent acts, or what follows, was seen fewer than {FEW} times"
            warnings.append(f"the mean rests on guesses: in {share:.0%} of the steps of {check.printable(part.name)}, {what}")
    if any(part.name == "plan" for part in parts) and settings.baseline is not None and is_kept_to(learner.state.record):
        name = check.printable(settings.baseline.name)
        warnings.append(
            f"the plan is the baseline ({name}), to which the learner keeps so far; 'own plan' is what it would like to do"
        )
    trial = trial_at(task, settings.trials, learner.episode)
    if trial is not None and any(part.name == "plan" for part in parts):
        warnings.append(f"the next episode is a trial episode of {check.printable(trial)}: the plan gives it all control")
    if where.anywhere > 0.0:
        warnings.append(f"where episodes start is {where.source}, which the interval allows for; give start= if it is known")
    return tuple(dict.fromkeys(warnings))


def hardly_seen(learner: Learner, part: Named, where: Starts) -> float:
    """Return the fraction of a policy's steps in which the agent's row or the environment's has fewer than FEW visits.

    It is the cost of an episode in which only such steps cost 1, over its cost if each step costs 1.
    """
    task, settings = learner.task, learner.settings
    acted, followed = visits_by_place(learner)
    rarely = np.zeros((task.n_states, task.n_agents))
    for d, table in enumerate(task.table.tolist()):
        rarely[:, d] = 0.0 if table in settings.knowledge.agents else acted[task.layout.slots(table)].sum(axis=0) < FEW
    outcomes = followed.reshape(task.n_periods, task.n_states, -1).sum(axis=0) < FEW
    if settings.knowledge.environment is not None:
        outcomes = np.zeros_like(outcomes)
    outcomes[task.is_terminal] = False
    beliefs, all_steps = frequencies(learner), task.only_costs(control_cost=np.ones(task.n_agents))
    rare = task.only_costs(control_cost=rarely, env_cost=outcomes.astype(np.float64))
    total = [
        sum(
            weight * expected_cost(costs, beliefs, policy, where)
            for policy, weight in zip(part.policies, part.weights, strict=True)
        )
        for costs in (rare, all_steps)
    ]
    return min(1.0, total[0] / total[1]) if total[1] > 0 else 0.0
