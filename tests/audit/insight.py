"""Comparisons of what is told to people: explanations and summaries."""

import numpy as np

from audit.averages import classes, gains, limit
from audit.learned import by_frequencies
from audit.limits import occupation
from audit.optimism import robust, worst_or_best
from audit.reference import backward, chain, cost_of, options


def compare_explanation(session, known):
    """Compare what each option costs in one place, at best, by frequencies and at worst, and what that consists of."""
    problem, model, rng, size = session.problem, session.model, session.rng, known.size
    if not session.run("explain", "plan = learner.plan"):
        return
    plan = np.asarray(session.script.get("plan.policy")).astype(int)
    t = None if problem.endless else int(rng.integers(problem.horizon))
    s, prev = int(rng.choice(np.flatnonzero(~model.end))), int(rng.integers(len(model.names)))
    if not session.run("explain", f"found = cede.explain(learner, {t}, {s}, {prev})"):
        return
    seen = by_frequencies(known)
    can = np.flatnonzero(model.possible[s, prev])
    told = {"scale": size}
    now = 0 if t is None else t
    session.same("explain: options", "[one.index for one in found.options]", can, scale=1.0)
    session.same("explain: chosen", "found.chosen", plan[s, prev] if t is None else plan[t, s, prev], scale=1.0)
    visits = known.agents.visits[model.slot[now, prev, can], s]
    session.same("explain: visits", "[one.visits for one in found.options]", visits, scale=1.0)
    if problem.averages:
        compare_relative(session, seen, plan, s, prev, told)
        return
    wanted = {"plain": options(seen, now, after(seen, plan, t))[s, prev, can]}
    none = np.where(model.possible, 0.0, np.inf)
    parts = {
        "environment": seen.but(control=np.zeros_like(model.control), switch=none),
        "control": free(seen).but(control=seen.control, switch=none),
        "switching": free(seen).but(switch=seen.switch),
    }
    for name, part in parts.items():
        value = options(part, now, after(part, plan, t))[s, prev, can]
        session.same("explain: parts", f"[one.parts[{name!r}] for one in found.options]", value, **told)
    for name, one, sign in (("optimistic", known.least, 1.0), ("pessimistic", known.most, -1.0)):
        wanted[name] = bounded(one, known, plan, t, sign)[s, prev, can] if known.bounded else wanted["plain"]
    for name, value in wanted.items():
        session.same(f"explain: {name}", f"[one.{name} for one in found.options]", value, **told)


def compare_relative(session, seen, plan, s, prev, told):
    """Compare options of averages with one another: what they cost is relative to some place, so only differences count."""
    cost, chances = chain(seen, plan)
    gain = gains(cost, chances)
    if len(classes(chances)) > 1:
        return  # classes are not relative to one another
    bias = np.linalg.solve(np.eye(len(cost)) - chances + limit(chances), cost - gain).reshape(plan.shape)
    q = options(seen, 0, bias)[s, prev]
    q = q[np.isfinite(q)]
    told = {**told, "scale": told["scale"] + np.abs(bias).max()}
    session.same("explain: relative", "np.diff([one.plain for one in found.options])", np.diff(q), **told)


def free(model):
    """Return a model in which the environment charges nothing, and nobody."""
    return model.but(
        cost=np.zeros_like(model.cost),
        enter=np.zeros_like(model.enter),
        control=np.zeros_like(model.control),
        switch=np.where(np.isfinite(model.switch), 0.0, np.inf),
    )


def after(model, plan, t):
    """Return the value of a plan after a step at time t, (S, D)."""
    return cost_of(model, plan)[0] if t is None else backward(model, plan)[0][t + 1]


def bounded(model, known, plan, t, sign):
    """Return what options cost at time t, (S, D, D), at best (sign 1) or at worst, if the plan is followed afterwards."""
    sets = known.agents, known.environment
    value = robust(model, *sets, plan, sign)
    return worst_or_best(model, t or 0, value if t is None else value[t + 1], *sets, sign)[0]


def compare_summary(session, known):
    """Compare who acted, who will by the plan, where that leads and what it costs."""
    problem, model, size = session.problem, session.model, known.size
    start = repr(problem.start.tolist())
    if not session.run("summarise", f"summary = cede.insight.summarise(learner, start={start}, by=lambda name: name)"):
        return
    steps = [step for run in known.runs for step in run]
    held = np.bincount([model.acting[mode] for _, _, _, mode, *_ in steps], minlength=problem.n_members)
    session.same("summarise: control", "summary.control", held, scale=1.0)
    plan = np.asarray(session.script.get("learner.plan.policy")).astype(int)
    seen = by_frequencies(known)
    met = occupation(seen, plan)  # (S, D)
    acts = np.zeros((problem.n_states, problem.n_members))
    np.add.at(acts.T, model.acting, met.T)
    share = acts.sum(axis=0) / max(acts.sum(), 1e-300)
    session.same("summarise: planned", "summary.planned", share, scale=1.0, close=1e-6)
    if problem.averages:
        session.same("summarise: steps", "[one.steps for one in summary.groups]", met.sum(axis=1), scale=1.0, close=1e-6)
        return
    if not problem.endless:
        session.same("summarise: steps", "[one.steps for one in summary.groups]", met.sum(axis=1), scale=1.0, close=1e-6)
    value = cost_of(seen, plan)[0]
    value = (value if problem.endless else value[0])[:, model.start_mode]
    session.same("summarise: expected", "[one.expected for one in summary.groups]", value, scale=size)
