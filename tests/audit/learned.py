"""Comparisons of what learners know and plan: counts, sets, costs, plans, bounds, mean plans."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit.averages import end_components
from audit.known import random_policy
from audit.optimism import gain_and_pace, robust, robust_gain
from audit.reference import best, model_of, scale_of, start_value
from audit.sets import layers, with_sets

DELTA = 0.1  # by default


def play(session, episodes):
    """Return steps (t, s, prev, mode, a, s_next, cost, enter) of random choices, by episode; the reference's own dice."""
    model, problem, rng = session.model, session.problem, session.rng
    runs = []
    for _ in range(min(episodes, problem.most_runs)):
        steps, prev = [], model.start_mode
        s = int(rng.choice(len(model.start), p=model.start))
        for t in range(model.horizon or int(rng.integers(1, 12))):
            now = 0 if model.horizon is None else t
            mode = int(rng.choice(np.flatnonzero(model.possible[s, prev])))
            action = int(rng.choice(problem.n_actions, p=model.acts[now, prev, mode, s]))
            then = int(rng.choice(problem.n_states, p=model.tables[now, s, action]))
            steps.append((t, s, prev, mode, action, then, float(rng.choice(problem.cost[s, action])), float(model.enter[then])))
            s, prev = then, mode
            if model.end[s]:
                break
        runs.append(steps)
    return runs


def learn(session, name, call, runs):
    """Make a learner and let it learn from a log; return whether it did."""
    problem = session.problem
    if not session.run("learner", f"{name} = {call}"):
        return False
    steps = [(k, *step) for k, run in enumerate(runs) for step in run]
    if not steps:
        return True
    columns = list(zip(*steps, strict=True))
    names = ["episode", "t", "state", "prev_agent", "agent", "action", "next_state"]
    log = dict(zip(names, columns, strict=False))
    if problem.unknown is not None:
        mean, unknown = problem.cost.mean(axis=2), problem.unknown
        log["cost"] = [
            c if unknown[s, a] else float(mean[s, a]) for c, s, a in zip(columns[7], columns[2], columns[5], strict=True)
        ]
        log |= {} if problem.enter is None else {"enter_cost": columns[8]}
    if problem.control_unknown is not None or problem.switch_unknown is not None:
        model, places = session.model, list(zip(*columns[2:5], strict=True))
        log["control_cost"] = [float(model.control[s, mode]) for s, _, mode in places]
        log["switch_cost"] = [float(model.switch[place]) for place in places]
    log = ", ".join(f"{one!r}: {list(column)}".replace(", ", ",") for one, column in log.items())
    planned = session.run("learner", f"{name}.learn_from({{{log}}})")
    return planned and (not problem.endless or session.run("learner", f"{name}.replan()"))


def believed(problem, model, steps, scale, delta=DELTA):
    """Return models with the least, the mean and the greatest costs that are believed after steps, and all these costs."""
    if not problem.learns:
        return (model,) * 3, (model.cost, model.control)
    given = {"cost": problem.cost.mean(axis=2), "enter": model.enter, "control": problem.control, "switch": problem.switch}
    labels = {name: np.arange(costs.size).reshape(costs.shape) for name, costs in given.items()}
    if problem.cost_labels is not None:
        labels["cost"] = np.asarray(problem.cost_labels)
    parts = {"cost": "unknown", "enter": "enter_unknown", "control": "control_unknown", "switch": "switch_unknown"}
    unknown = {name: getattr(problem, part) for name, part in parts.items()}
    unknown = {name: np.zeros(given[name].shape, bool) if missing is None else missing for name, missing in unknown.items()}
    by_state = {"control": given["control"].ndim == 2, "switch": given["switch"].ndim == 3}
    seen = {name: {} for name in given}  # costs by label
    for _, s, prev, mode, a, then, cost, enter in steps:
        who, pair = (model.acting[mode],), (model.aim[prev], model.aim[mode])
        for name, place, charge in (
            ("cost", (s, a), cost),
            ("enter", (then,), enter),
            ("control", (s, *who) if by_state["control"] else who, model.control[s, mode]),
            ("switch", (s, *pair) if by_state["switch"] else pair, model.switch[s, prev, mode]),
        ):
            if unknown[name][place]:
                seen[name].setdefault(labels[name][place], []).append(charge)
    rows = sum(len(np.unique(labels[name][unknown[name]])) for name in given)
    ranges = {
        "cost": problem.cost_range,
        "enter": problem.cost_range,
        "control": problem.control_range,
        "switch": problem.switch_range,
    }
    ends = [{name: costs.copy() for name, costs in given.items()} for _ in range(3)]
    for name in given:
        for place in map(tuple, np.argwhere(unknown[name])):
            interval = cost_interval(seen[name].get(labels[name][place], []), ranges[name], rows, scale, delta)
            for end, cost in zip(ends, interval, strict=True):
                end[name][place] = cost
    models = []
    for end in ends:
        team = model_of(problem.but(control=end["control"], switch=end["switch"]))
        cost = np.where(model.end[:, None], model.cost, end["cost"])
        models.append(model.but(cost=cost, enter=end["enter"], control=team.control, switch=team.switch))
    return tuple(models), [costs for end in ends for costs in end.values()]


def cost_interval(seen, ends, rows, scale, delta):
    """Return low, mean and high of one learned cost (empirical Bernstein, with a third of delta)."""
    n, (least, most) = len(seen), ends
    if not n:
        return least, (least + most) / 2, most
    x = np.log(3 * rows * n * (n + 1) / (delta / 3))
    part = np.floor((np.array(seen) - least) / (most - least) * 2**50 + 0.5) / 2**50  # decision 13: kept in these units; halves are
    squares = np.floor(part**2 * 2**30 + 0.5) / 2**30  # rounded up, where an even number of units would give another variance
    mean = np.mean(seen)
    spread = max(0.0, np.mean(squares) - np.mean(part) ** 2)
    half = scale * (most - least) * (np.sqrt(2 * spread * x / n) + 3 * x / n)
    return max(least, mean - half), mean, min(most, mean + half)


def sets_of(session, belief, runs, scale, delta):
    """Return the reference's sets of agents and environment after a log."""
    problem, model = session.problem, session.model
    steps = [step for run in runs for step in run]
    agents, environment = layers(problem, model, steps)
    t = max(1, len(runs) * model.horizon if model.horizon is not None else len(steps))
    delta = delta * 2 / 3 if problem.learns else delta  # a third is for the costs
    modes = len(model.names)
    times = model.horizon or 1
    users = [len({int(d) for _, _, d in np.argwhere(model.slot == slot)}) for slot in range(model.n_slots)]  # modes that act by it
    return (
        with_sets(agents, belief["agents"], t, delta, scale, times * np.array(users)[:, None] * agents.places),
        with_sets(environment, belief["environment"], t, delta, scale, max(1, times - 1) * modes * environment.places),
    )


@dataclass(frozen=True)
class Known:
    """What the reference says that a learner knows."""

    agents: Any  # the sets, as layers
    environment: Any
    least: Any  # the model with the least, the mean and the greatest costs that are believed
    mean: Any
    most: Any
    size: float  # what rounding is relative to
    belief: dict[str, str]
    runs: list[Any]

    @property
    def bounded(self):
        """Return whether the truth is believed to be in the sets: else there are no bounds."""
        return "kl-value" not in self.belief.values()

    @property
    def sure(self):
        """Return the frequencies seen, as sets without width."""
        return self.agents.exact(), self.environment.exact()


def compare_learner(session):
    """Let a UCRL2-MC learner see some episodes, and compare all that it then knows and plans."""
    rng, problem, model = session.rng, session.problem, session.model
    names = ("printed", "weissman", "kl", "bernstein", *(() if problem.endless else ("kl-value",)))
    belief = {"agents": str(rng.choice(names)), "environment": str(rng.choice(names))}
    scale, delta = float(rng.choice([1.0, 0.1, 0.01])), float(rng.choice([DELTA, 0.5, 0.001]))
    runs = play(session, int(rng.choice([0, 1, 3, 10, 40])))
    if not learn(session, "learner", f"cede.ucrl2_mc(task, belief={belief}, scale={scale}, delta={delta}, seed=3, **told)", runs):
        return None
    agents, environment = sets_of(session, belief, runs, scale, delta)
    agents = compare_sets(session, "agents", 0, agents)
    environment = compare_sets(session, "environment", 1, environment)
    models, all_costs = believed(problem, model, [step for run in runs for step in run], scale, delta)
    size = max(*(np.abs(one.cost).max() for one in models), 1e-300)
    finite = [np.abs(costs[np.isfinite(costs)]).max(initial=1e-300) for one in models for costs in (one.control, one.switch)]
    for name, wanted in zip(("low", "mean", "high"), models, strict=True):
        session.same("costs learned", f"learner.costs.{name}", wanted.cost, scale=size)
        if problem.control_unknown is not None or problem.switch_unknown is not None:
            for kind, costs in (("control", wanted.control), ("switch", np.where(np.isinf(wanted.switch), -1.0, wanted.switch))):
                got = f"learner.costs.{kind}_{name}"
                got = f"np.broadcast_to(np.where(np.isinf({got}), -1.0, {got}), {costs.shape})"
                live = np.where(model.end.reshape(-1, *[1] * (costs.ndim - 1)), 0.0, 1.0)
                session.same(f"{kind} costs learned", f"{got} * np.array({live.tolist()})", costs * live, scale=max(finite))
    known = Known(agents, environment, *models, scale_of(models[0], *all_costs) or 1.0, belief, runs)
    compare_plans(session, known)
    return known


def compare_plans(session, known):
    """Compare the optimistic plan, bounds of a policy, and the plan by frequencies."""
    problem, size = session.problem, known.size
    sets = known.agents, known.environment
    given = "task, *learner.beliefs" + (", costs=learner.costs" if problem.learns else "")
    told = {"scale": size}
    policy = random_policy(session)
    session.run("bounds", f"policy = np.array({repr(policy.tolist()).replace(' ', '')})")
    if problem.averages:
        wanted = robust_gain(known.least, *sets)
        if wanted is not None:
            session.same("optimistic plan: gain", f"optimistic_plan({given}).gain", wanted, **told)
            if session.run("learner's plan", "plan = learner.plan"):
                plan = session.script.get("plan")
                session.at_most("learner's plan: error", "(plan.gain, plan.error)", abs(plan.gain - wanted), plan.error, **told)
        for end, model, sign in (("low", known.least, 1.0), ("high", known.most, -1.0)):
            wanted, pace = gain_and_pace(model, *sets, policy, sign)
            if wanted is None:
                continue
            expression = f"cede.insight.bounds(learner, policy).{end}"
            if pace < 1.0 - 1e-7:
                session.same("bounds", expression, np.full(policy.shape, wanted), **told)
            else:  # a run takes so long to settle that rounding counts: bounds may be wider than need be there, not narrower
                got = float(session.script.get(expression).max() if sign > 0 else session.script.get(expression).min())
                session.at_most("bounds: slow chains", expression, sign * got, sign * wanted, **told)
    else:
        wanted = robust(known.least, *sets)
        session.same(f"optimistic plan: {kinds(known.belief)}", f"optimistic_plan({given}).value", wanted, **told)
        if not problem.endless:
            session.same("learner's plan", "learner.plan.value", wanted, **told)
        elif session.run("learner's plan", "plan = learner.plan"):
            plan = session.script.get("plan")
            apart = float(np.abs(plan.value - wanted).max())
            session.at_most("learner's plan: error", "plan.error", apart, plan.error, **told)
        if known.bounded:
            for end, model, sign in (("low", known.least, 1.0), ("high", known.most, -1.0)):
                session.same("bounds", f"cede.insight.bounds(learner, policy).{end}", robust(model, *sets, policy, sign), **told)
    seen = by_frequencies(known)
    if problem.averages:
        if connected(seen):
            session.same(
                "mean_plan: gain", "cede.insight.mean_plan(learner).gain", start_value(seen, best(seen)[0]), model=seen, **told
            )
    else:
        session.same("mean_plan: value", "cede.insight.mean_plan(learner).value", best(seen)[0], **told)


def connected(model):
    """Return whether the least average is the same wherever a run begins: a learner is not told where that is."""
    return end_components(model.but(start=np.full(len(model.start), 1.0 / len(model.start)))) == 1


def by_frequencies(known):
    """Return the model in which what was seen is the truth."""
    model = known.mean
    agents, environment = known.sure
    return model.but(acts=agents.centre[model.slot], tables=environment.centre[model.period])


def kinds(belief):
    return " and ".join(sorted({*belief.values()}))


def compare_sets(session, name, number, layer):
    """Compare centres and widths of a layer, place by place; return the layer, with cede's widths where they differ.

    So whatever is found after that is something else.
    """
    shape = layer.visits.shape
    if not session.run("sets", f"belief = learner.beliefs[{number}]"):
        return layer
    told = f"belief.width[belief.row].reshape({shape})"
    wide = ~np.isfinite(layer.width)
    scale = np.where(wide, 1.0, np.maximum(layer.width, 1e-3))
    same = session.same(
        f"widths of {name}", f"np.where({told} > 1e299, -1.0, {told})", np.where(wide, -1.0, layer.width), scale=scale
    )
    return layer if same else replace(layer, width=session.script.get(told))
