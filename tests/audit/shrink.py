"""Makes a problem that shows a difference smaller, as long as it still shows one of the same kind."""

import time

import numpy as np

from audit.compare import compare


def shrink(problem, kind, part, seconds=30.0):
    """Return a smaller problem that still differs in the same kind, and the difference. part: of the comparison."""
    until = time.monotonic() + seconds

    def shown(one):
        try:
            found = compare(one, (part,)).found
        except Exception:
            return None  # no problem at all
        return next((each for each in found if each.kind == kind), None)

    best = shown(problem)
    if best is None:
        return problem, None
    least = min(best.size / 30, 1e-3)  # what is left must not be another, smaller matter
    changed = True
    while changed and time.monotonic() < until:
        changed = False
        for smaller in simpler(problem):
            if time.monotonic() > until:
                break
            found = shown(smaller)
            if found is not None and found.size >= least:
                problem, best, changed = smaller, found, True
                break
    return problem, best


def simpler(problem):
    """Yield problems that are simpler by one step, the greatest steps first."""
    yield from (problem.but(most_runs=most) for most in (0, 1, 5, 20) if most < problem.most_runs)
    yield from without_features(problem)
    for i in range(problem.n_members):
        if problem.n_members > 1:
            yield without_member(problem, i)
    for s in range(problem.n_states):
        if problem.n_states > 1:
            yield without_state(problem, s)
    for a in range(problem.n_actions):
        if problem.n_actions > 1:
            yield without_action(problem, a)
    if problem.horizon is not None and problem.horizon > 1 and problem.periods is None:
        cut = [one[:-1] if kind == "time" else one for one, kind in zip(problem.policies, problem.varies, strict=True)]
        yield problem.but(horizon=problem.horizon - 1, policies=tuple(cut))
    yield from with_plain_numbers(problem)


def without_features(problem):
    """Yield the problem without one of its features."""
    if problem.case is not None or problem.agent_labels or problem.cost_labels is not None:
        yield problem.but(case=None, to=None, agent_labels=(), cost_labels=None)
    if problem.unknown is not None:
        yield problem.but(unknown=None, enter_unknown=None, cost_range=None, cost_labels=None)
    if problem.control_unknown is not None:
        yield problem.but(control_unknown=None, control_range=None)
    if problem.switch_unknown is not None:
        yield problem.but(switch_unknown=None, switch_range=None)
    if problem.enter is not None:
        yield problem.but(enter=None, enter_unknown=None)
    if problem.terminal:
        yield problem.but(terminal=())
    if problem.known_agents:
        yield problem.but(known_agents=())
    if problem.known_environment:
        yield problem.but(known_environment=False)
    if problem.periods is not None:
        yield problem.but(periods=None, transition=problem.transition[:1])
    if problem.cost.shape[2] > 1:
        yield problem.but(cost=problem.cost.mean(axis=2, keepdims=True))
    if any(problem.delays):
        nobody = (None,) * problem.n_members
        yield problem.but(delays=(0,) * problem.n_members, on_takeover=nobody)
        yield problem.but(on_takeover=nobody)
        yield problem.but(delays=tuple(min(one, 1) for one in problem.delays))
    if any(problem.varies):
        plain = tuple(policy[:1] for policy in problem.policies)
        yield problem.but(varies=(None,) * problem.n_members, policies=plain, agent_labels=())
    if problem.switch.ndim == 3:
        yield problem.but(**{name: cut(problem, name, 0) for name in ("switch", "switch_unknown")})
    if problem.control.ndim == 2:
        yield problem.but(**{name: cut(problem, name, 0) for name in ("control", "control_unknown")})
    if np.isinf(problem.switch).any():
        yield problem.but(switch=np.where(np.isinf(problem.switch), 0.0, problem.switch))


def cut(problem, name, place):
    """Return a part of an optional array of a problem."""
    value = getattr(problem, name)
    return None if value is None else value[place]


def without_member(problem, i):
    """Return the problem without one member."""
    keep = [d for d in range(problem.n_members) if d != i]
    policies = [
        policy[keep] if kind == "prev_agent" else policy
        for policy, kind in zip((problem.policies[d] for d in keep), (problem.varies[d] for d in keep), strict=True)
    ]
    return problem.but(
        policies=tuple(policies),
        varies=tuple(problem.varies[d] for d in keep),
        **{name: cut(problem, name, (..., keep)) for name in ("control", "control_unknown")},
        **{name: cut(problem, name, (..., *np.ix_(keep, keep))) for name in ("switch", "switch_unknown")},
        start_agent=keep.index(problem.start_agent) if problem.start_agent in keep else 0,
        delays=tuple(problem.delays[d] for d in keep),
        on_takeover=tuple(problem.on_takeover[d] for d in keep),
        agent_labels=tuple((keep.index(d), labels) for d, labels in problem.agent_labels if d in keep),
        known_agents=tuple(keep.index(d) for d in problem.known_agents if d in keep),
    )


def renormalised(p):
    total = p.sum(axis=-1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[-1])


def without_state(problem, s):
    """Return the problem without one state; what led there leads to the others."""
    keep = [one for one in range(problem.n_states) if one != s]
    optional = {
        name: None if (value := getattr(problem, name)) is None else value[keep]
        for name in ("enter", "unknown", "enter_unknown", "cost_labels")
    }
    return problem.but(
        transition=renormalised(problem.transition[:, keep][..., keep]),
        cost=problem.cost[keep],
        start=renormalised(problem.start[keep]),
        policies=tuple(policy[:, keep] for policy in problem.policies),
        **{name: cut(problem, name, keep if problem.control.ndim == 2 else ...) for name in ("control", "control_unknown")},
        **{name: cut(problem, name, keep if problem.switch.ndim == 3 else ...) for name in ("switch", "switch_unknown")},
        terminal=tuple(keep.index(one) for one in problem.terminal if one in keep),
        on_takeover=tuple(None if policy is None else policy[keep] for policy in problem.on_takeover),
        agent_labels=tuple((d, labels[keep]) for d, labels in problem.agent_labels),
        case=None,
        to=None,
        **optional,
    )


def without_action(problem, a):
    """Return the problem without one action."""
    keep = [one for one in range(problem.n_actions) if one != a]
    return problem.but(
        transition=problem.transition[:, :, keep],
        cost=problem.cost[:, keep],
        policies=tuple(renormalised(policy[..., keep]) for policy in problem.policies),
        on_takeover=tuple(None if policy is None else renormalised(policy[..., keep]) for policy in problem.on_takeover),
        unknown=None if problem.unknown is None else problem.unknown[:, keep],
        cost_labels=None if problem.cost_labels is None else problem.cost_labels[:, keep],
        case=None,
        to=None,
    )


def with_plain_numbers(problem):
    """Yield the problem with rounder numbers."""
    finite = problem.cost[np.isfinite(problem.cost)]
    unit = float(np.abs(finite).max()) if np.abs(finite).max() > 0 else 1.0
    if not 0.1 <= unit <= 100 and not problem.learns:
        parts = {name: getattr(problem, name) / unit for name in ("cost", "control", "switch")}
        yield problem.but(**parts, enter=None if problem.enter is None else problem.enter / unit)
    for name in ("cost", "control", "switch", "enter"):
        value = getattr(problem, name)
        if value is None:
            continue
        for plain in (np.where(np.isinf(value), value, 0.0), np.round(value), np.round(value, 1)):
            if not np.array_equal(plain, value) and not problem.learns:
                yield problem.but(**{name: plain})
    whole = [("transition", problem.transition), ("start", problem.start)]
    for name, value in whole:
        for plain in (sharpened(value), halves(value)):
            if not np.array_equal(plain, value) and problem.case is None:
                yield problem.but(**{name: plain})
    for make in (sharpened, halves):
        policies = tuple(make(policy) for policy in problem.policies)
        if any(not np.array_equal(one, other) for one, other in zip(policies, problem.policies, strict=True)):
            yield problem.but(policies=policies)


def sharpened(p):
    """Return distributions that are certain of what was most likely."""
    return (np.arange(p.shape[-1]) == p.argmax(axis=-1)[..., None]).astype(float)


def halves(p):
    """Return distributions in which everything that is possible is equally likely."""
    return (p > 0) / (p > 0).sum(axis=-1, keepdims=True)
