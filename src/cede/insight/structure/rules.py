"""Rules of the environment: one tree for each feature of the next state, and the `Outcomes` that they declare together.

Places (s, a) that reach the same leaves are one case. An outcome is a label in each leaf: a value, a change, or a certain outcome.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from cede._base.arrays import Ints
from cede.beliefs.transition_trees import (
    MOST_OUTCOMES,
    Moves,
    TransitionTrees,
    compressed,
    draw_all,
    grow_for_each_feature,
    states_with,
    steps_for,
)
from cede.beliefs.trees import (
    Leaf,
    RuleData,
    Split,
    Tree,
    Variable,
    certain_first,
    counts_by,
    grow,
    grow_from,
    leaves,
    route,
    score,
)
from cede.insight.structure.checking import homogeneity
from cede.problem.features import Features
from cede.problem.structure import Outcomes
from cede.problem.task import Task

DOUBTED = 0.1  # p-value below which values of a feature are said to depend on its value before
DRAWS = 2000  # random tables to test whether places of a leaf differ


def find_rule(data: RuleData, variables: Sequence[Variable], number: Iterator[int], enough: int, start: int = -1) -> Tree:
    """Grow the tree of one feature, certain leaves first (`certain_first`).

    enough: visits from which on a leaf counts as certain. start: a variable that is also tried as the first test, since a greedy
    search may miss effects of the action together with a feature. The tree with the higher `score` is returned.
    """
    trees = [grow(data, variables, number)]
    if start >= 0 and isinstance(trees[0], Split):
        trees.append(grow_from(data, variables, number, start))
    trees = [certain_first(data, variables, number, enough, first) for first in trees]
    return max(trees, key=lambda tree: score(tree, float(data.visits.sum()), len(variables)))


def find_transition_rules(
    features: Features, variables: tuple[Variable, ...], moves: Moves, enough: int, n_actions: int
) -> TransitionTrees:
    """Find a rule for each feature of the next state."""
    number = count()

    def data(f: int, drawn: tuple[int, ...]) -> RuleData:
        return steps_for(features, moves, n_actions, f, drawn)

    def find(steps: RuleData) -> Tree:
        return find_rule(steps, variables, number, enough, start=len(features.names))

    return grow_for_each_feature(features, variables, data, find, find)


def each_rule(rules: TransitionTrees, moves: Moves, n_actions: int) -> list[tuple[int, Tree, RuleData]]:
    """Return (feature, tree, data for that tree), in the order in which features are drawn."""
    drawn = [rules.order[:i] for i in range(len(rules.order))]
    return [
        (f, rules.trees[f], steps_for(rules.features, moves, n_actions, f, before))
        for f, before in zip(rules.order, drawn, strict=True)
    ]


def with_leaves(tree: Tree, new: dict[int, Leaf]) -> Tree:
    """Return a tree in which some leaves are replaced, by number."""
    if isinstance(tree, Leaf):
        return new.get(tree.number, tree)
    return replace(tree, children=tuple(with_leaves(child, new) for child in tree.children))


def predicted(tree: Tree, data: RuleData, n_values: int) -> float:
    """Return the log-likelihood that a tree gives to steps that it was not grown from.

    1/2 is added to each count, and for a new outcome. n_values: how many values are possible. A step that reaches no leaf has the
    uniform distribution over them.
    """
    at = route(tree, data.given)
    total = -float(data.visits[at < 0].sum()) * math.log(n_values)
    for leaf in leaves(tree):
        here = data.part(at == leaf.number)
        label = here.copies[:, leaf.copied] - 2 if leaf.kind == "copy" else here.labels(leaf.kind)
        known = np.searchsorted(leaf.labels, label).clip(0, len(leaf.labels) - 1)
        n = leaf.counts.sum() + (len(leaf.labels) + 1) / 2
        chance = np.where(leaf.labels[known] == label, (leaf.counts[known] + 0.5) / n, 0.5 / n / n_values)
        total += float((here.visits * np.log(chance)).sum())
    return total


# ------------------------------------------------------------------------------------------------- what a rule allows


def completed(rules: TransitionTrees, train: Moves, more: Moves, enough: int, n_actions: int, alpha: float) -> TransitionTrees:
    """Return rules whose leaves allow all possible outcomes, with `apart` set where places of a leaf still differ.

    An outcome that does not occur in a leaf may be rare, so a leaf that is not certain allows all outcomes of all such leaves of
    its rule. A leaf is certain only after enough visits. train: steps in which the rules were found. more: other steps, whose
    outcomes are allowed too. alpha: level of the tests whether places differ.
    """
    rng, trees = np.random.default_rng(0), list(rules.trees)
    held_back = each_rule(rules, more, n_actions)
    for (f, tree, data), (_, _, others) in zip(each_rule(rules, train, n_actions), held_back, strict=True):
        possible, before = possible_changes(rules.features, f, tree, train.state), rules.features.codes[train.state, f]
        checked = set_apart(tree, data, possible, before, rng, alpha / len(trees))
        at, values, family = route(tree, others.given), np.unique(rules.features.codes[:, f]), leaves(checked)
        new = {leaf.number: widened(leaf, others.part(at == leaf.number), enough, values, family) for leaf in family}
        trees[f] = with_leaves(checked, new)
    return replace(rules, trees=tuple(trees))


def possible_changes(features: Features, f: int, tree: Tree, states: Ints) -> Ints:
    """Return a number for each state; it is equal for states in which the same changes of a rule lead to existing values."""
    changes = np.unique(np.concatenate([np.empty(0, np.int64), *(leaf.labels for leaf in leaves(tree) if leaf.kind == "change")]))
    values = features.numbers[features.codes[:, f]]
    return compressed(np.isin(values[states][:, None] + changes, values).astype(np.int64))


def set_apart(tree: Tree, data: RuleData, possible: Ints, before: Ints, rng: np.random.Generator, alpha: float) -> Tree:
    """Set `apart` in the leaves whose places differ (tests of homogeneity, corrected for their number).

    possible: (rows,) as `possible_changes` returns it; rows with different numbers are never one case and are not compared. before:
    (rows,) codes of the feature before the step. Values of a number usually depend on it, so the level of that test is DOUBTED.
    """
    at, doubtful = route(tree, data.given), [leaf for leaf in leaves(tree) if not leaf.certain]
    new = {}
    for leaf in doubtful:
        groups = possible if leaf.kind == "change" else np.zeros_like(possible)
        for group in np.unique(groups[at == leaf.number]):
            which = (at == leaf.number) & (groups == group)
            here = data.part(which)
            label = here.labels(leaf.kind)
            differ = homogeneity(counts_by(here.place, label, here.visits), DRAWS, rng) < alpha / len(doubtful)
            if leaf.kind == "value" and data.change is not None:
                differ = differ or homogeneity(counts_by(before[which], label, here.visits), DRAWS, rng) < DOUBTED
            if differ:
                new[leaf.number] = replace(leaf, apart=True)
    return with_leaves(tree, new)


def widened(leaf: Leaf, others: RuleData, enough: int, values: Ints, family: Sequence[Leaf]) -> Leaf:
    """Return a leaf that allows the outcomes of other steps, too. values: all of the feature. family: all leaves of the tree.

    A copy that other steps contradict allows all values, and its places are set apart.
    """
    visits = leaf.visits + others.visits.sum()
    if leaf.kind == "copy":
        if others.copies[:, leaf.copied].all() and visits >= enough:
            return leaf
        counts = np.full(len(values), leaf.visits / len(values))
        return replace(leaf, kind="value", copied=-1, labels=values, counts=counts, apart=True)
    labels = np.union1d(leaf.labels, others.labels(leaf.kind))
    if visits < enough or len(labels) > 1:
        similar = [other.labels for other in family if other.kind == leaf.kind and (not other.certain or other.visits < enough)]
        labels = np.unique(np.concatenate([labels, *similar]))
    if visits < enough and leaf.kind == "value":
        labels = np.union1d(labels, values)
    counts = np.zeros(len(labels))
    counts[np.searchsorted(labels, leaf.labels)] = leaf.counts
    return replace(leaf, labels=labels, counts=counts)


# ------------------------------------------------------------------------------------------------- rules -> Outcomes


def outcomes_of(task: Task, rules: TransitionTrees) -> Outcomes | None:
    """Return the Outcomes that rules declare; None if there are too many.

    A place in which a rule tests a value without data is a separate case with all states as outcomes. Terminal states are one case:
    they stay.
    """
    n, places = task.n_states, np.flatnonzero(np.repeat(~task.is_terminal, task.n_actions))
    drawn = draw_all(rules, places, task.n_actions)
    if drawn is None:
        return None
    place, codes, met, _ = drawn
    to = states_with(rules.features, codes)
    unknown = np.union1d(place[(codes < 0).any(axis=1)], np.setdiff1d(places, place[to >= 0]))
    known = (to >= 0) & ~np.isin(place, unknown)
    place, to, outcome = place[known], to[known], compressed(met[known])
    order = np.lexsort((outcome, place))
    place, to, outcome = place[order], to[order], outcome[order]
    case_of: dict[bytes, int] = {b"end": 0}
    width = max(int(np.bincount(place).max(initial=1)), n if len(unknown) else 1)
    if width * n * task.n_actions > MOST_OUTCOMES:
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
