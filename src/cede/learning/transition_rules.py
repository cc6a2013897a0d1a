"""Finds what the next state depends on: one rule for each feature of it, and the Outcomes that the rules together amount to.

The features of the next state are drawn one after the other. The rule of each may ask for features of the state, for the action,
and for features of the next state that were drawn before. Places (s, a) that meet the same leaves on all ways are one case. An
outcome is what came in each leaf: a value, a change, or the one thing that was certain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import scipy.sparse as sp

from cede._base.arrays import Floats, Ints
from cede.learning.features import Features
from cede.learning.rules import (
    FIRST,
    Leaf,
    Steps,
    Tree,
    Variable,
    counts_by,
    find_rule,
    leaves,
    loglik,
    predicted,
    route,
    set_apart,
    with_leaves,
)
from cede.problem.structure import Outcomes
from cede.problem.task import Task

MOST = 20_000_000  # outcomes of all places together; with more, no structure is suggested


@dataclass(frozen=True, eq=False)
class Moves:
    """Steps of the environment, each kind once."""

    state: Ints  # (n,)
    action: Ints  # (n,)
    to: Ints  # (n,) the next state
    visits: Floats  # (n,)


def moves_of(environment: sp.csr_array, n_actions: int) -> Moves:
    """Return the steps that were counted. environment: (S * A, S) counts."""
    found = sp.coo_array(environment)
    state, action = np.divmod(found.coords[0].astype(np.int64), n_actions)
    return Moves(state, action, found.coords[1].astype(np.int64), found.data.astype(np.float64))


@dataclass(frozen=True, eq=False)
class TransitionRules:
    """A rule for each feature of the next state."""

    features: Features
    variables: tuple[Variable, ...]  # what rules may ask for, as `variables_of` lists it
    order: tuple[int, ...]  # (F,) in which features of the next state are drawn
    trees: tuple[Tree, ...]  # (F,) by feature


def variables_of(features: Features, action_names: Sequence[str]) -> tuple[Variable, ...]:
    """Return all that a rule may ask for: features of the state, the action, features of the next state, which of them stayed."""
    now = [Variable(name, features.values, numeric) for name, numeric in zip(features.names, features.numeric, strict=True)]
    then = [replace(variable, name=f"{variable.name}'") for variable in now]
    stayed = [Variable(f"{name}'", (f"not {name}", name)) for name in features.names]
    return (*now, Variable("the action", tuple(action_names)), *then, *stayed)


def given_by(before: Ints, action: Ints, after: Ints, drawn: Sequence[int]) -> Ints:
    """Return the codes of all variables, (rows, variables), of steps from features `before` to `after`, (rows, F) each.

    drawn: features of the next state that are known; the others are all the same, so that no test can tell anything from them.
    """
    known = np.isin(np.arange(before.shape[1]), list(drawn))
    return np.concatenate([before, action[:, None], np.where(known, after, 0), known & (before == after)], axis=1)


def steps_for(features: Features, moves: Moves, n_actions: int, f: int, drawn: Sequence[int]) -> Steps:
    """Return the steps as the rule of feature f sees them. drawn: features of the next state that it may ask for."""
    before, after = features.codes[moves.state], features.codes[moves.to]
    given = given_by(before, moves.action, after, drawn)
    change = None
    if features.numeric[f]:
        change = (features.numbers[after[:, f]] - features.numbers[before[:, f]]).astype(np.int64)
    return Steps(given, after[:, f], change, before == after[:, [f]], moves.state * n_actions + moves.action, moves.visits)


def find_transition_rules(
    features: Features, variables: tuple[Variable, ...], moves: Moves, enough: int, n_actions: int
) -> TransitionRules:
    """Find a rule for each feature of the next state.

    Those that are best explained by the state and the action come first, and the others may then ask for them.
    """
    n, number = features.codes.shape[1], count()
    shares = []
    for f in range(n):
        steps = steps_for(features, moves, n_actions, f, ())
        tree = find_rule(steps, variables, number, enough, start=n)
        alone = float(loglik(counts_by(np.zeros_like(steps.value), steps.value, steps.visits))[0])
        left = sum(float(loglik(leaf.counts)) for leaf in leaves(tree))
        shares.append(left / alone if alone < 0 else 0.0)
    order = tuple(int(f) for f in np.argsort(shares, kind="stable"))
    trees: dict[int, Tree] = {}
    for f in order:
        trees[f] = find_rule(steps_for(features, moves, n_actions, f, tuple(trees)), variables, number, enough, start=n)
    return TransitionRules(features, variables, order, tuple(trees[f] for f in range(n)))


def each_rule(rules: TransitionRules, moves: Moves, n_actions: int) -> list[tuple[int, Tree, Steps]]:
    """Return (feature, tree, the steps as its rule sees them), in the order in which features are drawn."""
    drawn = [rules.order[:i] for i in range(len(rules.order))]
    return [
        (f, rules.trees[f], steps_for(rules.features, moves, n_actions, f, before))
        for f, before in zip(rules.order, drawn, strict=True)
    ]


def n_values(features: Features, f: int) -> int:
    """Return how many values a feature has."""
    return len(np.unique(features.codes[:, f]))


def prediction(rules: TransitionRules, moves: Moves, n_actions: int) -> Floats:
    """Return the log-likelihood that the rule of each feature gives to steps it was not found in, (F,)."""
    result = np.zeros(len(rules.trees))
    for f, tree, steps in each_rule(rules, moves, n_actions):
        result[f] = predicted(tree, steps, n_values(rules.features, f))
    return result


def completed(rules: TransitionRules, train: Moves, more: Moves, enough: int, n_actions: int, alpha: float) -> TransitionRules:
    """Return rules whose leaves allow for whatever may come. Leaves in which places still differ are set apart.

    That something never came in a leaf may have a cause that seldom fails, so a leaf that is not certain allows for all that came
    in any such leaf of the rule. What is certain must have been seen so in enough visits. more: steps that the rules were not found
    in; they are allowed for, too.
    """
    rng, trees = np.random.default_rng(0), list(rules.trees)
    seen = each_rule(rules, more, n_actions)
    for (f, tree, steps), (_, _, others) in zip(each_rule(rules, train, n_actions), seen, strict=True):
        possible, before = possible_changes(rules.features, f, tree, train.state), rules.features.codes[train.state, f]
        checked = set_apart(tree, steps, possible, before, rng, alpha / len(trees))
        at, new = route(tree, others.given), {}
        everything = np.unique(rules.features.codes[:, f])
        for leaf in leaves(checked):
            new[leaf.number] = widened(leaf, others.part(at == leaf.number), enough, everything, leaves(checked))
        trees[f] = with_leaves(checked, new)
    return replace(rules, trees=tuple(trees))


def possible_changes(features: Features, f: int, tree: Tree, states: Ints) -> Ints:
    """Return a number for each state, equal where the same of a rule's changes lead to values that exist."""
    changes = np.unique(np.concatenate([np.empty(0, np.int64), *(leaf.labels for leaf in leaves(tree) if leaf.kind == "change")]))
    values = features.numbers[features.codes[:, f]]
    reached = np.isin(values[states][:, None] + changes, values)
    return compressed(reached.astype(np.int64))


def widened(leaf: Leaf, others: Steps, enough: int, everything: Ints, family: Sequence[Leaf]) -> Leaf:
    """Return a leaf that allows for other steps, too. everything: all values. family: all leaves of the tree.

    A copy that other steps contradict allows for all values, and places are kept apart.
    """
    if leaf.kind == "copy":
        kept = bool(others.copies[:, leaf.copied].all())
        if kept and leaf.visits + others.visits.sum() >= enough:
            return leaf
        counts = np.zeros(len(everything))
        return replace(leaf, kind="value", copied=-1, labels=everything, counts=counts + leaf.visits / len(counts), apart=True)
    labels, visits = np.union1d(leaf.labels, others.labels(leaf.kind)), leaf.visits + others.visits.sum()
    if visits < enough or len(labels) > 1:
        similar = [other.labels for other in family if other.kind == leaf.kind and (not other.certain or other.visits < enough)]
        labels = np.unique(np.concatenate([labels, *similar]))
    if visits < enough and leaf.kind == "value":
        labels = np.union1d(labels, everything)
    counts = np.zeros(len(labels))
    counts[np.searchsorted(labels, leaf.labels)] = leaf.counts
    return replace(leaf, labels=labels, counts=counts)


def compressed(columns: Ints) -> Ints:
    """Return a number for each row of a table of integers, (rows, columns); equal rows get the same one."""
    result = np.zeros(len(columns), dtype=np.int64)
    for column in columns.T:
        _, code = np.unique(column, return_inverse=True)
        _, result = np.unique(result * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    return result


def outcomes_of(task: Task, rules: TransitionRules) -> Outcomes | None:
    """Return the Outcomes that rules amount to; None if there are too many.

    A place in which a rule says nothing, because it has a value that was never seen, is a case of its own with all states as
    outcomes. States in which episodes end are one case: they stay.
    """
    places = np.flatnonzero(np.repeat(~task.is_terminal, task.n_actions))
    drawn = draw_all(rules, places, task.n_actions)
    if drawn is None:
        return None
    place, codes, met = drawn
    n = task.n_states
    number = compressed(np.concatenate([rules.features.codes, codes]))
    state_of = np.full(int(number.max()) + 1, -1)
    state_of[number[:n]] = np.arange(n)
    to = state_of[number[n:]]
    unknown = np.union1d(place[(codes < 0).any(axis=1)], np.setdiff1d(places, place[to >= 0]))
    kept = (to >= 0) & ~np.isin(place, unknown)
    place, to, outcome = place[kept], to[kept], compressed(met[kept])
    order = np.lexsort((outcome, place))
    place, to, outcome = place[order], to[order], outcome[order]
    case_of: dict[bytes, int] = {b"end": 0}
    width = max(int(np.bincount(place).max(initial=1)), n if len(unknown) else 1)
    if width * n * task.n_actions > MOST:
        return None
    case, table = np.zeros(n * task.n_actions, dtype=np.int64), np.full((n * task.n_actions, width), -1, dtype=np.int64)
    table[:, 0] = np.repeat(np.arange(n), task.n_actions)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    for begin, end in zip(starts, [*starts[1:], len(place)], strict=True):
        here = int(place[begin])
        case[here] = case_of.setdefault(outcome[begin:end].tobytes(), len(case_of))
        table[here] = -1
        table[here, : end - begin] = to[begin:end]
    case[unknown] = len(case_of) + np.arange(len(unknown))
    if len(unknown):
        table[unknown] = np.append(np.arange(n), np.full(width - n, -1))
    return Outcomes.of(case.reshape(n, -1), table.reshape(n, task.n_actions, width))


def draw_all(rules: TransitionRules, places: Ints, n_actions: int) -> tuple[Ints, Ints, Ints] | None:
    """Return all that may come in each place: (place, codes of the next state's features, what was met); None if it is too much.

    The last has two columns for each feature: the leaf and the label. What is certain is the same in all certain leaves. A code is
    -1 where a rule says nothing.
    """
    features, n_features = rules.features, rules.features.codes.shape[1]
    numbers = features.numbers
    code_of = {value: code for code, value in enumerate(features.values) if isinstance(value, int)}
    place, codes, met = places, np.full((len(places), n_features), -1, dtype=np.int64), np.empty((len(places), 0), dtype=np.int64)
    for i, f in enumerate(rules.order):
        before, drawn = features.codes[place // n_actions], list(rules.order[:i])
        at = route(rules.trees[f], given_by(before, place % n_actions, np.maximum(codes, 0), drawn))
        at[(codes[:, drawn] < 0).any(axis=1)] = -1
        parts = [(np.flatnonzero(at < 0), np.full(int((at < 0).sum()), -1), np.full((int((at < 0).sum()), 2), -9))]
        for leaf in leaves(rules.trees[f]):
            here = np.flatnonzero(at == leaf.number)
            rows, label = np.repeat(here, len(leaf.labels)), np.tile(leaf.labels, len(here))
            if leaf.kind == "copy":
                code = before[rows, leaf.copied]
            elif leaf.kind == "value":
                code = label
            else:
                new = numbers[before[rows, f]] + label
                code = np.array([code_of.get(int(value), -1) for value in new], dtype=np.int64)
                rows, label, code = rows[code >= 0], label[code >= 0], code[code >= 0]
            name = np.full(len(rows), leaf.number) if not leaf.apart else -10 - place[rows]
            both = np.stack([name, label], axis=1)
            parts.append((rows, code, both if not leaf.certain else np.full_like(both, FIRST)))
        rows = np.concatenate([part[0] for part in parts])
        if len(rows) > MOST:
            return None
        place, codes = place[rows], codes[rows]
        codes[:, f] = np.concatenate([part[1] for part in parts])
        met = np.concatenate([met[rows], np.concatenate([part[2] for part in parts])], axis=1)
    return place, codes, met
