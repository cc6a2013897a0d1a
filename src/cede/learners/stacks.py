"""Stacks of learners with the same settings, for shards and checkpoints: arrays by name, whose first axis is the team."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cede._base import check
from cede.beliefs.extras import Extras, check_extras, of_layer, stack_extras, unstack_extras
from cede.learners.state import ARRAYS, PLAN, Arrays, LearnerState, Names, Sizes, at_start, check_array, most_episodes
from cede.rows.places import AGENT, COSTS, ENVIRONMENT, START
from cede.rows.stored import Counts, LayerCounts, apart, below_one_another, check_layer, check_outcomes_counted, check_sums

STACKED = {"agents": AGENT, "environment": ENVIRONMENT, "costs": COSTS, "starts": START}  # layers of a stack of teams


def stack_states(sizes: Sizes, states: Sequence[LearnerState], names: Sequence[Names], keeps_plans: bool) -> Arrays:
    """Stack the states of n learners with the same settings: arrays by name, whose first axis is the team.

    names: of the agents of each team, `task.tables`. Counts and extras are concatenated; the array NAME_size, (n,), has the length
    of each team's part. keeps_plans: whether policy and value are included.
    """
    result: Arrays = {"planned": np.array([state.planned if keeps_plans else 0 for state in states], dtype=np.int64)}
    result["fresh"] = np.array([keeps_plans and state.must_use_plan for state in states], dtype=np.int64)
    for name in STACKED:
        seen = stacked_layers(sizes, states, names, name)
        result[f"{name}_size"] = np.array([len(layer.key) for layer in seen], dtype=np.int64)
        result[f"{name}_key"] = np.concatenate([layer.key for layer in seen])
        result[f"{name}_number"] = np.concatenate([layer.number for layer in seen])
    for declared in sizes.arrays + [declared for declared in ARRAYS if keeps_plans and declared.name in PLAN]:
        shape, arrays = declared.metadata["shape"](sizes), [getattr(state, declared.name) for state in states]
        if declared.name in PLAN:  # untouched zeros need no memory
            result[declared.name] = np.zeros((len(states), *shape), dtype=declared.metadata["dtype"])
            for i, array in enumerate(arrays):
                if states[i].has_plan:
                    result[declared.name][i] = array
        else:
            start = at_start(declared, sizes)
            result[declared.name] = np.stack([array if array.size else start for array in arrays])
    return result | stack_extras(sizes.extras, [state.extras for state in states])


def unstack_states(
    sizes: Sizes,
    stacked: Arrays,
    before: Sequence[LearnerState],
    names: Sequence[Names],
    episodes: int,
    own: int,
    shared: Collection[str] = (),
) -> list[LearnerState]:
    """Return the states of n learners from a stack, as `stack_states` makes it, after a run.

    before: the states before the run. names: of the agents of each team. episodes: number of episodes counted since. own: the
    number of those in the learner's own environment counts. shared: names of agents whose counts are elsewhere. Large arrays
    are not copied.
    """
    result = []
    ends = {name: stacked[f"{name}_size"].cumsum() for name in STACKED}
    extras = unstack_extras(sizes.extras, stacked, len(before))
    for i, state in enumerate(before):
        values: dict[str, Any] = {"extras": extras[i], **{declared.name: stacked[declared.name][i] for declared in sizes.arrays}}
        layers: dict[str, LayerCounts] = {}
        for name, end in ends.items():
            part = slice(end[i] - stacked[f"{name}_size"][i], end[i])
            key, number = stacked[f"{name}_key"][part].copy(), stacked[f"{name}_number"][part].copy()
            if name == "agents":
                parts = apart(LayerCounts(sizes.seen[name], key, number), sizes.places.agent_rows)
                layers |= {f"{AGENT}{agent}": part for agent, part in zip(names[i], parts, strict=True) if agent not in shared}
            elif len(key):
                layers[STACKED[name]] = LayerCounts(sizes.seen[name], key, number)
        if "value" in stacked and stacked["planned"][i] > 0:
            values |= {name: stacked[name][i] for name in PLAN}
            values |= {"planned": int(stacked["planned"][i]), "stale": not stacked["fresh"][i]}
        values["counts"] = Counts(layers, state.episodes + episodes, state.environment_episodes + own, state.counts.others_episodes)
        result.append(LearnerState(**values))
    return result


def stacked_layers(sizes: Sizes, states: Sequence[LearnerState], names: Sequence[Names], name: str) -> list[LayerCounts]:
    """Return a layer of each team, by its name in a stack; of all agents of a team together. names: of the agents of each team."""
    if name == "agents":
        return [
            below_one_another(state.counts.layers, sizes.places.of_agents(own)) for state, own in zip(states, names, strict=True)
        ]
    shape = {STACKED[name]: sizes.places.shapes[STACKED[name]]}
    return [below_one_another(state.counts.layers, shape) for state in states]


def part_of(stacked: Arrays, begin: int, end: int) -> Arrays:
    """Return the stack of the teams from begin to end."""
    result = {}
    for name, array in stacked.items():
        layer, _, part = name.rpartition("_")
        size = f"{layer}_size" if layer in STACKED and part in ("key", "number") else f"{name}_size"
        first, last = begin, end
        if size in stacked:
            ends = np.concatenate([[0], np.cumsum(stacked[size])])
            first, last = ends[begin], ends[end]
        result[name] = array[first:last]
    return result


def joined(stacks: Sequence[Arrays]) -> Arrays:
    """Return one stack of the teams of several stacks, in their order."""
    if len(stacks) == 1:
        return stacks[0]
    return {name: np.concatenate([stack[name] for stack in stacks]) for name in stacks[0]}


def check_stack(owner: str, sizes: Sizes, stacked: Arrays, n: int) -> None:
    """Check a stack of n states that comes from outside, before a kernel reads it."""
    for name, shape in sizes.seen.items():
        size, layer = stacked[f"{name}_size"], LayerCounts(shape, stacked[f"{name}_key"], stacked[f"{name}_number"])
        if size.dtype != np.int64 or size.shape != (n,) or (size < 0).any() or size.sum() != len(layer.key):
            check.fail(owner, f"the sizes of the counts of {name}", "torn", "one for each team, as many as there are counts")
        check_layer(owner, name, layer, np.repeat(np.arange(n), size))
        if name == ENVIRONMENT:
            check_outcomes_counted(owner, sizes.settings.outcomes, layer)
    for name, most in (("planned", most_episodes(sizes.task)), ("fresh", 1)):
        array = stacked[name]
        if array.dtype != np.int64 or array.shape != (n,) or (array < 0).any() or (array > most).any():
            check.fail(owner, name, "impossible", f"integers from 0 to {most}, one for each team")
    for i, (begin, end) in enumerate(pairwise([0, *np.cumsum(stacked["costs_size"]).tolist()])):
        if begin < end:
            layer = LayerCounts(sizes.shapes[COSTS], stacked["costs_key"][begin:end], stacked["costs_number"][begin:end])
            check_sums(f"{owner}, team {i}", layer)
    for declared in ARRAYS:
        if declared.name in stacked:
            check_array(owner, declared, stacked[declared.name], sizes, n)
    for extras in unstack_extras(sizes.extras, stacked, n):
        check_extras(owner, sizes.extras, extras)


def environment_extras(owner: str, sizes: Sequence[Sizes], extras: Extras) -> Extras:
    """Check the extras of a shared environment, and return them. sizes: of all its learners; undeclared extras are dropped."""
    declared = next((some.extras for some in sizes if some.extras), ())
    extras = of_layer(extras, "environment") if declared else {}
    check_extras(owner, declared, extras)
    return extras
