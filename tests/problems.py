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
