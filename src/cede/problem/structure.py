"""Declared structure: which states, or which pairs of state and action, share one distribution.

A *place* is where something is drawn: a state s for an agent, a pair (s, a) for the environment. A *case* is a set of places that
share one distribution over *outcomes*. A visit of one place counts for all places of its case, and each case has one confidence
set. If the structure is true, the guarantee of the paper holds with |S||D| or |S||A| replaced by the number of cases and |S| by the
number of outcomes. `check_structure` tests it with data.

Example: a corridor in which a step to the right succeeds everywhere with the same unknown probability. All places (s, right) but
that of the last cell are one case with the outcomes "moved" and "stayed", which mean the next states s + 1 and s.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from cede._base import check
from cede._base.arrays import Ints, read_only
from cede._base.remade import Remade

Rule = Callable[[Any, Any], tuple[Any, Mapping[Any, Any]]]  # rule(state, action) -> (case, {outcome: next state})


@dataclass(frozen=True, eq=False)
class Outcomes(Remade):
    """Which places share one distribution over outcomes, and what each outcome means in each place.

    For the environment a place is a pair (s, a), and an outcome means a next state. For an agent a place is a state, and an outcome
    means an action: two states may be alike except that left and right are exchanged. Places with the same case and the same
    meanings are one row. In one place two outcomes never mean the same, so a step determines its outcome.

    Make one from a function with `Outcomes.by` (environment) or `Outcomes.of_agent`, or from arrays with `Outcomes.of`.
    """

    row: Ints  # environment: (S, A), agent: (S,); the row that each place has in `case` and `to`
    case: Ints  # (rows,) the case of each row, numbered from 0
    to: NDArray[np.int32] | Ints  # (rows, most outcomes) what each outcome means: a next state or an action; -1: no such outcome

    def __post_init__(self) -> None:
        owner = "Outcomes"
        row = integer_array(owner, "row", self.row, (1, 2))
        case, to = integer_array(owner, "case", self.case, (1,)), integer_array(owner, "to", self.to, (2,))
        check_range(owner, "row", row, 0, len(case))
        for value in np.setdiff1d(np.arange(len(case)), row)[:1]:
            check.fail(owner, f"the number of places of row {value}", 0, "at least 1: leave out what is not used")
        if len(to) != len(case):
            check.fail(owner, "the number of rows of to", len(to), f"{len(case)}, as of case")
        check_range(owner, "case", case, 0, len(case))
        check_range(owner, "to", to, -1, len(row) if row.ndim == 2 else to.shape[1])
        for value in np.setdiff1d(np.arange(case.max() + 1), case)[:1]:
            check.fail(owner, f"the number of rows of case {value}", 0, "at least 1")
        order = np.argsort(to < 0, axis=1, kind="stable")  # existing outcomes first, then -1
        to = np.take_along_axis(to, order, axis=1)
        numbers = (to >= 0).sum(axis=1)  # outcomes of each row
        first = np.unique(case, return_index=True)[1][case]  # the first row of each row's case
        for r, n in enumerate(numbers.tolist()):
            place = f"the number of outcomes of to[{r}]"
            if n == 0 or (row.ndim == 1 and n < to.shape[1]):
                check.fail(owner, place, n, "at least 1" if row.ndim == 2 else f"{to.shape[1]}, one for each action")
            if n != numbers[first[r]]:
                check.fail(owner, place, n, f"{numbers[first[r]]}, as in row {first[r]} of the same case")
            values, times = np.unique(to[r, :n], return_counts=True)
            if (times > 1).any():
                check.fail(owner, f"to[{r}]", f"{values[np.argmax(times)]} for two outcomes", "another one for each")
        self._set(row=read_only(row), case=read_only(case), to=read_only(to.astype(np.int32)))

    @classmethod
    def of(cls, case: ArrayLike, to: ArrayLike) -> "Outcomes":
        """Make Outcomes from arrays.

        case: the case of each place, any integers, (S, A) for the environment or (S,) for an agent. to: the next state (or action)
        that each outcome means in each place, (S, A, outcomes) or (S, outcomes), -1 where a case has fewer outcomes.
        """
        owner = "Outcomes.of"
        cases, means = integer_array(owner, "case", case, (1, 2)), integer_array(owner, "to", to, (2, 3))
        if means.shape[:-1] != cases.shape:
            check.fail(owner, "the shape of to without its last axis", means.shape[:-1], f"{cases.shape}, as of case")
        check_range(owner, "to", means, -1, len(cases) if cases.ndim == 2 else means.shape[-1])
        _, numbers = np.unique(cases, return_inverse=True)
        whole = np.concatenate([numbers.reshape(-1, 1), means.reshape(cases.size, -1)], axis=1)
        rows, which = np.unique(whole, axis=0, return_inverse=True)
        return cls(which.reshape(cases.shape), rows[:, 0], rows[:, 1:])

    @classmethod
    def by(cls, states: Iterable[Hashable], actions: Iterable[Any], rule: Rule) -> "Outcomes":
        """Make the Outcomes of an environment from a function rule(state, action) -> (case, {outcome: next state}).

        states, actions: all of them in the order of the problem. A state may be a number, a name or a tuple of features; the rule
        gets the listed item, and returns next states from the same list. Cases and outcomes may be any hashable values.
        """
        owner, listed = "Outcomes.by", "all of them, in the order of the problem"
        all_states = check.items(owner, "states", states, listed)
        all_actions = check.items(owner, "actions", actions, listed)
        check.function(owner, "rule", rule, "a function rule(state, action)")
        places = [(state, action) for state in all_states for action in all_actions]
        if not all_actions:
            check.fail(owner, "actions", "empty", "the actions, in the order of the problem")
        shape = (len(all_states), len(all_actions))
        return cls._from_rule(owner, places, shape, index_by_item(owner, "states", all_states), rule)

    @classmethod
    def of_agent(cls, states: Iterable[Any], actions: Iterable[Hashable], rule: Callable[[Any], Any]) -> "Outcomes":
        """Make the Outcomes of an agent from a function rule(state) -> (case, {outcome: action}).

        states, actions: all of them in the order of the problem, of any type. Every case has as many outcomes as there are actions,
        and each action is the meaning of one outcome.
        """
        owner, listed = "Outcomes.of_agent", "all of them, in the order of the problem"
        places = [(state,) for state in check.items(owner, "states", states, listed)]
        if not places:
            check.fail(owner, "states", "empty", listed)
        check.function(owner, "rule", rule, "a function rule(state)")
        index = index_by_item(owner, "actions", check.items(owner, "actions", actions, listed))
        return cls._from_rule(owner, places, (len(places),), index, rule)

    @classmethod
    def _from_rule(
        cls, owner: str, places: Sequence[tuple[Any, ...]], shape: tuple[int, ...], index: Mapping[Any, int], rule: Any
    ) -> "Outcomes":
        """Call a rule in every place, and number its cases and outcomes.

        places: the arguments of each call. shape: of `row`. index: the number of each next state, or of each action.
        """
        cases: dict[Hashable, tuple[int, dict[Hashable, int]]] = {}
        rows: dict[tuple[int, tuple[int, ...]], int] = {}
        row = np.empty(len(places), dtype=np.int64)
        for i, place in enumerate(places):
            where = f"rule({', '.join(check.show(part) for part in place)})"
            label, leads = checked_answer(owner, where, rule(*place))
            number, outcomes = cases.setdefault(label, (len(cases), {name: j for j, name in enumerate(leads)}))
            if leads.keys() != outcomes.keys():
                expected = f"{check.show(list(outcomes))}, as before in case {label!r}"
                check.fail(owner, f"the outcomes of {where}", check.show(list(leads)), expected)
            to = [0] * len(outcomes)
            for name, target in leads.items():
                if not is_hashable(target) or target not in index:
                    check.fail(owner, f"{where}, outcome {name!r}", check.show(target), f"one of {check.show(list(index))}")
                to[outcomes[name]] = index[target]
            row[i] = rows.setdefault((number, tuple(to)), len(rows))
        most = max(len(to) for _, to in rows)
        table = np.array([[*to, *[-1] * (most - len(to))] for _, to in rows], dtype=np.int64)
        return cls(row.reshape(shape), np.array([number for number, _ in rows], dtype=np.int64), table)

    @property
    def n_cases(self) -> int:
        return int(self.case.max()) + 1

    @cached_property
    def n_outcomes(self) -> Ints:
        """Return the number of outcomes of each case, (cases,)."""
        result = np.zeros(self.n_cases, dtype=np.int64)
        result[self.case] = (self.to >= 0).sum(axis=1)
        return read_only(result)

    @cached_property
    def digest(self) -> str:
        """Return a SHA-256 of the arrays, which is equal for equal declarations."""
        parts = (self.row, self.case, self.to)
        return hashlib.sha256(b"".join(str(p.shape).encode() + p.tobytes() for p in parts)).hexdigest()

    def states_from(self, state: int, action: int) -> list[int]:
        """Return the next states that are declared to be possible after an action in a state."""
        to = self.to[self.row[state, action]]
        return [int(s) for s in to[to >= 0]]

    def allowed(self) -> sp.csr_array:
        """Return a sparse matrix, (S*A, S), row s*A + a, with 1 where a step is declared to be possible."""
        to = self.to[self.row.ravel()]
        rows, columns = np.nonzero(to >= 0)
        n_states = len(self.row)
        return sp.csr_array((np.ones(len(rows), dtype=np.int8), (rows, to[rows, columns])), shape=(len(to), n_states))


@dataclass(frozen=True, eq=False)
class Structure(Remade):
    """A declaration: which states share one distribution of actions of an agent, and which pairs (s, a) share one of next states.

    agents: by name, a label for each state, (S,): the agent acts alike in all states of one label; or Outcomes, if it does so after
    renaming the actions. Other agents are learned state by state. environment: Outcomes, or None to learn it pair by pair. costs: a
    label for each pair, (S, A): unknown costs of one label have the same mean; None to learn them pair by pair. `Structure.by`
    makes one from functions.
    """

    agents: Mapping[str, Any] = field(default_factory=dict)  # labels are kept as (S,) integers from 0
    environment: Outcomes | None = None
    costs: Any = None  # (S, A) labels: places of one label have the same mean cost; kept as integers from 0

    def __post_init__(self) -> None:
        if not isinstance(self.agents, Mapping):
            check.fail("Structure", "agents", check.show(self.agents), "labels by the agents' names, as in {'human': [...]}")
        agents = {}
        for name, labels in self.agents.items():
            check.name("Structure", "an agent's name", name)
            agents[name] = labels if isinstance(labels, Outcomes) else numbers_of_labels(f"Structure, agent {name!r}", labels)
            if isinstance(labels, Outcomes) and labels.row.ndim != 1:
                check.fail("Structure", f"the row of agent {name!r}", f"of shape {labels.row.shape}", "of shape (S,)")
        if self.environment is not None and not isinstance(self.environment, Outcomes):
            check.fail("Structure", "environment", check.show(self.environment), "Outcomes")
        if self.environment is not None and self.environment.row.ndim != 2:
            check.fail("Structure", "the row of environment", f"of shape {self.environment.row.shape}", "of shape (S, A)")
        costs = self.costs
        if costs is not None:
            labels = integer_array("Structure", "costs", costs, (2,))
            costs = read_only(np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int64))
        self._set(agents=agents, costs=costs)

    @classmethod
    def by(
        cls,
        states: Iterable[Hashable],
        actions: Iterable[Any] = (),
        *,
        agents: Mapping[str, Callable[[Any], Hashable]] | None = None,
        environment: Rule | None = None,
        costs: Callable[[Any, Any], Hashable] | None = None,
    ) -> "Structure":
        """Make a Structure from functions of a state.

        states, actions: all of them in the order of the problem; states may be numbers, names or tuples of features.

        agents: by the agents' names, a function rule(state) that returns the observation on which the agent's policy depends. Or
        the function returns (case, {outcome: action}), as in `Outcomes.of_agent`.

        environment: a function rule(state, action) that returns (case, {outcome: next state}), as in `Outcomes.by`.

        costs: a function rule(state, action) that returns a label: unknown costs of one label have the same mean.
        """
        owner, listed = "Structure.by", "all of them, in the order of the problem"
        all_states = check.items(owner, "states", states, listed)
        all_actions = check.items(owner, "actions", actions, listed)
        if environment is not None:
            check.function(owner, "environment", environment, "a function rule(state, action)")
        seen: dict[str, Any] = {}
        expected = "a function of a state by each agent's name"
        for name, see in check.mapping(owner, "agents", agents, expected).items():
            check.function(owner, f"agents[{name!r}]", see, "a function of a state")
            views = [see(state) for state in all_states]
            relabels = all(isinstance(view, tuple) and len(view) == 2 and isinstance(view[1], Mapping) for view in views)
            seen[name] = Outcomes.of_agent(all_states, all_actions, see) if relabels else views
        labels = None
        if costs is not None:
            check.function(owner, "costs", costs, "a function rule(state, action)")
            if not all_states or not all_actions:
                check.fail(owner, "states or actions", "empty", listed)
            answers = [costs(state, action) for state in all_states for action in all_actions]
            for label in answers:
                if not is_hashable(label):
                    check.fail(owner, "what costs answered", check.show(label), "a hashable label")
            labels = numbered(answers).reshape(len(all_states), -1)
        return cls(seen, None if environment is None else Outcomes.by(all_states, all_actions, environment), labels)

    @cached_property
    def digest(self) -> str:
        """Return a SHA-256 that is equal for equal declarations."""
        parts = [f"{name} {digest_of(seen)}" for name, seen in sorted(self.agents.items())]
        costs = "" if self.costs is None else f" costs {hashlib.sha256(self.costs.tobytes()).hexdigest()}"
        text = " ".join([*parts, self.environment.digest if self.environment else "-"]) + costs
        return hashlib.sha256(text.encode()).hexdigest()

    def __str__(self) -> str:
        parts = [f"{name} sees {n_cases(seen)} cases" for name, seen in self.agents.items()]
        if self.environment is not None:
            parts.append(f"environment has {self.environment.n_cases} cases of up to {self.environment.n_outcomes.max()} outcomes")
        if self.costs is not None:
            parts.append(f"costs have {self.costs.max() + 1} cases")
        return "; ".join(parts) or "nothing declared"

    @property
    def of_environment(self) -> "Structure | None":
        """Return the declaration of the environment and its costs, without the agents; None if it is empty."""
        return Structure(environment=self.environment, costs=self.costs) if self.environment or self.costs is not None else None


def n_cases(seen: Ints | Outcomes) -> int:
    """Return the number of cases of an agent, declared by labels (S,) or Outcomes."""
    return seen.n_cases if isinstance(seen, Outcomes) else int(seen.max()) + 1


def digest_of(seen: Ints | Outcomes) -> str:
    """Return a SHA-256 of the declaration of an agent, labels (S,) or Outcomes; equal for equal declarations."""
    return seen.digest if isinstance(seen, Outcomes) else hashlib.sha256(seen.tobytes()).hexdigest()


def numbers_of_labels(owner: str, labels: Any) -> Ints:
    """Replace labels of any hashable type, (S,), by integers from 0 in the order in which they first occur; return them, (S,)."""
    if isinstance(labels, str | Mapping) or not hasattr(labels, "__len__") or not hasattr(labels, "__iter__") or not len(labels):
        check.fail(owner, "labels", check.show(labels), "a sequence with a label for each state")
    try:
        items = hashable_items(labels)
        result = numbered(items)
    except TypeError:
        check.fail(owner, "labels", check.show(labels), "a sequence of labels that can be compared: numbers, strings, tuples")
    for i, label in enumerate(items):
        if check.is_missing(label):
            check.fail(owner, f"the label of state {i}", check.show(label), "there")
    return read_only(result)


def numbered(labels: Iterable[Hashable]) -> Ints:
    """Replace labels by integers from 0, in the order in which they first occur."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(label, len(known)) for label in labels], dtype=np.int64)


def hashable_items(labels: Any) -> list[Any]:
    """Return labels as a list; the rows of an array with several axes become tuples, which can be hashed."""
    if isinstance(labels, np.ndarray):
        return labels.tolist() if labels.ndim == 1 else [tuple(row) for row in labels.reshape(len(labels), -1).tolist()]
    return list(labels)


def checked_answer(owner: str, where: str, answer: Any) -> tuple[Hashable, Mapping[Any, Any]]:
    """Check that a rule returned (case, {outcome: meaning}) and return both; `where` is the call, for the error."""
    pair = isinstance(answer, tuple) and len(answer) == 2
    if not pair or not isinstance(answer[1], Mapping) or not answer[1] or not is_hashable(answer[0]):
        check.fail(owner, where, check.show(answer), "(case, {outcome: what it leads to}), with at least one outcome")
    return answer[0], answer[1]


def is_hashable(value: Any) -> bool:
    """Return whether a value can be hashed, with all its parts."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def index_by_item(owner: str, name: str, items: Sequence[Hashable]) -> dict[Hashable, int]:
    """Check that items (all states, or all actions) differ; return the position of each."""
    for i, item in enumerate(items):
        if not is_hashable(item):
            check.fail(owner, f"{name}[{i}]", check.show(item), "a number, a name or a tuple of features")
    index = {item: i for i, item in enumerate(items)}
    if len(index) < len(items) or not items:
        check.fail(owner, f"the number of different {name}", len(index), f"{max(len(items), 1)}: each a name of its own")
    return index


def integer_array(owner: str, name: str, value: Any, axes: tuple[int, ...]) -> Ints:
    """Check that a value is an array of integers, not empty, with one of the given numbers of axes; return a copy as int64."""
    result = check.integers(owner, name, value, axes)
    if not result.size:
        check.fail(owner, name, check.show(value), f"an array of integers with {' or '.join(map(str, axes))} axes, not empty")
    return result


def check_range(owner: str, name: str, values: NDArray[Any], least: int, end: int) -> None:
    """Check that all values are at least `least` and below `end`."""
    bad = np.argwhere((values < least) | (values >= end))
    if len(bad):
        check.fail(owner, check.place_of(name, bad[0]), int(values[tuple(bad[0])]), f"an integer from {least} to {end - 1}")


def checked_structure(owner: str, structure: Any, n_states: int, n_actions: int, agents: Sequence[str]) -> Structure | None:
    """Check that a structure fits a task of S states, A actions and these agents' names; return it, None for None."""
    if structure is None:
        return None
    if not isinstance(structure, Structure):
        check.fail(owner, "structure", check.show(structure), "a Structure")
    for name, seen in structure.agents.items():
        if name not in agents:
            check.fail(owner, "an agent of structure", repr(name), check.one_of(agents))
        size = len(seen.row) if isinstance(seen, Outcomes) else len(seen)
        if size != n_states:
            check.fail(owner, f"the number of states of structure's agent {name!r}", size, f"{n_states}, as of the task")
        if isinstance(seen, Outcomes) and seen.to.shape[1] != n_actions:
            place = f"the number of outcomes of structure's agent {name!r}"
            check.fail(owner, place, seen.to.shape[1], f"{n_actions}, the actions of the task")
    sides, environment = (n_states, n_actions), structure.environment
    for place, table in (("costs", structure.costs), ("environment", None if environment is None else environment.row)):
        if table is not None and table.shape != sides:
            check.fail(owner, f"(S, A) of structure.{place}", table.shape, f"{sides}, as of the task")
    return structure
