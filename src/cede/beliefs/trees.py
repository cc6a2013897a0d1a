"""Grows decision trees that group steps by the distribution of an outcome: a feature of the next state, or an action.

A leaf describes the outcome in one of three ways: values, changes of a number (new - old value), or a copy of a feature of the
state. A tree is grown test by test. In each node the test is chosen whose gain in log-likelihood is least likely to be chance:
G = 2 (log-likelihood of the children - that of the node) against chi-squared with (children - 1)(labels - 1) degrees of freedom, as
in CHAID (Kass 1980), with a Bonferroni correction for the number of tests tried. Branches of a test that do not differ are joined.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from cede._base.arrays import Floats, Ints

SPLIT = 0.001  # p-value, corrected for all tests tried in a node, below which the node is split
JOIN = 0.05  # p-value above which two branches of one test are joined
CHANGE = 10.0  # nats by which values must describe a number better than changes do
FIRST = -1  # label of a certain outcome: a copy, or the only value or change


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable of tests: a feature of the state or of the next state, the action, or the slot."""

    name: str
    values: tuple[Any, ...]  # by code
    numeric: bool = False


@dataclass(frozen=True, eq=False)
class RuleData:
    """Steps to grow a tree from; equal steps are one row with a number of visits."""

    given: Ints  # (rows, variables) codes of the variables
    value: Ints  # (rows,) code of the outcome
    change: Ints | None  # (rows,) new number - old number; None if the outcome is no number
    copies: NDArray[np.bool_]  # (rows, features) whether the outcome equals each feature of the state
    place: Ints  # (rows,) number of the counted row, (s, a) or (slot, s), of the step
    visits: Floats  # (rows,)

    def part(self, which: Any) -> "RuleData":
        """Return some of the rows."""
        change = None if self.change is None else self.change[which]
        return RuleData(self.given[which], self.value[which], change, self.copies[which], self.place[which], self.visits[which])

    def labels(self, kind: str) -> Ints:
        """Return the label of each row, (rows,), in leaves of a kind."""
        if kind == "change" and self.change is not None:
            return self.change
        return self.value if kind == "value" else np.full(len(self.value), FIRST)


@dataclass(frozen=True, eq=False)
class Leaf:
    """The distribution of the outcome of all steps that reach the leaf."""

    number: int
    kind: str  # "value", "change", or "copy"
    copied: int  # the feature of the state that is copied; -1: none
    labels: Ints  # (k,) possible outcomes: codes of values, or changes; a copy has the one label FIRST
    counts: Floats  # (k,)
    apart: bool = False  # whether its places still differ, so that each must be learned separately

    @property
    def visits(self) -> int:
        return int(self.counts.sum())

    @property
    def certain(self) -> bool:
        """Return whether there is only one possible outcome."""
        return len(self.labels) == 1


@dataclass(frozen=True, eq=False)
class Split:
    """A test of one variable, with a subtree for each branch."""

    variable: int
    branch: Ints  # (codes of the variable,) number of the branch; -1: a value without steps
    says: tuple[str, ...]  # (branches,) each branch in words
    children: "tuple[Tree, ...]"


Tree = Leaf | Split


def loglik(table: Floats) -> Floats:
    """Return the maximum log-likelihood of counts along the last axis under one distribution: sum n log(n / N)."""
    result: Floats = special.xlogy(table, table).sum(axis=-1) - special.xlogy(table.sum(axis=-1), table.sum(axis=-1))
    return result


def fit(tables: Sequence[Floats], matches: Floats) -> tuple[Floats, Ints, Ints]:
    """Return log-likelihood, number of labels and kind of the best leaf for each group of steps, (groups,) each.

    tables: counts of values, and of changes if there are any, each (groups, labels). matches: (groups, features), how often the
    outcome was equal to the feature. Kinds: 0, 1 as in tables, 2 a copy. By BIC: log-likelihood - (labels - 1) / 2 log n. Where
    there are changes, values must be better by CHANGE.
    """
    n = tables[0].sum(axis=-1)
    likelihoods = np.stack([loglik(table) for table in tables])
    labels = np.stack([(table > 0).sum(axis=-1) for table in tables])
    scores = likelihoods - (labels - 1) / 2 * np.log(np.maximum(n, 2))
    scores[0] -= CHANGE * (len(tables) - 1)
    copies = (matches >= n[:, None]).any(axis=1)
    kind = np.where(copies & (labels.min(axis=0) > 1), 2, np.argmax(scores, axis=0))
    pick = np.minimum(kind, len(tables) - 1)[None]
    value, count = (np.take_along_axis(table, pick, axis=0)[0] for table in (likelihoods, labels))
    return np.where(kind == 2, 0.0, value), np.where(kind == 2, 1, count), kind


def log_p(statistic: Any, freedom: Any) -> Any:
    """Return the logarithm of the chi-squared p-value, by its asymptotic form where the p-value is too small for a float."""
    x, half = np.maximum(np.asarray(statistic, dtype=np.float64), 0) / 2, np.asarray(freedom, dtype=np.float64) / 2
    p = special.gammaincc(half, x)
    far = (half - 1) * np.log(np.maximum(x, 1e-300)) - x - special.gammaln(half)
    return np.where(p > 1e-290, np.log(np.maximum(p, 1e-300)), far)


@dataclass(frozen=True, eq=False)
class RuleTable:
    """The steps of a node by the value of one variable, of which k values occur."""

    codes: Ints  # (k,)
    tables: tuple[Floats, ...]  # (k, labels) counts of values, and of changes
    matches: Floats  # (k, features)

    def grouped(self, groups: Floats) -> tuple[Floats, Ints]:
        """Return log-likelihood and number of labels of groups of values. groups: (groups, k) of 0 and 1."""
        value, labels, _ = fit([groups @ table for table in self.tables], groups @ self.matches)
        return value, labels


def table_of(data: RuleData, column: Ints) -> RuleTable:
    """Count the steps by a variable. column: (rows,) its codes."""
    codes, row = np.unique(column, return_inverse=True)
    labels = (data.value, data.change)
    tables = tuple(cross_table(row, len(codes), label, data.visits) for label in labels if label is not None)
    matches = [np.bincount(row, weights=data.visits * copy, minlength=len(codes)) for copy in data.copies.T]
    return RuleTable(codes, tables, np.stack(matches, axis=1) if matches else np.zeros((len(codes), 0)))


def cross_table(row: Ints, rows: int, label: Ints, visits: Floats) -> Floats:
    """Return a table of counts, (rows, labels that occur). row: (n,) from 0 to rows - 1."""
    values, column = np.unique(label, return_inverse=True)
    flat = np.bincount(row * len(values) + column, weights=visits, minlength=rows * len(values))
    return flat.astype(np.float64).reshape(rows, len(values))


def counts_by(place: Ints, label: Ints, visits: Floats) -> Floats:
    """Return a table of counts, (places that occur, labels that occur)."""
    places, row = np.unique(place, return_inverse=True)
    return cross_table(row, len(places), label, visits)


def candidate_groups(table: RuleTable, variable: Variable) -> list[tuple[str, Floats]]:
    """Return the tests that may be tried on a variable: (kind, groups (branches, k)).

    "is": one value against the rest. "at most": numbers up to a value against larger ones. "apart": a branch for each word.
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


def best_split(data: RuleData, variables: Sequence[Variable], split_at: float) -> tuple[int, str, RuleTable, Floats] | None:
    """Return the test of a node that is least likely to be chance: (variable, kind, table, groups); None if all may be chance."""
    whole = table_of(data, np.zeros(len(data.value), dtype=np.int64))
    before, labels = (float(number[0]) for number in whole.grouped(np.ones((1, 1))))
    if before > -1e-9:
        return None
    tried, best, result = 0, 0.0, None
    for v, variable in enumerate(variables):
        table = table_of(data, data.given[:, v])
        if len(table.codes) < 2:
            continue
        tests = candidate_groups(table, variable)
        tried += len(tests)
        value, _ = table.grouped(np.concatenate([groups for _, groups in tests]))
        sizes = np.array([len(groups) for _, groups in tests])
        gains = np.add.reduceat(value, np.concatenate([[0], np.cumsum(sizes)[:-1]])) - before
        chances = log_p(2 * gains, (sizes - 1) * (labels - 1))
        i = int(np.argmin(chances))
        if result is None or chances[i] < best:
            best, result = float(chances[i]), (v, tests[i][0], table, tests[i][1])
    return result if result is not None and best + np.log(tried) < np.log(split_at) else None


def joined(table: RuleTable, groups: Floats) -> Floats:
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
    data: RuleData, variables: Sequence[Variable], number: Iterator[int], split_at: float = SPLIT, fewest_places: int = 0
) -> Tree:
    """Grow a tree. number: yields the numbers of the leaves. fewest_places: a node with fewer places is not split."""
    small = fewest_places > 1 and len(np.unique(data.place)) < fewest_places
    test = None if small else best_split(data, variables, split_at)
    if test is None:
        return leaf_of(data, next(number))
    v, kind, table, groups = test
    if kind == "apart":
        groups = joined(table, groups)
    if len(groups) < 2:
        return leaf_of(data, next(number))
    branch = np.full(len(variables[v].values), len(groups) - 1 if kind != "apart" else -1, dtype=np.int64)
    if kind == "at most":
        most = max(variables[v].values[code] for code in table.codes[groups[0] > 0])
        branch[[value <= most if isinstance(value, int) else False for value in variables[v].values]] = 0
    else:
        branch[table.codes] = np.argmax(groups, axis=0)
    says = branch_words(variables[v], kind, [table.codes[row > 0].tolist() for row in groups])
    side = branch[data.given[:, v]]
    parts = [data.part(side == i) for i in range(len(groups))]
    return Split(v, branch, says, tuple(grow(part, variables, number, split_at, fewest_places) for part in parts))


def leaf_of(data: RuleData, number: int) -> Leaf:
    """Return the leaf that fits some steps best."""
    whole = table_of(data, np.zeros(len(data.value), dtype=np.int64))
    kind = int(fit(whole.tables, whole.matches)[2][0])
    if kind == 2:
        copied = int(np.argmax(whole.matches[0] >= data.visits.sum()))
        return Leaf(number, "copy", copied, np.array([FIRST]), np.array([data.visits.sum()]))
    name = ("value", "change")[kind]
    labels, label = np.unique(data.labels(name), return_inverse=True)
    return Leaf(number, name, -1, labels, np.bincount(label, weights=data.visits).astype(np.float64))


def grow_from(data: RuleData, variables: Sequence[Variable], number: Iterator[int], start: int, fewest_places: int = 0) -> Tree:
    """Grow a tree whose first test has a branch for each value of the variable `start`. Other arguments: as of `grow`."""
    codes = np.unique(data.given[:, start])
    if len(codes) < 2:
        return grow(data, variables, number, fewest_places=fewest_places)
    branch = np.full(len(variables[start].values), -1, dtype=np.int64)
    branch[codes] = np.arange(len(codes))
    parts = [grow(data.part(data.given[:, start] == code), variables, number, fewest_places=fewest_places) for code in codes]
    return Split(start, branch, branch_words(variables[start], "apart", [[int(code)] for code in codes]), tuple(parts))


def certain_first(
    data: RuleData, variables: Sequence[Variable], number: Iterator[int], enough: int, first: Tree, fewest_places: int = 0
) -> Tree:
    """Return a tree that keeps the certain leaves of `first`, and grows one tree anew for all other steps together.

    So a rule reads "a wall where ...; elsewhere it depends on the traffic". enough: visits from which on a leaf counts as certain.
    """
    sure = {leaf.number for leaf in leaves(first) if leaf.certain and leaf.visits >= enough}
    rest = ~np.isin(route(first, data.given), sorted(sure))
    if not sure or not rest.any():
        return first
    return grafted(first, sure, grow(data.part(rest), variables, number, fewest_places=fewest_places))


def score(tree: Tree, n: float, n_variables: int) -> float:
    """Return the BIC of a tree of n steps: log-likelihood - log(n) / 2 per free number - the choice of a test per leaf."""
    ends = leaves(tree)
    free = sum(len(leaf.labels) - 1 for leaf in ends)
    return sum(float(loglik(leaf.counts)) for leaf in ends) - free / 2 * math.log(n) - len(ends) * math.log(2 * n_variables)


def unexplained(data: RuleData, tree: Tree) -> float:
    """Return the part of the log-likelihood of the outcomes without any test that is left in the leaves of a tree."""
    alone = float(loglik(counts_by(np.zeros_like(data.value), data.value, data.visits))[0])
    return sum(float(loglik(leaf.counts)) for leaf in leaves(tree)) / alone if alone < 0 else 0.0


def grafted(tree: Tree, keep: set[int], other: Tree) -> Tree:
    """Return a tree in which another one replaces all leaves but those with the numbers `keep`."""
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
    """Return the number of the leaf of each row, (rows,); -1 for values without steps. given: (rows, variables)."""
    result = np.full(len(given), -1, dtype=np.int64)
    if isinstance(tree, Leaf):
        result[:] = tree.number
        return result
    side = tree.branch[given[:, tree.variable]]
    for i, child in enumerate(tree.children):
        result[side == i] = route(child, given[side == i])
    return result
