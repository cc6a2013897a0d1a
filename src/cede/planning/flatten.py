"""The switching problem as UCRL2 sees it, without the layer of the agents: the action is the choice of the agent."""

from collections.abc import Sequence
from dataclasses import replace
from typing import overload

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Floats
from cede.beliefs.truth import true_beliefs
from cede.problem.model import Team, TwoLayerMDP
from cede.problem.task import Task


@overload
def flatten(problem: TwoLayerMDP) -> TwoLayerMDP: ...
@overload
def flatten(problem: Task) -> Task: ...
def flatten(problem: TwoLayerMDP | Task) -> TwoLayerMDP | Task:
    """Return the switching problem without its layer of agents, as UCRL2 sees it (Eqs. 3 and 4).

    problem: a TwoLayerMDP or a Task; the result is of the same type. Its actions are the agents themselves, or rather the slots: an
    agent whose policy varies has one slot for each time step or previous agent. Slot d takes action d for certain, so the table to
    be learned is p(s' | s, d).

    A flattened Task holds the environment's cost only where it does not depend on the action. Elsewhere env_cost[s, d] is the least
    cost of the state, and the learner must learn the mean.
    """
    if isinstance(problem, Task):
        slots = int(problem.layout.n_slots.sum())
        least = np.repeat(problem.extremes_of_env_cost[0][:, None], slots, axis=1)
        return replace(problem, env_cost=least, n_actions=None, action_names=slot_names(problem))
    task = check.instance("flatten", "problem", problem, TwoLayerMDP, " or a Task").task
    policies = true_beliefs(problem)[0].centre.matrix().toarray().reshape(-1, task.n_states, task.n_actions)
    slots, actions = len(policies), np.arange(task.n_actions)
    rows = np.repeat(np.arange(task.n_states), task.n_actions)
    columns = rows * task.n_actions + np.tile(actions, task.n_states)
    order = np.arange(slots * task.n_states).reshape(slots, task.n_states).T.ravel()
    tables = []
    for transition in problem.environment.tables:  # p(s' | s, slot) = sum_a p_slot(a | s) p(s' | s, a)
        mixes = [
            sp.csr_array((table.ravel(), (rows, columns)), shape=(task.n_states, task.n_states * task.n_actions))
            for table in policies
        ]
        tables.append(sp.csr_array(sp.vstack([mix @ transition for mix in mixes]))[order])
    environment = replace(
        problem.environment,
        transition=tables if problem.environment.periods is not None else tables[0],
        cost=np.einsum("csa,sa->sc", policies, task.env_cost),
        random_cost=None,
        action_names=slot_names(task),
    )
    policies = certain_policies(task)
    taking_over = iter(policies[problem.team.n_agents :])
    agents = [
        replace(a, policy=policy, on_takeover=None if a.on_takeover is None else next(taking_over))
        for a, policy in zip(problem.team.agents, policies, strict=False)
    ]
    team = Team(agents, problem.team.switch_cost, problem.team.grab_cost)
    return TwoLayerMDP(environment, team, problem.horizon, problem.start_agent, discount=problem.discount)


def certain_policies(task: Task) -> list[Floats]:
    """Return the policies of the flattened problem, in the order of `task.tables`: each slot takes its own action with probability
    1.

    Their shape is (S, slots), or (slots of the agent, S, slots) if the agent's policy varies.
    """
    slots = int(task.layout.n_slots.sum())
    result = []
    for first, n, varies in zip(task.layout.first_slot, task.layout.n_slots, task.table_varies, strict=True):
        policy = np.repeat(np.eye(slots)[first : first + n][:, None, :], task.n_states, axis=1)
        result.append(policy[0] if varies is None else policy)
    return result


def slot_names(task: Task) -> Sequence[str]:
    """Return a name for each slot of a task: the agent's, with a number if it has several."""
    names: list[str] = []
    for name, n in zip(task.tables, task.layout.n_slots, strict=True):
        names += [name] if n == 1 else [f"{name} {i}" for i in range(n)]
    return names
