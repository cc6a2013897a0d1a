"""Random problems for the tests."""

import numpy as np
import scipy.sparse as sp

import cede


def random_rows(rng, shape, *, sparse=0.5):
    """Distributions, some entries zero."""
    p = rng.random(shape) * (rng.random(shape) > sparse)
    empty = p.sum(axis=-1) == 0
    p[empty, rng.integers(shape[-1], size=empty.sum())] = 1.0
    return p / p.sum(axis=-1, keepdims=True)


def random_mdp(seed, *, n_states=None, n_actions=None, n_agents=None, horizon=None, kinds=None, sparse_input=False, rounded=False):
    """A random problem; `rounded` costs make ties likely."""
    rng = np.random.default_rng(seed)
    n_states = n_states or int(rng.integers(1, 6))
    n_actions = n_actions or int(rng.integers(1, 4))
    n_agents = n_agents or int(rng.integers(1, 5))
    horizon = horizon or int(rng.integers(1, 5))
    cost = rng.normal(size=(n_states, n_actions)) * 3
    switch = rng.random((n_agents, n_agents)) * (1 - np.eye(n_agents))
    control = rng.normal(size=n_agents)
    if rounded:
        cost, switch, control = np.round(cost), np.round(switch), np.round(control)
    transition = random_rows(rng, (n_states, n_actions, n_states))
    environment = cede.Environment(
        transition=sp.csc_matrix(transition.reshape(-1, n_states)) if sparse_input else transition,
        cost=cost,
        start=random_rows(rng, (1, n_states))[0],
    )
    agents = []
    for d in range(n_agents):
        kind = (kinds or [None, "time", "prev_agent"])[rng.integers(len(kinds or [0, 0, 0]))]
        slots = {None: 1, "time": horizon, "prev_agent": n_agents}[kind]
        policy = random_rows(rng, (slots, n_states, n_actions))
        agents.append(cede.Agent(f"agent {d}", policy if kind else policy[0], control[d], kind))
    return cede.TwoLayerMDP(environment, cede.Team(agents, switch), horizon, start_agent=int(rng.integers(n_agents)))


def play(mdp, episodes, seed):
    """Episodes of random switching policies."""
    rng = np.random.default_rng(seed)
    shape = (mdp.task.horizon, mdp.task.n_states, mdp.task.n_agents)
    return [cede.rollout(mdp, rng.integers(mdp.task.n_agents, size=shape), rng) for _ in range(episodes)]


def random_structured(seed, *, horizon=3, labels=True):
    """A random problem that obeys a random structure: cases of the environment, and of every agent (by labels, or with actions that
    mean different things in different states)."""
    rng = np.random.default_rng(seed)
    n_states, n_actions, n_agents = int(rng.integers(3, 7)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    n_cases = int(rng.integers(1, 4))
    sizes = rng.integers(1, n_states + 1, size=n_cases)
    tables = [random_rows(rng, (1, size), sparse=0.3)[0] for size in sizes]
    case = rng.integers(n_cases, size=(n_states, n_actions))
    case.flat[:n_cases] = np.arange(n_cases)  # each of them somewhere
    to = np.full((n_states, n_actions, sizes.max()), -1)
    transition = np.zeros((n_states, n_actions, n_states))
    for s, a in np.ndindex(case.shape):
        size = sizes[case[s, a]]
        to[s, a, :size] = rng.permutation(n_states)[:size]
        transition[s, a, to[s, a, :size]] = tables[case[s, a]]
    agents, seen = [], {}
    for d in range(n_agents):
        kind = [None, "time", "prev_agent"][rng.integers(3)]
        slots = {None: 1, "time": horizon, "prev_agent": n_agents}[kind]
        views = rng.integers(2, size=n_states)
        views[:2] = 0, 1
        order = np.array([rng.permutation(n_actions) if not labels else np.arange(n_actions) for _ in range(n_states)])
        by_view = random_rows(rng, (slots, 2, n_actions))
        policy = np.zeros((slots, n_states, n_actions))
        for c, s in np.ndindex(slots, n_states):
            policy[c, s, order[s]] = by_view[c, views[s]]
        agents.append(cede.Agent(f"agent {d}", policy if kind else policy[0], rng.random(), kind))
        seen[f"agent {d}"] = views if labels else cede.Outcomes.of(views, order)
    return cede.TwoLayerMDP(
        cede.Environment(transition, rng.normal(size=(n_states, n_actions)), random_rows(rng, (1, n_states))[0]),
        cede.Team(agents, rng.random((n_agents, n_agents)) * (1 - np.eye(n_agents))),
        horizon,
        structure=cede.Structure(seen, cede.Outcomes.of(case, to)),
    )
