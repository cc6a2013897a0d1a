"""Reads features of states: from the names of the states, from a table, or from a Gymnasium MultiDiscrete space."""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede._base.remade import Remade
from cede.problem.task import Task

Value = int | str
NUMBER = re.compile(r"[+-]?\d+")
MOST_NUMBER = 10**15  # changes of numbers must be exact
PARTS = re.compile(r"[\s,;:=()\[\]]+")


@dataclass(frozen=True, eq=False)
class Features(Remade):
    """Features of states: F values for each of S states. `read_features` makes it.

    All features share one list of values, so that values of different features can be compared.
    """

    names: tuple[str, ...]  # (F,)
    codes: Ints  # (S, F) indices into `values`
    values: tuple[Value, ...]  # all values of all features
    numeric: tuple[bool, ...]  # (F,) whether all values of a feature are numbers

    def __post_init__(self) -> None:
        n, codes = len(self.names), self.codes
        check.names("Features", "names", self.names, n)
        if not isinstance(codes, np.ndarray) or codes.dtype != np.int64 or codes.ndim != 2 or codes.shape[1] != n or not codes.size:
            check.fail("Features", "codes", check.show(codes), "an array of int64 with a column for each name")
        if codes.min() < 0 or codes.max() >= len(self.values):
            check.fail("Features", "codes", "beyond the values", f"from 0 to {len(self.values) - 1}")
        for value in self.values:
            if isinstance(value, bool) or not isinstance(value, int | str) or (isinstance(value, int) and abs(value) > MOST_NUMBER):
                check.fail("Features", "a value", check.show(value), "an integer below 10**15, or a string")
        numbers = np.array([isinstance(value, int) for value in self.values])
        if len(set(self.values)) < len(self.values) or list(self.numeric) != np.all(numbers[codes], axis=0).tolist():
            check.fail("Features", "values", "torn", "different, and numbers where a feature is said to be one")
        if len(np.unique(codes, axis=0)) < len(codes):
            check.fail("Features", "codes", "the same for two states", "different for each state")
        self._set(codes=check.frozen(np.ascontiguousarray(codes)))

    @property
    def numbers(self) -> Floats:
        """Return each value as a number, (values,); NaN for words."""
        return np.array([value if isinstance(value, int) else np.nan for value in self.values], dtype=np.float64)


def same_features(first: Features | None, second: Features | None) -> bool:
    """Return whether two features are equal; None: there are none."""
    if first is None or second is None:
        return first is second
    facts = [(features.names, features.values, features.numeric) for features in (first, second)]
    return facts[0] == facts[1] and bool(np.array_equal(first.codes, second.codes))


def read_features(owner: str, task: Task, features: Any, names: Any) -> Features:
    """Return the features of the states of a task, after checks.

    features: None to read the names of the states; a table of integers or strings, one row per state; or a MultiDiscrete space,
    whose elements are numbered in C order. names: of the features, or None.
    """
    if features is None:
        read_names, table = from_names(owner, task)
    elif hasattr(features, "nvec"):
        read_names, table = None, from_space(owner, task, features)
    else:
        read_names, table = None, from_table(owner, task, features)
    n = len(table[0])
    chosen = check.names(owner, "names", names, n) or read_names or tuple(f"feature {i + 1}" for i in range(n))
    if len(set(chosen)) < n:
        check.fail(owner, "names", check.show(list(chosen)), "different for each feature")
    first: dict[tuple[Value, ...], int] = {}
    for s, row in enumerate(table):
        if first.setdefault(row, s) != s:
            check.fail(owner, f"features[{s}]", check.show(row), f"unlike those of state {first[row]}: add what tells them apart")
    numeric = tuple(all(isinstance(row[i], int) for row in table) for i in range(n))
    values = sorted({value for row in table for value in row}, key=lambda value: (isinstance(value, str), value))
    index = {value: i for i, value in enumerate(values)}
    codes = np.array([[index[value] for value in row] for row in table], dtype=np.int64)
    return Features(tuple(chosen), codes, tuple(values), numeric)


def from_space(owner: str, task: Task, space: Any) -> list[tuple[Value, ...]]:
    """Return the features of all states that number the elements of a MultiDiscrete space in C order."""
    sides = check.integers(owner, "features.nvec", space.nvec, (1, 2, 3)).ravel()
    if sides.size == 0 or sides.min() < 1 or int(np.prod(sides.astype(object))) != task.n_states:
        check.fail(owner, "features.nvec", check.show(sides.tolist()), f"of product {task.n_states}, the number of states")
    table = np.stack(np.unravel_index(np.arange(task.n_states), sides.tolist()), axis=1)
    return [tuple(int(value) for value in row) for row in table]


def from_table(owner: str, task: Task, features: Any) -> list[tuple[Value, ...]]:
    """Return features that are given as an array, (S, F), or as a sequence of sequences; one value for each state will do."""
    expected = "a sequence with the features of each state, an array (S, F), or a MultiDiscrete space"
    if isinstance(features, Mapping | Set):
        check.fail(owner, "features", check.show(features), expected)
    rows = check.items(owner, "features", features, expected)
    if len(rows) != task.n_states:
        check.fail(owner, "the number of rows of features", len(rows), f"{task.n_states}, the number of states")
    table = [read_row(owner, s, row) for s, row in enumerate(rows)]
    for s, row in enumerate(table):
        if len(row) != len(table[0]) or not row:
            check.fail(owner, f"the number of features of state {s}", len(row), f"{max(len(table[0]), 1)}, as of state 0")
    return table


def read_row(owner: str, s: int, row: Any) -> tuple[Value, ...]:
    """Return the features of state s: integers or strings. Truth values become 0 and 1, whole floats integers."""
    alone = isinstance(row, str) or check.ndim(row) == 0
    result: list[Value] = []
    for i, value in enumerate([row] if alone else check.items(owner, f"features[{s}]", row, "a sequence of features")):
        whole = isinstance(value, int | np.integer | bool | np.bool_)
        whole = whole or (isinstance(value, float | np.floating) and bool(np.isfinite(value)) and value == round(float(value)))
        if (not whole and not isinstance(value, str)) or (whole and abs(int(value)) > MOST_NUMBER):
            check.fail(owner, f"features[{s}, {i}]", check.show(value), "an integer below 10**15, or a string")
        result.append(str(value) if isinstance(value, str) else int(value))
    return tuple(result)


def from_names(owner: str, task: Task) -> tuple[tuple[str, ...], list[tuple[Value, ...]]]:
    """Return names of features, and the features of all states, read from the states' names.

    Names of the form "key=value, key=value" with the same keys are read as such. Others are split at blanks and punctuation; a word
    that is the same in all names is no feature, but names those after it.
    """
    if task.state_names is None:
        check.fail(owner, "features", "None", "given: the states of this task have no names to read them from")
    texts = [str(name) for name in task.state_names]
    pairs = [[re.split(r"\s*[=:]\s*", part, maxsplit=1) for part in re.split(r"\s*[,;]\s*", text.strip())] for text in texts]
    keys = tuple(pair[0] for pair in pairs[0])
    if all(tuple(p[0] for p in row) == keys and all(len(p) == 2 for p in row) for row in pairs) and len(set(keys)) == len(keys):
        columns = [as_numbers([row[i][1] for row in pairs])[1] for i in range(len(keys))]
        return keys, list(zip(*columns, strict=True))
    words = [[word for word in PARTS.split(text) if word] for text in texts]
    for s, row in enumerate(words):
        if len(row) != len(words[0]) or not row:
            expected = f"{len(words[0])} parts, as {texts[0]!r}: only names that are built alike can be read; or give features"
            check.fail(owner, f"state_names[{s}]", check.show(texts[s]), expected)
    return name_columns([[row[i] for row in words] for i in range(len(words[0]))])


def name_columns(columns: list[list[str]]) -> tuple[tuple[str, ...], list[tuple[Value, ...]]]:
    """Return names and features from columns of words. A column of one word only names the columns after it."""
    named: list[tuple[str, list[Value]]] = []
    heading = ""
    for column in columns:
        if len(set(column)) == 1 and len(columns) > 1:
            heading = column[0]
            continue
        prefix, values = as_numbers(column)
        named.append((heading or prefix, values))
    if not named:
        named = [("feature", list(columns[0]))]
    names = [name or "feature" for name, _ in named]
    again = [names[:i].count(name) + 1 for i, name in enumerate(names)]
    chosen = tuple(name if names.count(name) == 1 else f"{name} {i}" for name, i in zip(names, again, strict=True))
    return chosen, list(zip(*(values for _, values in named), strict=True))


def as_numbers(words: list[str]) -> tuple[str, list[Value]]:
    """Return (prefix, values): words such as "s1", "s2" are a prefix and numbers; words that are no numbers stay as they are."""
    prefix = re.match(r"[^\d+-]*", words[0])
    start = prefix.group() if prefix else ""
    if all(word.startswith(start) and NUMBER.fullmatch(word[len(start) :]) and len(word) < len(start) + 15 for word in words):
        return start.strip("-_ "), [int(word[len(start) :]) for word in words]
    return "", list(words)
