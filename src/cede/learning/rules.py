"""Finds rules in steps: a small tree of tests that tells which steps have one distribution of what comes.

A leaf says what comes in one of three ways: values, changes of a number (old value + change), or a copy of a feature of the state.
A tree is grown test by test. Of all tests in a node that one is taken whose gain in log-likelihood is least likely to be chance:
G = 2 (log-likelihood of the children - that of the node) against chi-squared with (children - 1)(labels - 1) degrees of freedom, as
CHAID does (Kass 1980), corrected for the number of tests tried (Bonferroni). Branches of one test that do not differ are joined.

Leaves where all is certain are taken out first, and one tree is grown for all the rest together. So a rule reads "a wall where ...;
elsewhere it depends on the traffic", and what is alike elsewhere is found alike though other tests were needed to tell it from the
wall.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from cede._base.arrays import Floats, Ints
from cede.learning.structure_check import homogeneity

SPLIT = 0.001  # p-value, corrected for all tests tried in a node, below which a node is split
JOIN = 0.05  # p-value above which two branches of one test are joined
CHANGE = 10.0  # nats by which values must describe a number better than changes do
FIRST = -1  # the label of what is certain: a copy, or the only value or change


@dataclass(frozen=True, eq=False)
class Variable:
    """Something that a test may ask for: a feature of the state or of the next state, or the action."""

    name: str
    values: tuple[Any, ...]  # by code, for texts
    numeric: bool = False


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps to find a rule in, each row a kind of step that was seen n times."""

    given: Ints  # (rows, variables) codes of what tests may ask for
    value: Ints  # (rows,) what came, a code
    change: Ints | None  # (rows,) by how much a number changed; None if it is no number
    copies: NDArray[np.bool_]  # (rows, features) whether what came is what each feature of the state was
    place: Ints  # (rows,) a number for each place
    visits: Floats  # (rows,) how often it was seen

    def part(self, which: Any) -> "Steps":
        """Return some of the rows."""
        change = None if self.change is None else self.change[which]
        return Steps(self.given[which], self.value[which], change, self.copies[which], self.place[which], self.visits[which])

    def labels(self, kind: str) -> Ints:
        """Return the label of each row, (rows,), in leaves of a kind."""
        if kind == "change" and self.change is not None:
            return self.change
        return self.value if kind == "value" else np.full(len(self.value), FIRST)


@dataclass(frozen=True, eq=False)
class Leaf:
    """Where one distribution holds."""

    number: int
    kind: str  # "value", "change", or "copy"
    copied: int  # the feature of the state that is copied; -1: none
    labels: Ints  # (k,) what may come: codes of values, or changes; a copy has one label, FIRST
    counts: Floats  # (k,) how often it came
    apart: bool = False  # whether places in it still differ, so that each must be learned by itself

    @property
    def visits(self) -> int:
        return int(self.counts.sum())

    @property
    def certain(self) -> bool:
        """Return whether only one thing may come."""
        return len(self.labels) == 1


@dataclass(frozen=True, eq=False)
class Split:
    """A test of one variable, and what to do in each case."""

    variable: int
    branch: Ints  # (codes of the variable,) the number of the branch; -1: a value that was never seen there
    says: tuple[str, ...]  # (branches,) each branch in words
    children: "tuple[Tree, ...]"


Tree = Leaf | Split


def loglik(table: Floats) -> Floats:
    """Return the highest log-likelihood that one distribution can give to counts along the last axis: sum n log(n / N)."""
    result: Floats = special.xlogy(table, table).sum(axis=-1) - special.xlogy(table.sum(axis=-1), table.sum(axis=-1))
    return result


def fit(tables: Sequence[Floats], matches: Floats) -> tuple[Floats, Ints, Ints]:
    """Return for each group of steps log-likelihood, number of labels and kind of the best leaf.

    tables: counts of values, and of changes if there are any, each (groups, labels). matches: (groups, features), how often what
    came was what the feature had been. Kinds: 0, 1 as in tables, 2 a copy. By BIC: log-likelihood - (labels - 1) / 2 log n. Where
    numbers change, values must be better than changes by CHANGE.
    """
    n = tables[0].sum(axis=-1)
    ways = [loglik(table) for table in tables]
    labels = [(table > 0).sum(axis=-1) for table in tables]
    scores = [way - (k - 1) / 2 * np.log(np.maximum(n, 2)) for way, k in zip(ways, labels, strict=True)]
    scores[0] = scores[0] - CHANGE * (len(tables) - 1)
    copies = (matches >= n[:, None]).any(axis=1) if matches.shape[1] else np.zeros(len(n), dtype=bool)
    best = np.argmax(np.stack(scores), axis=0)
    kind = np.where(copies & (np.stack(labels).min(axis=0) > 1), 2, best)
    pick = np.minimum(kind, len(tables) - 1)
    value = np.take_along_axis(np.stack(ways), pick[None], axis=0)[0]
    count = np.take_along_axis(np.stack(labels), pick[None], axis=0)[0]
    return np.where(kind == 2, 0.0, value), np.where(kind == 2, 1, count), kind


def log_p(statistic: Any, freedom: Any) -> Any:
    """Return the logarithm of the chi-squared p-value, by its asymptotic form where the p-value is too small for a float."""
    x, half = np.maximum(np.asarray(statistic, dtype=np.float64), 0) / 2, np.asarray(freedom, dtype=np.float64) / 2
    p = special.gammaincc(half, x)
    far = (half - 1) * np.log(np.maximum(x, 1e-300)) - x - special.gammaln(half)
    return np.where(p > 1e-290, np.log(np.maximum(p, 1e-300)), far)


@dataclass(frozen=True, eq=False)
class Table:
    """The steps of a node by the value of one variable: k values that occur."""

    codes: Ints  # (k,)
    tables: tuple[Floats, ...]  # (k, labels) counts of values, and of changes
    matches: Floats  # (k, features)

    def grouped(self, groups: Floats) -> tuple[Floats, Ints]:
        """Return log-likelihood and number of labels of groups of values. groups: (groups, k), 1 for the values of each."""
        value, labels, _ = fit([groups @ table for table in self.tables], groups @ self.matches)
        return value, labels


def table_of(steps: Steps, column: Ints) -> Table:
    """Count the steps by a variable; column: (rows,) its codes."""
    codes, row = np.unique(column, return_inverse=True)
    tables = []
    for labels in (steps.value, steps.change):
        if labels is not None:
            _, label = np.unique(labels, return_inverse=True)
            width = int(label.max()) + 1
            flat = np.bincount(row * width + label, weights=steps.visits, minlength=len(codes) * width)
            tables.append(flat.astype(np.float64).reshape(len(codes), width))
    matches = [np.bincount(row, weights=steps.visits * copy, minlength=len(codes)) for copy in steps.copies.T]
    return Table(codes, tuple(tables), np.stack(matches, axis=1) if matches else np.zeros((len(codes), 0)))


def candidate_groups(table: Table, variable: Variable) -> list[tuple[str, Floats]]:
    """Return the tests that may be tried on a variable: (kind, groups (branches, k)).

    Each value against the rest; for numbers, all up to a value against those above; for words, all values apart.
    """
    k = len(table.codes)
    result = [("is", np.stack([row, 1 - row])) for row in np.eye(k)[: k if k > 2 else k - 1]]
    if variable.numeric and k > 2:
        order = np.argsort([variable.values[code] for code in table.codes])
        below = [np.isin(np.arange(k), order[:i]).astype(np.float64) for i in range(1, k)]
        result += [("at most", np.stack([row, 1 - row])) for row in below]
    if not variable.numeric and k > 2:
        result.append(("apart", np.eye(k)))
    return result


def best_split(steps: Steps, variables: Sequence[Variable], split_at: float) -> tuple[int, str, Table, Floats] | None:
    """Return the test of a node that is least likely to be chance: (variable, kind, table, groups); None if all may be chance."""
    whole = table_of(steps, np.zeros(len(steps.value), dtype=np.int64))
    before, labels = (float(one[0]) for one in whole.grouped(np.ones((1, 1))))
    if before > -1e-9:
        return None
    tried, best, found = 0, 0.0, None
    for v, variable in enumerate(variables):
        table = table_of(steps, steps.given[:, v])
        if len(table.codes) < 2:
            continue
        tests = candidate_groups(table, variable)
        tried += len(tests)
        value, _ = table.grouped(np.concatenate([groups for _, groups in tests]))
        sizes = np.array([len(groups) for _, groups in tests])
        gains = np.add.reduceat(value, np.concatenate([[0], np.cumsum(sizes)[:-1]])) - before
        chances = log_p(2 * gains, (sizes - 1) * (labels - 1))
        i = int(np.argmin(chances))
        if found is None or chances[i] < best:
            best, found = float(chances[i]), (v, tests[i][0], table, tests[i][1])
    return found if found is not None and best + np.log(tried) < np.log(split_at) else None


def joined(table: Table, groups: Floats) -> Floats:
    """Join branches of a test that do not differ, the most similar ones first. groups: (branches, k)."""
    while len(groups) > 1:
        pairs = [(i, j) for i in range(len(groups)) for j in range(i)]
        alone, _ = table.grouped(groups)
        both, labels = table.grouped(np.stack([groups[i] + groups[j] for i, j in pairs]))
        gains = np.array([alone[i] + alone[j] for i, j in pairs]) - both
        chances = np.where(labels > 1, log_p(2 * gains, np.maximum(labels - 1, 1)), 0.0)
        most = int(np.argmax(chances))
        if chances[most] < np.log(JOIN):
            break
        i, j = pairs[most]
        groups = np.concatenate([np.delete(groups, (i, j), axis=0), (groups[i] + groups[j])[None]])
    return groups


def branch_words(variable: Variable, kind: str, sets: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """Return each branch of a test in words. sets: the codes of each branch."""
    names = [[str(variable.values[code]) for code in codes] for codes in sets]
    if kind == "at most":
        most = max(variable.values[code] for code in sets[0])
        return f"{variable.name} is at most {most}", f"{variable.name} is more than {most}"
    if kind == "is" and len(names[1]) > 1:
        return f"{variable.name} is {names[0][0]}", f"{variable.name} is not {names[0][0]}"
    return tuple(f"{variable.name} is {' or '.join(some)}" for some in names)


def grow(
    steps: Steps, variables: Sequence[Variable], number: Iterator[int], split_at: float = SPLIT, fewest_places: int = 0
) -> Tree:
    """Grow a tree. number: gives the numbers of the leaves. fewest_places: what holds fewer places is not divided further."""
    if fewest_places > 1 and len(np.unique(steps.place)) < fewest_places:
        return leaf_of(steps, next(number))
    found = best_split(steps, variables, split_at)
    if found is None:
        return leaf_of(steps, next(number))
    v, kind, table, groups = found
    if kind == "apart":
        groups = joined(table, groups)
    if len(groups) < 2:
        return leaf_of(steps, next(number))
    branch = np.full(len(variables[v].values), len(groups) - 1 if kind != "apart" else -1, dtype=np.int64)
    if kind == "at most":
        most = max(variables[v].values[code] for code in table.codes[groups[0] > 0])
        branch[[value <= most if isinstance(value, int) else False for value in variables[v].values]] = 0
    else:
        branch[table.codes] = np.argmax(groups, axis=0)
    says = branch_words(variables[v], kind, [table.codes[row > 0].tolist() for row in groups])
    side = branch[steps.given[:, v]]
    parts = [steps.part(side == i) for i in range(len(groups))]
    return Split(v, branch, says, tuple(grow(part, variables, number, split_at, fewest_places) for part in parts))


def leaf_of(steps: Steps, number: int) -> Leaf:
    """Return the leaf that fits some steps best."""
    whole = table_of(steps, np.zeros(len(steps.value), dtype=np.int64))
    kind = int(fit(whole.tables, whole.matches)[2][0])
    if kind == 2:
        copied = int(np.argmax(whole.matches[0] >= steps.visits.sum()))
        return Leaf(number, "copy", copied, np.array([FIRST]), np.array([steps.visits.sum()]))
    name = ("value", "change")[kind]
    labels, label = np.unique(steps.labels(name), return_inverse=True)
    return Leaf(number, name, -1, labels, np.bincount(label, weights=steps.visits).astype(np.float64))


def find_rule(steps: Steps, variables: Sequence[Variable], number: Iterator[int], enough: int, start: int = -1) -> Tree:
    """Find the rule of what comes: certain leaves first, and one tree for all the rest together.

    enough: visits from which on a leaf counts as certain. start: a variable to try as the first test, too; the action decides so
    much so often that a search step by step may go astray without it. The better of both trees by `score` is taken.
    """
    ways = [grow(steps, variables, number)]
    if start >= 0 and isinstance(ways[0], Split):
        ways.append(grow_from(steps, variables, number, start))
    trees = [certain_first(steps, variables, number, enough, first) for first in ways]
    return max(trees, key=lambda tree: score(tree, float(steps.visits.sum()), len(variables)))


def grow_from(steps: Steps, variables: Sequence[Variable], number: Iterator[int], start: int, fewest_places: int = 0) -> Tree:
    """Grow a tree whose first test tells all values of the variable `start` apart. The other arguments are those of `grow`."""
    codes = np.unique(steps.given[:, start])
    if len(codes) < 2:
        return grow(steps, variables, number, fewest_places=fewest_places)
    branch = np.full(len(variables[start].values), -1, dtype=np.int64)
    branch[codes] = np.arange(len(codes))
    parts = [grow(steps.part(steps.given[:, start] == code), variables, number, fewest_places=fewest_places) for code in codes]
    return Split(start, branch, branch_words(variables[start], "apart", [[int(code)] for code in codes]), tuple(parts))


def certain_first(
    steps: Steps, variables: Sequence[Variable], number: Iterator[int], enough: int, first: Tree, fewest_places: int = 0
) -> Tree:
    """Return a tree that keeps the certain leaves of a first one, and grows anew for all the rest together."""
    sure = {leaf.number for leaf in leaves(first) if leaf.certain and leaf.visits >= enough}
    rest = ~np.isin(route(first, steps.given), sorted(sure))
    if not sure or not rest.any():
        return first
    return grafted(first, sure, grow(steps.part(rest), variables, number, fewest_places=fewest_places))


def score(tree: Tree, n: float, n_variables: int) -> float:
    """Return the BIC of a tree: log-likelihood - half of log n for each free number. Each leaf costs the choice of a test, too."""
    found = leaves(tree)
    free = sum(len(leaf.labels) - 1 for leaf in found)
    return sum(float(loglik(leaf.counts)) for leaf in found) - free / 2 * math.log(n) - len(found) * math.log(2 * n_variables)


def grafted(tree: Tree, keep: set[int], other: Tree) -> Tree:
    """Return a tree with another one in the place of all leaves but those of some numbers."""
    if isinstance(tree, Leaf):
        return tree if tree.number in keep else other
    children = tuple(grafted(child, keep, other) for child in tree.children)
    return other if all(child is other for child in children) else replace(tree, children=children)


def leaves(tree: Tree) -> list[Leaf]:
    """Return the leaves of a tree, each once."""
    if isinstance(tree, Leaf):
        return [tree]
    return list({leaf.number: leaf for child in tree.children for leaf in leaves(child)}.values())


def route(tree: Tree, given: Ints) -> Ints:
    """Return the number of the leaf of each row, (rows,); -1 where a value was never seen. given: (rows, variables)."""
    result = np.full(len(given), -1, dtype=np.int64)
    if isinstance(tree, Leaf):
        result[:] = tree.number
        return result
    side = tree.branch[given[:, tree.variable]]
    for i, child in enumerate(tree.children):
        result[side == i] = route(child, given[side == i])
    return result


def with_leaves(tree: Tree, new: dict[int, Leaf]) -> Tree:
    """Return a tree with other leaves, given by their numbers."""
    if isinstance(tree, Leaf):
        return new.get(tree.number, tree)
    return replace(tree, children=tuple(with_leaves(child, new) for child in tree.children))


def used_variables(tree: Tree) -> set[int]:
    """Return the variables that a tree tests."""
    return set() if isinstance(tree, Leaf) else {tree.variable}.union(*(used_variables(child) for child in tree.children))


DOUBTED = 0.1
DRAWS = 2000  # tables drawn at random to test whether places of a leaf differ


def set_apart(tree: Tree, steps: Steps, possible: Ints, before: Ints, rng: np.random.Generator, alpha: float) -> Tree:
    """Mark the leaves in which places still differ (chi-squared tests of homogeneity, corrected for their number).

    possible: (rows,) a number for each set of changes that are possible. If these differ, rows are never one case, and are not
    compared. before: (rows,) what the feature was. That the value of a number does not depend on what it was is seldom true, and
    already given up at DOUBTED.
    """
    at, doubtful = route(tree, steps.given), [leaf for leaf in leaves(tree) if not leaf.certain]
    new = {}
    for leaf in doubtful:
        groups = possible if leaf.kind == "change" else np.zeros_like(possible)
        for one in np.unique(groups[at == leaf.number]):
            which = (at == leaf.number) & (groups == one)
            here = steps.part(which)
            label = here.labels(leaf.kind)
            differ = homogeneity(counts_by(here.place, label, here.visits), DRAWS, rng) < alpha / len(doubtful)
            if leaf.kind == "value" and steps.change is not None:
                differ = differ or homogeneity(counts_by(before[which], label, here.visits), DRAWS, rng) < DOUBTED
            if differ:
                new[leaf.number] = replace(leaf, apart=True)
    return with_leaves(tree, new)


def counts_by(place: Ints, label: Ints, visits: Floats) -> Floats:
    """Return a table of counts, (places, labels)."""
    (_, row), (_, column) = np.unique(place, return_inverse=True), np.unique(label, return_inverse=True)
    table = np.zeros((int(row.max()) + 1, int(column.max()) + 1))
    np.add.at(table, (row, column), visits)
    return table


def predicted(tree: Tree, steps: Steps, n_values: int) -> float:
    """Return the log-likelihood that a tree gives to steps it was not grown on; 1/2 is added to each count, and for what is new.

    n_values: how many values could come. A step that falls into no leaf is predicted as any of them.
    """
    at, total = route(tree, steps.given), 0.0
    total -= float(steps.visits[at < 0].sum()) * math.log(n_values)
    for leaf in leaves(tree):
        here = steps.part(at == leaf.number)
        label = steps.copies[at == leaf.number, leaf.copied] - 2 if leaf.kind == "copy" else here.labels(leaf.kind)
        known = np.searchsorted(leaf.labels, label).clip(0, len(leaf.labels) - 1)
        hit = leaf.labels[known] == label
        n = leaf.counts.sum() + (len(leaf.labels) + 1) / 2
        chance = np.where(hit, (leaf.counts[known] + 0.5) / n, 0.5 / n / n_values)
        total += float((here.visits * np.log(chance)).sum())
    return total
