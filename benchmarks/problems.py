"""What is measured: beliefs of lane driving's size, random sparse ones of any size, and known problems."""

import numpy as np
import scipy.sparse as sp

import cede
from cede._kernels.tables import Table
from cede.beliefs.belief import Belief
from cede.beliefs.printed import printed_constant


def two_humans(sigma: float = 2.0) -> cede.TwoLayerMDP:
    """Lane driving with two agents that do not vary with time: a human, and one who steers the other way round."""
    mdp = cede.worlds.lane_driving(sigma=sigma)
    human = mdp.team.agents[1].policy
    agents = [cede.Agent("first", human), cede.Agent("second", human[:, ::-1], control_cost=0.2)]
    return cede.TwoLayerMDP(mdp.environment, cede.Team(agents, 0.1), mdp.horizon)


def lane_belief(scale: cede.Scale, visits: int = 600) -> tuple[cede.Task, Belief, Belief]:
    """Both agents and the road as if every row had been seen so many times."""
    mdp = two_humans()
    task, truth, rng = mdp.task, mdp.environment.transition, np.random.default_rng(0)
    seen = truth.copy()
    for r in range(truth.shape[0]):
        part = slice(truth.indptr[r], truth.indptr[r + 1])
        seen.data[part] = rng.multinomial(visits, truth.data[part] / truth.data[part].sum())
    policies = np.concatenate([rng.multinomial(visits, agent.policy) for agent in mdp.team.agents]).astype(float)

    def belief(matrix: sp.csr_array, layer: str, outcomes: int, places: tuple[int, int]) -> Belief:
        table = Table.of(matrix)
        constant = printed_constant(20_000 * task.horizon, table.n_rows, outcomes, 1, 0.1)
        width = scale.at(layer, 1) * np.sqrt(constant / np.maximum(1.0, table.total))
        return Belief(table, width, np.arange(table.n_rows).reshape(places))

    agents = belief(sp.csr_array(policies), "agents", 3, (2, task.n_states))
    return task, agents, belief(seen, "environment", task.n_states, (task.n_states, 3))


def random_belief(
    n_states: int, *, n_actions: int = 4, n_agents: int = 3, successors: int = 10, horizon: int = 20
) -> tuple[cede.Task, Belief, Belief]:
    """Rows with successors anywhere: the worst case for the caches."""
    rng = np.random.default_rng(n_states)
    rows = n_states * n_actions
    seen = sp.csr_array(
        (
            rng.integers(1, 20, size=rows * successors).astype(float),
            rng.integers(n_states, size=rows * successors).astype(np.int32),
            np.arange(0, rows * successors + 1, successors),
        ),
        shape=(rows, n_states),
    )
    task = cede.Task(
        env_cost=rng.random((n_states, n_actions)),
        agents=[f"agent {d}" for d in range(n_agents)],
        horizon=horizon,
        control_cost=0.1 * rng.random(n_agents),
        switch_cost=0.1,
    )
    table = Table.of(seen)
    environment = Belief(table, rng.uniform(0.2, 1.0, rows), np.arange(rows).reshape(n_states, n_actions))
    acts = Table.of(sp.csr_array(rng.integers(1, 21, size=(n_agents * n_states, n_actions)).astype(float)))
    agents = Belief(acts, rng.uniform(0.1, 0.5, acts.n_rows), np.arange(acts.n_rows).reshape(n_agents, n_states))
    return task, agents, environment
