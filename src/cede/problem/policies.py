"""Checks of policies: of agents, which choose actions, and of a team, which choose agents."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cede._base import check
from cede._base.arrays import Floats, Policy, for_kernels
from cede.problem.layout import VariesWith
from cede.problem.names import name_index

if TYPE_CHECKING:
    from cede.problem.task import Task

LETTERS = {None: "(S, A)", "time": "(L, S, A)", "prev_agent": "(D, S, A)"}


def checked_policy(owner: str, policy: ArrayLike, varies_with: VariesWith, shape: Sequence[int] | None = None) -> Floats:
    """Check an agent's policy and return it as a read-only float array, (S, A), (L, S, A) or (D, S, A) by `varies_with`.

    owner: named in the error. shape: the required shape; None: any sizes.
    """
    letters = LETTERS[varies_with]
    sides = shape if shape is not None else (None,) * (2 if varies_with is None else 3)
    return check.probabilities(owner, "policy", policy, sides, letters)


def known_policies(owner: str, task: "Task", policies: Mapping[str, ArrayLike]) -> dict[int, Floats]:
    """Check policies that are given by name; return them by their index among `tables`, each as (slots, S, A)."""
    result: dict[int, Floats] = {}
    for name, policy in check.mapping(owner, "known_agents", policies, "policies by the agents' names").items():
        check.name(owner, "an agent of known_agents", name)
        table = name_index(owner, "an agent of known_agents", name, task.tables)
        shape = task.slot_shape(table)
        checked = checked_policy(f"{owner}, known agent {name!r}", policy, task.table_varies[table], shape)
        result[table] = checked.reshape(-1, task.n_states, task.n_actions)
    return result


def names_one_agent(given: Any) -> bool:
    """Return whether a value is the index or name of an agent, not a policy or a Plan."""
    return check.ndim(given) == 0 and not hasattr(given, "policy") and not hasattr(given, "policies")


def policy_of_rule(task: "Task", rule: Any) -> NDArray[np.int16]:
    """Return the policy of a rule; see `Task.rule`."""
    owner, call = "Task.rule", check.function("Task.rule", "rule", rule)
    ways = np.stack([np.broadcast_to(task.ways_to(m), (task.n_states, task.n_agents)) for m in range(len(task.members))])
    states = task.state_names or range(task.n_states)
    result = np.empty((task.plan_steps, task.n_states, task.n_agents), dtype=np.int16)
    for t, (s, state) in ((t, each) for t in range(task.plan_steps) for each in enumerate(states)):
        for member, name in enumerate(task.members):
            wanted = member  # where an episode ends nobody acts
            if not task.is_terminal[s]:
                answer = call(state, name) if task.horizon is None else call(t, state, name)
                wanted = one_member(owner, f"the member that the rule gives in state {state!r} after {name!r}", answer, task)
            here = task.layout.aim == member
            result[t, s, here] = ways[wanted, s, here]
    return result.reshape(task.policy_shape)


def one_member(owner: str, place: str, answer: Any, task: "Task") -> int:
    """Return the index of a member of the team, given its index or name."""
    if isinstance(answer, str):
        return name_index(owner, place, answer, task.members)
    return check.index(owner, place, answer, len(task.members))


def checked_switching_policy(owner: str, task: "Task", policy: Any, argument: str = "policy") -> Policy:
    """Check a switching policy, (L, S, D), or (S, D) without a horizon, or a Plan; return it as (L, S, D) int16, L = 1 without a
    horizon.

    argument: its name in errors.
    """
    if hasattr(policy, "policies"):
        expected = "one policy: of a Mixture one is drawn for each episode (mixture.draw), and mixture.cost is what that costs"
        check.fail(owner, argument, f"a {type(policy).__name__}", expected)
    agents = check.unmasked(owner, argument, getattr(policy, "policy", policy))
    shape, letters = task.policy_shape, "(L, S, D)" if task.horizon is not None else "(S, D)"
    if agents is None or agents.dtype.kind == "O":
        check.fail(owner, argument, check.show(policy), f"an array of integers of shape {letters} = {shape}")
    if agents.dtype.kind not in "iu":
        check.fail(owner, f"the type of {argument}", agents.dtype, f"an integer type: agents, of shape {letters} = {shape}")
    if agents.shape != shape:
        check.fail(owner, f"the shape of {argument}", agents.shape, f"{letters} = {shape}")
    bad = np.argwhere((agents < 0) | (agents >= task.n_agents))
    if len(bad):
        place = check.place_of(argument, bad[0])
        check.fail(owner, place, agents[tuple(bad[0])], f"an agent from 0 to {task.n_agents - 1}")
    possible = task.can_choose
    if not possible.all():
        states = np.arange(task.n_states)[:, None] if len(possible) > 1 else 0
        barred = ~possible[states, np.arange(task.n_agents), agents]
        barred[..., task.is_terminal, :] = False  # no agent acts there
        if barred.any():
            where = np.argwhere(barred)[0]
            there = "" if possible[:, where[-1], agents[tuple(where)]].sum() == 0 else " in this state"
            expected = f"an agent to whom {task.agents[where[-1]]!r} can hand control{there}"
            check.fail(
                owner, check.place_of(argument, where), f"{agents[tuple(where)]} ({task.agents[agents[tuple(where)]]!r})", expected
            )
    return for_kernels(agents.reshape(-1, *shape[-2:]))
