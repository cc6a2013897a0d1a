"""Comparisons where all is known: solve, evaluate, expected_cost, oracle, limits and mixtures."""

import numpy as np

from audit.averages import end_components
from audit.limits import best_within, shares_of
from audit.reference import best, cost_of, start_value


def random_policy(session):
    """Return a random switching policy among hand-overs that are possible."""
    model = session.model
    steps = () if model.horizon is None else (model.horizon,)
    n, modes = model.control.shape
    weights = session.rng.random((*steps, n, modes, modes))
    return np.where(model.possible, weights, -1.0).argmax(axis=-1)


def compare_known(session):
    """Compare plans and values of the true model."""
    model, problem, script = session.model, session.problem, session.script
    session.same("modes", "mdp.task.acting", model.acting, scale=1.0)
    value, _ = best(model)
    least = start_value(model, value)
    if session.run("solve", "plan = cede.solve(mdp)"):
        plan = script.get("plan")
        _, cost = cost_of(model, plan.policy)
        session.at_most("solve: policy", "cede.expected_cost(mdp, plan)", cost, least)
        session.same("expected_cost", "cede.expected_cost(mdp, plan)", cost)
        if problem.averages:
            session.same("solve: gain", "plan.gain", least)
        else:
            session.same("solve: value", "plan.value", value)
        if problem.endless:
            session.at_most("solve: error", "plan.error", plan.error, 0.0)
    policy = random_policy(session)
    told = repr(policy.tolist()).replace(" ", "")
    if session.run("evaluate", f"policy = np.array({told})"):
        value, cost = cost_of(model, policy)
        session.same("evaluate", "cede.evaluate(mdp, policy)", value)
        session.same("expected_cost", "cede.expected_cost(mdp, policy)", cost)
    return least


def compare_oracle(session, least):
    """Compare the oracle's plan with the best one."""
    model = session.model
    if session.run("oracle", "oracle = cede.oracle(mdp)"):
        _, cost = cost_of(model, session.script.get("oracle.plan.policy"))
        session.at_most("oracle", "cede.expected_cost(mdp, oracle.plan)", cost, least)


def compare_limits(session):
    """Compare the best mixture within limits of control with a linear programme over occupation measures."""
    problem, model, script = session.problem, session.model, session.script
    if problem.n_members < 2:
        return
    members = session.rng.permutation(problem.n_members)
    most = {problem.names[members[0]]: float(session.rng.choice([0.2, 0.35, 0.6]))}
    least = {problem.names[members[1]]: float(session.rng.choice([0.1, 0.25]))} if session.rng.random() < 0.3 else {}
    if problem.averages and end_components(model) > 1:
        return
    wanted = best_within(model, most, least)
    line = f"mixture = cede.solve(mdp, at_most={most}" + (f", at_least={least})" if least else ")")
    if wanted is None:
        if best_within(model, most, least, slack=1e-6) is None:  # not on the border
            session.refuses("limits: refusal", line)
        return
    try:
        script.get(line.removeprefix("mixture = "))
    except ValueError:
        if best_within(model, most, least, slack=-1e-6) is None:
            return  # on the border
    if not session.run("limits", line):
        return
    mixture = script.get("mixture")
    cost = sum(weight * cost_of(model, policy)[1] for weight, policy in zip(mixture.weights, mixture.policies, strict=True))
    held = [shares_of(model, policy) for policy in mixture.policies]
    share = sum(weight * one for weight, one in zip(mixture.weights, held, strict=True))
    share = share / share.sum()
    session.same("mixture: cost", "mixture.cost", cost)
    session.same("mixture: shares", "mixture.shares", share[: problem.n_members], scale=1.0, close=1e-8)
    session.same("limits: cost", "mixture.cost", wanted, close=3e-7)
    for i, name in enumerate(problem.names):
        session.at_most("limits: shares", "mixture.shares", share[i], most.get(name, 1.0), scale=1.0, close=3e-7)
        session.at_most("limits: shares", "mixture.shares", least.get(name, 0.0), share[i], scale=1.0, close=3e-7)
