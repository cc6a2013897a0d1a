"""Trees over features of the states: one for each feature of the next state, and one for the actions of an agent.

The features of the next state are drawn one after the other. The tree of each may test features of the state, the action, and
features of the next state that were drawn before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base.arrays import Floats, Ints
from cede.beliefs.trees import FIRST, Leaf, RuleData, Tree, Variable, leaves, route, unexplained
from cede.problem.features import Features

MOST_OUTCOMES = 20_000_000  # of all places together
HALF = 0.5  # added to each count of a leaf


@dataclass(frozen=True, eq=False)
class Moves:
    """Steps of the environment; equal steps are one row."""

    state: Ints  # (n,)
    action: Ints  # (n,)
    to: Ints  # (n,) the next state
    visits: Floats  # (n,)


def moves_of(environment: sp.csr_array, n_actions: int) -> Moves:
    """Return the steps that were counted. environment: (S * A, S) counts."""
    entries = sp.coo_array(environment)
    state, action = np.divmod(entries.coords[0].astype(np.int64), n_actions)
    return Moves(state, action, entries.coords[1].astype(np.int64), entries.data.astype(np.float64))


@dataclass(frozen=True, eq=False)
class TransitionTrees:
    """A tree for each feature of the next state."""

    features: Features
    variables: tuple[Variable, ...]  # see `variables_of`
    order: tuple[int, ...]  # (F,) in which the features of the next state are drawn
    trees: tuple[Tree, ...]  # (F,) by feature


def variables_of(features: Features, action_names: Sequence[str]) -> tuple[Variable, ...]:
    """Return all variables: features of the state, the action, features of the next state, which of them stayed."""
    now = state_variables(features)
    then = [replace(variable, name=f"{variable.name}'") for variable in now]
    stayed = [Variable(f"{name}'", (f"not {name}", name)) for name in features.names]
    return (*now, Variable("the action", tuple(action_names)), *then, *stayed)


def state_variables(features: Features) -> list[Variable]:
    """Return the features of the state as variables."""
    return [Variable(name, features.values, numeric) for name, numeric in zip(features.names, features.numeric, strict=True)]


def given_by(before: Ints, action: Ints, after: Ints, drawn: Sequence[int]) -> Ints:
    """Return the codes of all variables, (rows, variables), of steps from features `before` to `after`, (rows, F) each.

    drawn: features of the next state that are known. All others have the code 0, so that no test can split by them.
    """
    known = np.isin(np.arange(before.shape[1]), list(drawn))
    return np.concatenate([before, action[:, None], np.where(known, after, 0), known & (before == after)], axis=1)


def steps_for(features: Features, moves: Moves, n_actions: int, f: int, drawn: Sequence[int]) -> RuleData:
    """Return the steps as data for the tree of feature f. drawn: features of the next state that it may test."""
    before, after = features.codes[moves.state], features.codes[moves.to]
    codes = given_by(before, moves.action, after, drawn)
    change = None
    if features.numeric[f]:
        change = (features.numbers[after[:, f]] - features.numbers[before[:, f]]).astype(np.int64)
    return RuleData(codes, after[:, f], change, before == after[:, [f]], moves.state * n_actions + moves.action, moves.visits)


def acts_of(features: Features, counts: sp.csr_array) -> RuleData:
    """Return the actions of an agent as data for a tree over features and slot. counts: (slots * S, A)."""
    entries = sp.coo_array(counts)
    place, action = (column.astype(np.int64) for column in entries.coords)
    slot, state = np.divmod(place, len(features.codes))
    codes = np.concatenate([features.codes[state], slot[:, None]], axis=1)
    return RuleData(codes, action, None, np.zeros((len(place), 0), dtype=bool), place, entries.data.astype(np.float64))


def grow_for_each_feature(
    features: Features,
    variables: tuple[Variable, ...],
    data: Callable[[int, tuple[int, ...]], RuleData],
    first: Callable[[RuleData], Tree],
    best: Callable[[RuleData], Tree],
) -> TransitionTrees:
    """Grow a tree for each feature of the next state.

    data: returns the steps for the tree of a feature, given the features that were drawn before. first: grows trees that test state
    and action only; the features that these explain best are drawn first. best: grows the trees that are returned.
    """
    shares = []
    for f in range(len(features.names)):
        steps = data(f, ())
        shares.append(unexplained(steps, first(steps)))
    order = tuple(int(f) for f in np.argsort(shares, kind="stable"))
    trees: dict[int, Tree] = {}
    for f in order:
        trees[f] = best(data(f, tuple(trees)))
    return TransitionTrees(features, variables, order, tuple(trees[f] for f in range(len(order))))


def draw_all(rules: TransitionTrees, places: Ints, n_actions: int, least: float = 0.0) -> tuple[Ints, Ints, Ints, Floats] | None:
    """Return all outcomes of places s * A + a: (place, codes of the next state's features, leaves and labels, probability).

    Leaves and labels are two columns for each feature; certain outcomes have the same in all leaves. A code is -1 where a tree has
    never seen a value. Outcomes that are less likely than `least` are left out; None if there are too many.
    """
    features, place, chance = rules.features, places, np.ones(len(places))
    codes, met = np.full((len(places), len(features.names)), -1, dtype=np.int64), np.empty((len(places), 0), dtype=np.int64)
    for i, f in enumerate(rules.order):
        before, drawn = features.codes[place // n_actions], list(rules.order[:i])
        at = route(rules.trees[f], given_by(before, place % n_actions, np.maximum(codes, 0), drawn))
        at[(codes[:, drawn] < 0).any(axis=1)] = -1
        silent = np.flatnonzero(at < 0)
        parts = [(silent, np.full(len(silent), -1), np.full((len(silent), 2), -9), chance[silent])]
        for leaf in leaves(rules.trees[f]):
            here, p = np.flatnonzero(at == leaf.number), (leaf.counts + HALF) / (leaf.counts + HALF).sum()
            rows, label = np.repeat(here, len(leaf.labels)), np.tile(leaf.labels, len(here))
            code, likely = codes_after(features, f, leaf, before[rows], label), chance[rows] * np.tile(p, len(here))
            name = np.full(len(rows), leaf.number) if not leaf.apart else -10 - place[rows]
            both = np.stack([name, label], axis=1) if not leaf.certain else np.full((len(rows), 2), FIRST)
            likely_enough = (code >= 0) & (likely >= least)
            parts.append((rows[likely_enough], code[likely_enough], both[likely_enough], likely[likely_enough]))
        rows, new, last, chance = (np.concatenate(column) for column in zip(*parts, strict=True))
        if len(rows) > MOST_OUTCOMES:
            return None
        place, codes, met = place[rows], codes[rows], np.concatenate([met[rows], last], axis=1)
        codes[:, f] = new
    return place, codes, met, chance


def codes_after(features: Features, f: int, leaf: Leaf, before: Ints, label: Ints) -> Ints:
    """Return the code of feature f after steps with these labels in a leaf, (rows,); -1: no such value. before: (rows, F)."""
    if leaf.kind == "copy":
        result: Ints = before[:, leaf.copied]
        return result
    if leaf.kind == "value":
        return label
    numbers = features.numbers
    codes = np.argsort(numbers)[: int(np.isfinite(numbers).sum())]  # of numbers, ascending; words are NaN and come last
    new = numbers[before[:, f]] + label
    place = np.searchsorted(numbers[codes], new).clip(0, len(codes) - 1)
    return np.where(numbers[codes[place]] == new, codes[place], -1)


def states_with(features: Features, codes: Ints) -> Ints:
    """Return the state that has these features, (rows,); -1: none. codes: (rows, F)."""
    n = len(features.codes)
    number = compressed(np.concatenate([features.codes, codes]))
    state = np.full(int(number.max()) + 1, -1)
    state[number[:n]] = np.arange(n)
    return state[number[n:]]


def compressed(columns: Any) -> Ints:
    """Return a number for each row of a table of integers, (rows, columns); equal rows have equal numbers."""
    result = np.zeros(len(columns), dtype=np.int64)
    for column in columns.T:
        _, code = np.unique(column, return_inverse=True)
        _, result = np.unique(result * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    return result
