"""Gymnasium environments that have a table of probabilities (FrozenLake, CliffWalking, Taxi ...) as two-layer problems, exactly."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Floats
from cede.problem.model import Agent, Environment, Team, TwoLayerMDP

Model = list[list[list[tuple[float, int, float, bool]]]]  # [s][a]: (probability, next state, reward, terminated), ...
DONE = "done"  # name of the terminal state that `from_toy_text` may add


def from_toy_text(
    env: Any,
    agents: Sequence[Agent],
    horizon: int | None,
    *,
    switch_cost: Any = 0.0,
    start_agent: Any = 0,
    discount: float | None = None,
) -> TwoLayerMDP:
    """Make a two-layer problem of a Gymnasium environment such as FrozenLake.

    env: has a table `P[s][a] = [(probability, next state, reward, terminated), ...]` and `initial_state_distrib`. agents: with
    policies over the states of the environment, (S, A). horizon: the steps of an episode, or None; a time limit of the environment
    is ignored. switch_cost, start_agent, discount: as in `Team` and `TwoLayerMDP`.

    Costs are minus the expected rewards. The states in which an episode terminates are the terminal states of the problem: nothing
    is charged after them. If some state can be entered both by terminating and otherwise, a terminal state "done" is added as the
    last one. Policies get a row for it, which has no effect.
    """
    owner = "from_toy_text"
    table, start = checked_model(owner, env)
    n_states, n_actions = len(table), len(table[0])
    ends = {to for row in table for steps in row for _, to, _, over in steps if over}
    extra = bool(ends & states_before_the_end(table, start))  # is the state "done" needed?
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
    tables = {"transition": without_rounding_errors(transition), "cost": cost, "start": first}
    environment = Environment(**tables, state_names=names, terminal=sorted(absorbing))
    agents = check.items(owner, "agents", agents, "a sequence of Agents")
    team = Team([with_policy_for_done(owner, agent, n_states, n) for agent in agents], switch_cost)
    return TwoLayerMDP(environment, team, horizon, start_agent, discount=discount)


def states_before_the_end(table: Model, start: Floats) -> set[int]:
    """Return the states in which an episode may begin or continue; start: (S,) probabilities of the first state."""
    reached = {int(s) for s in np.flatnonzero(start)}
    left = list(reached)
    while left:
        for steps in table[left.pop()]:
            new = {to for _, to, _, over in steps if not over} - reached
            reached |= new
            left += new
    return reached


def checked_model(owner: str, env: Any) -> tuple[Model, Floats]:
    """Check an environment's table P and its start distribution; return them as nested lists [s][a] and as an array, (S,)."""
    inner = getattr(env, "unwrapped", env)
    if getattr(inner, "fickle_passenger", False):
        check.fail(owner, "env", check.show(env), "one that moves by its table P: a fickle passenger does not")
    model, start = getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
    if not isinstance(model, dict) or not model:
        check.fail(owner, "env", check.show(env), "an environment with a tabular model P, as FrozenLake-v1 has")
    if set(model) != set(range(len(model))):
        check.fail(owner, "the states of P", check.show(list(model)), f"0 to {len(model) - 1}")
    if start is None:
        check.fail(owner, "env", check.show(env), "an environment with initial_state_distrib, as FrozenLake-v1 has")
    n_actions = len(model[0]) if hasattr(model[0], "__len__") else 0
    table: Model = []
    for s in range(len(model)):
        row = model[s]
        if not isinstance(row, dict) or not row or set(row) != set(range(n_actions)):
            check.fail(owner, f"P[{s}]", check.show(row), "a dictionary of the actions 0, 1, ..., the same for all states")
        steps = [check.items(owner, f"P[{s}][{a}]", row[a], "a list of possible steps") for a in range(n_actions)]
        table.append([[checked_outcome(owner, f"P[{s}][{a}]", step, len(model)) for step in steps[a]] for a in range(n_actions)])
    return table, check.array(owner, "initial_state_distrib", start, (len(table),), "(S,)")


def checked_outcome(owner: str, place: str, step: Any, n_states: int) -> tuple[float, int, float, bool]:
    """Check one possible step of a table P: (probability, next state, reward, terminated)."""
    if not isinstance(step, tuple | list) or len(step) != 4:
        check.fail(owner, place, check.show(step), "steps (probability, next state, reward, terminated)")
    chance, to, reward, over = step
    return (
        check.number(owner, f"a probability of {place}", chance, least=0.0),
        check.index(owner, f"a next state of {place}", to, n_states),
        check.number(owner, f"a reward of {place}", reward),
        check.truth(owner, f"whether {place} terminates", over),
    )


def without_rounding_errors(transition: sp.csr_array) -> sp.csr_array:
    """Return the matrix with each row divided by its sum if that differs from 1 by rounding only, as Gymnasium's thirds do.

    Rows with other sums stay as they are; Environment refuses them.
    """
    sums = np.asarray(transition.sum(axis=1))
    close = np.abs(sums - 1.0) < 1e-12
    return sp.csr_array(transition / np.where(close, sums, 1.0)[:, None])


def with_policy_for_done(owner: str, agent: Any, n_states: int, n: int) -> Agent:
    """Return an agent whose policies cover all n states: if n is n_states + 1, they get a row for the added state "done"."""
    if not isinstance(agent, Agent):
        check.fail(owner, "one of agents", check.show(agent), "an Agent")
    if n == n_states or agent.policy.shape[-2] != n_states:
        return agent
    anything = np.eye(agent.policy.shape[-1])[:1]
    padding = np.broadcast_to(anything, (*agent.policy.shape[:-2], 1, agent.policy.shape[-1]))
    taking_over = None if agent.on_takeover is None else np.concatenate([agent.on_takeover, anything])
    return replace(agent, policy=np.concatenate([agent.policy, padding], axis=-2), on_takeover=taking_over)
