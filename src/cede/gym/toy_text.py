"""Environments with a tabular model (FrozenLake, CliffWalking, Taxi ...) as two-layer problems, exactly."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Floats
from cede.problem.model import Agent, Environment, Team, TwoLayerMDP

Model = list[list[list[tuple[float, int, float, bool]]]]  # [s][a]: probability, next state, reward, terminated
DONE = "done"  # name of the state that is added where an episode may end without being in a state of its own


def from_toy_text(env: Any, agents: Sequence[Agent], horizon: int, *, switch_cost: Any = 0.0, start_agent: Any = 0) -> TwoLayerMDP:
    """A Gymnasium environment with a table `P[s][a] = [(probability, next state, reward, terminated), ...]`, such as FrozenLake.

    Costs are minus the expected rewards. Where an episode ends the state stays, at no cost; if a state can be entered both at the
    end and before it, the end is a state of its own, `done`, behind all others. agents: with a policy (S, A) over the states of
    the environment; in `done` it does not matter what they do. A time limit of the environment does not count: the horizon does.
    """
    owner = "from_toy_text"
    table, start = checked_model(owner, env)
    n_states, n_actions = len(table), len(table[0])
    ends = {to for row in table for steps in row for _, to, _, over in steps if over}
    extra = bool(ends & entered_before_the_end(table, start))
    absorbing = {n_states} if extra else ends
    n = n_states + extra
    rows, columns, data, cost = [], [], [], np.zeros((n, n_actions))
    for s in range(n):
        for a in range(n_actions):
            steps = [(1.0, s, 0.0, False)] if s in absorbing else table[s][a]
            for chance, to, reward, over in steps:
                rows.append(s * n_actions + a)
                columns.append(n_states if over and extra else to)
                data.append(chance)
                cost[s, a] -= chance * reward
    transition = sp.csr_array((np.array(data, dtype=np.float64), (rows, columns)), shape=(n * n_actions, n))
    first = np.append(start, 0.0) if extra else start
    names = [str(s) for s in range(n_states)] + [DONE] * extra
    environment = Environment(rounded_off(transition), cost, first, state_names=names)
    team = Team([with_rows(owner, agent, n_states, n) for agent in agents], switch_cost)
    return TwoLayerMDP(environment, team, horizon, start_agent)


def entered_before_the_end(table: Model, start: Floats) -> set[int]:
    """The states in which an episode may begin or go on."""
    found = {int(s) for s in np.flatnonzero(start)}
    left = list(found)
    while left:
        for steps in table[left.pop()]:
            new = {to for _, to, _, over in steps if not over} - found
            found |= new
            left += new
    return found


def checked_model(owner: str, env: Any) -> tuple[Model, Floats]:
    """P and the start distribution, as plain numbers."""
    inner = getattr(env, "unwrapped", env)
    if getattr(inner, "fickle_passenger", False):
        check.fail(owner, "env", check.show(env), "one that moves by its table P: a fickle passenger does not")
    model, start = getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
    if not isinstance(model, dict) or not model:
        check.fail(owner, "env", check.show(env), "an environment with a tabular model P, as FrozenLake-v1 has")
    if sorted(model) != list(range(len(model))):
        check.fail(owner, "the states of P", check.show(sorted(model)), f"0 to {len(model) - 1}")
    if start is None:
        check.fail(owner, "env", check.show(env), "an environment with initial_state_distrib, as FrozenLake-v1 has")
    table = [
        [[(float(p), int(to), float(reward), bool(over)) for p, to, reward, over in model[s][a]] for a in sorted(model[s])]
        for s in sorted(model)
    ]
    for s, row in enumerate(table):
        if len(row) != len(table[0]):
            check.fail(owner, f"the number of actions of P[{s}]", len(row), f"{len(table[0])}, as of all")
        for a, steps in enumerate(row):
            for _, to, _, _ in steps:
                check.index(owner, f"a next state of P[{s}][{a}]", to, len(table))
    return table, check.array(owner, "initial_state_distrib", start, (len(table),), "(S,)")


def rounded_off(transition: sp.csr_array) -> sp.csr_array:
    """Gymnasium's thirds sum to 1 but for rounding; sums beyond that are an error, found by Environment."""
    sums = np.asarray(transition.sum(axis=1))
    close = np.abs(sums - 1.0) < 1e-12
    return sp.csr_array(transition / np.where(close, sums, 1.0)[:, None])


def with_rows(owner: str, agent: Any, n_states: int, n: int) -> Agent:
    """An agent with a policy for all n states."""
    if not isinstance(agent, Agent):
        check.fail(owner, "one of agents", check.show(agent), "an Agent")
    if n == n_states or agent.policy.shape[-2] != n_states:
        return agent
    anything = np.eye(agent.policy.shape[-1])[:1]
    padding = np.broadcast_to(anything, (*agent.policy.shape[:-2], 1, agent.policy.shape[-1]))
    taking_over = None if agent.on_takeover is None else np.concatenate([agent.on_takeover, anything])
    return replace(agent, policy=np.concatenate([agent.policy, padding], axis=-2), on_takeover=taking_over)
