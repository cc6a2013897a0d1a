"""Comparisons of runs and of other learners: regret, UCRL2, frequencies, calibrated sets."""

import numpy as np

from audit.averages import end_components, reachable
from audit.known import random_policy
from audit.learned import DELTA, believed, connected, learn, play
from audit.limits import best_within
from audit.optimism import robust, robust_gain
from audit.reference import best, cost_of, scale_of, start_value
from audit.sets import Layer, layers, with_sets


def compare_regret(session):
    """Compare regret, episode by episode, with what each plan costs more than the best one."""
    problem, model = session.problem, session.model
    if problem.averages and end_components(model) > 1:
        return
    value, _ = best(model)
    least = start_value(model, value)
    if problem.endless:
        compare_endless_regret(session, value, least)
        return
    call = "cede.ucrl2_mc(task, belief='kl', scale=0.1, seed=5, **told)"
    if not session.run("regret", f"learner = {call}"):
        return
    for episode in range(3):
        if not session.run("regret", "plan = learner.plan"):
            return
        cost = cost_of(model, session.script.get("plan.policy"))[1]
        if not session.run("regret", f"history = cede.simulate(mdp, learner, 1, seed={episode}, progress=False)"):
            return
        session.same("regret: expected cost", "history.expected_cost", [cost])
        session.same("regret: optimum", "history.optimum", least)
        session.same("regret", "history.regret", [cost - least])
    policy = random_policy(session)
    told = repr(policy.tolist()).replace(" ", "")
    if session.run("regret", f"history = cede.simulate(mdp, cede.fixed(task, np.array({told})), 3, progress=False)"):
        more = cost_of(model, policy)[1] - least
        session.same("regret", "history.regret", [more, 2 * more, 3 * more])


def compare_endless_regret(session, value, least):
    """Compare the regret of a fixed policy and of the oracle, step by step, where there is no horizon."""
    model, problem = session.model, session.problem
    policy = random_policy(session)
    there = reachable(model)
    own, cost = cost_of(model, policy)
    if problem.averages and np.ptp(own[there]) > 1e-9 * session.scale:
        return  # which class the run ends in is luck
    told = repr(policy.tolist()).replace(" ", "")
    line = f"history = cede.simulate(mdp, cede.fixed(task, np.array({told})), steps=6, record_every=1, progress=False)"
    if session.run("regret", line):
        session.same("regret: optimum", "history.optimum", least)
        session.same("regret: expected cost", "history.expected_cost", np.full(6, cost))
        if problem.averages:
            session.same("regret", "history.regret", (cost - least) * np.arange(1, 7), scale=6 * session.scale)
        else:
            more = (own - value)[there]
            steps = np.diff(session.script.get("history.regret"), prepend=0.0)
            far = max(np.abs(more - step).min() for step in steps)
            session.at_most("regret", "history.regret", far, 0.0, scale=6 * session.scale)
    if session.run("regret", "history = cede.simulate(mdp, cede.oracle(mdp), steps=4, record_every=1, progress=False)"):
        session.same("regret: oracle", "history.regret", np.zeros(4), scale=4 * session.scale)


def compare_limited_run(session):
    """Compare what regret within limits is counted from."""
    problem, model = session.problem, session.model
    if problem.n_members < 2 or (problem.averages and end_components(model) > 1):
        return
    if problem.endless and not problem.averages:
        return  # refused: a discounted run without an end has no share of its steps
    name = problem.names[int(session.rng.integers(problem.n_members))]
    most = {name: float(session.rng.choice([0.35, 0.6]))}
    wanted = best_within(model, most, {})
    if wanted is None or best_within(model, most, {}, slack=-1e-6) is None:
        return
    how = "steps=2, record_every=1" if problem.endless else "episodes=1"
    line = f"history = cede.simulate(mdp, cede.ucrl2_mc(task, at_most={most}, **told), {how}, progress=False)"
    if session.run("regret within limits", line):
        session.same("regret within limits: optimum", "history.optimum", wanted, close=3e-7)


def compare_frequencies(session):
    """Compare the plan of a learner that takes frequencies for the truth, and of the one that we recommend, from its own sets."""
    problem, model = session.problem, session.model
    runs = play(session, int(session.rng.choice([1, 5, 20])))
    steps = [step for run in runs for step in run]
    agents, environment = layers(problem, model, steps)
    models, all_costs = believed(problem, model, steps, 1.0)
    size = scale_of(model, *all_costs) or 1.0
    seen = models[1].but(acts=agents.centre[model.slot], tables=environment.centre[model.period])
    if learn(session, "learner", "cede.greedy(task, **told)", runs):
        if problem.averages and not connected(seen):
            pass
        elif problem.averages:
            wanted = start_value(seen, best(seen)[0])
            session.same("greedy: mean_plan", "cede.insight.mean_plan(learner).gain", wanted, scale=size, model=seen)
        else:
            session.same("greedy: mean_plan", "cede.insight.mean_plan(learner).value", best(seen)[0], scale=size)
        if not problem.endless:
            session.same("greedy: plan", "learner.plan.value", best(seen)[0], scale=size)
    if learn(session, "learner", "cede.recommended(task, **told)", runs):
        widths = [session.script.get(f"learner.beliefs[{i}].width[learner.beliefs[{i}].row]") for i in range(2)]
        sets = [
            Layer(**{**vars(layer), "kind": "kl", "width": np.where(width > 1e299, np.inf, width).reshape(layer.visits.shape)})
            for layer, width in zip((agents, environment), widths, strict=True)
        ]
        given = "task, *learner.beliefs" + (", costs=learner.costs" if problem.learns else "")
        least = model
        if problem.learns:
            low = {name: session.script.get(f"learner.costs.{name}_low") for name in ("enter", "control", "switch")}
            low = {
                name: getattr(model, name) if low[name] is None else np.broadcast_to(low[name], getattr(model, name).shape)
                for name in low
            }
            least = model.but(cost=session.script.get("learner.costs.low"), **low)
        size = scale_of(least, *all_costs) or 1.0
        if problem.averages:
            wanted = robust_gain(least, *sets)
            if wanted is not None:
                session.same("recommended: gain", f"optimistic_plan({given}).gain", wanted, scale=size)
        else:
            session.same("recommended: plan", f"optimistic_plan({given}).value", robust(least, *sets), scale=size)


def compare_ucrl2(session):
    """Compare UCRL2, which sees p(s' | s, d) only, where costs do not depend on the action."""
    problem, model, rng = session.problem, session.model, session.rng
    cost = model.cost
    if problem.learns or problem.periods is not None or (cost != cost[:, :1]).any():
        return
    radius, scale = str(rng.choice(["appendix", "same-form"])), float(rng.choice([1.0, 0.1]))
    runs = play(session, int(rng.choice([0, 2, 10, 40])))
    if not learn(session, "learner", f"cede.ucrl2(task, radius={radius!r}, scale={scale})", runs):
        return
    n, slots = problem.n_states, model.n_slots
    counts = np.zeros((1, n, slots, n))
    steps = [step for run in runs for step in run]
    for t, s, prev, mode, _, then, *_ in steps:
        counts[0, s, model.slot[0 if problem.endless else t, prev, mode], then] += 1
    certain = np.broadcast_to(np.eye(slots)[:, None, :], (slots, n, slots))
    nothing = np.zeros((1, n, slots))
    acts = Layer(np.zeros((slots, n, slots)), np.ones((slots, n, slots), bool), 1, 1, np.ones((slots, n), bool), certain)
    table = Layer(counts, np.ones_like(counts, dtype=bool), n * slots, 1, nothing.astype(bool), counts)
    t = max(1, len(steps) if problem.endless else len(runs) * problem.horizon)
    table = with_sets(table, radius, t, DELTA, scale, 1)
    acts = Layer(**{**vars(acts.exact()), "places": nothing[0].T})
    table = Layer(**{**vars(table), "places": nothing})
    flat = model.but(
        tables=np.broadcast_to(np.eye(n)[:, None, :], (len(model.tables), n, slots, n)),
        cost=np.repeat(cost[:, :1], slots, axis=1),
        acts=certain[model.slot],
        period=np.zeros_like(model.period),
    )
    size = session.scale
    if problem.averages:
        wanted = robust_gain(flat, acts, table)
        if wanted is not None and session.run("ucrl2", "plan = learner.plan"):
            plan = session.script.get("plan")
            session.at_most("ucrl2: gain", "(plan.gain, plan.error)", abs(plan.gain - wanted), plan.error, scale=size)
    elif problem.endless:
        if session.run("ucrl2", "plan = learner.plan"):
            plan = session.script.get("plan")
            far = np.abs(plan.value - robust(flat, acts, table)).max()
            session.at_most("ucrl2: error", "plan.error", far, plan.error, scale=size)
    else:
        session.same("ucrl2: plan", "learner.plan.value", robust(flat, acts, table), scale=size)
