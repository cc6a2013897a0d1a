"""Tests whether a declared structure is true: compares the places of every case, and names where data contradict it.

All places of one case should have the same frequencies. They are compared by the chi-squared statistic of homogeneity. Counts are
often too few for its limit distribution. Given the sums of rows and columns, its mean and variance are known exactly (Haldane 1940;
Dawson 1954). A gamma distribution with this mean and variance selects the cases that need a closer look. These are compared with
random tables of the same sums, which is an exact test for any counts. p-values are corrected for the number of cases tested (Holm
1979). Within a case that fails, the place is named that differs most from the rest.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import stats

from cede._base import check
from cede._base.arrays import Floats
from cede.problem.structure import Outcomes, Structure, checked_structure
from cede.problem.task import Task
from cede.rows.places import Places
from cede.rows.stored import NOTHING, Counts
from cede.rows.working import Working
from cede.steps.log import read_log


@dataclass(frozen=True, eq=False)
class Suspicion:
    """A case of a structure that the data contradict. `StructureCheck.suspicions` lists them."""

    layer: str  # "environment", or the name of an agent
    case: int
    p_value: float  # of the hypothesis that all places are alike, corrected for the number of tests; 0: an impossible step was seen
    place: tuple[int, ...]  # (s, a), or (s,), of the place that is least like the others
    visits: int  # how often that place was visited
    here: Floats  # (outcomes,) frequencies in that place
    elsewhere: Floats  # (outcomes,) frequencies in the other places of the case
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class StructureCheck:
    """The result of `check_structure`. Print it to read it.

    A structure that passes need not be true: there may be too little data, which `untested` counts.
    """

    suspicions: tuple[Suspicion, ...]
    tested: int  # cases with enough data for a test
    untested: int
    alpha: float

    @property
    def passed(self) -> bool:
        """Return whether the data contradict no case."""
        return not self.suspicions

    def __str__(self) -> str:
        head = f"{len(self.suspicions)} of {self.tested} cases look wrong (level {self.alpha:g}); "
        head += f"{self.untested} could not be tested: too little data, or one place only"
        return "\n".join([head, *(f"- {suspicion}" for suspicion in self.suspicions)])


def check_structure(task: Task, structure: Structure, data: Any, *, alpha: float = 0.01) -> StructureCheck:
    """Test a declared structure against data.

    task: what the data belong to. structure: what is tested. data: a log or Episodes, as `Learner.learn_from` takes them, or Counts
    that were made without a structure. alpha: the probability that a true structure is suspected at all.
    """
    owner = "check_structure"
    alpha = check.probability(owner, "alpha", alpha)
    if not isinstance(task, Task):
        check.fail(owner, "task", check.show(type(task).__name__), "a Task, as in mdp.task")
    if not isinstance(structure, Structure):
        check.fail(owner, "structure", check.show(structure), "a Structure")
    checked_structure(owner, structure, task.n_states, task.n_actions, task.tables)
    plain = whole_counts(owner, task, data) if isinstance(data, Counts) else counted(task, read_log(owner, task, data))
    cases = list(declared_cases(task, structure, plain))
    impossible = undeclared_steps(task, structure, plain.environment)
    testable = [case for case in cases if case.testable]
    draws, rng = most_draws(len(testable), alpha), np.random.default_rng(0)
    tested = [(case, homogeneity(case.table, draws, rng)) for case in testable]
    order = sorted(range(len(tested)), key=lambda i: tested[i][1])
    suspicions, worst = [] if impossible is None else [impossible], 0.0
    for rank, i in enumerate(order):
        case, p_value = tested[i]
        worst = max(worst, min(1.0, p_value * (len(tested) - rank)))
        if worst <= alpha:
            suspicions.append(suspicion_of(task, case, worst))
    return StructureCheck(tuple(suspicions), len(tested), len(cases) - len(tested), alpha)


def whole_counts(owner: str, task: Task, counts: Counts) -> Counts:
    """Return counts that were made without a structure, after a check that they fit the task and do not fade."""
    plain = Counts.zeros(task) + counts
    for layer in (plain.agents, plain.environment):
        broken = layer.data[layer.data != np.round(layer.data)]
        if broken.size:
            check.fail(owner, "a count", broken[0], "whole: counts that fade are not data")
    return plain


def counted(task: Task, log: Iterable[Any]) -> Counts:
    """Return the counts of episodes of a log (`read_log`), without any structure."""
    working = Working(Places(task), NOTHING)
    for steps in log:
        working.add_steps(steps)
        working.end_episode()
    return working.store()


def most_draws(tests: int, alpha: float) -> int:
    """Return how many random tables to draw: the least possible p-value, corrected for so many tests, must be below alpha."""
    return max(2000, math.ceil(5 * tests / alpha))


@dataclass(frozen=True, eq=False)
class Case:
    """The counts of the places of one case, of an agent or of the environment."""

    layer: str
    number: int
    places: list[tuple[int, ...]]
    table: Floats  # (places, outcomes)

    @property
    def testable(self) -> bool:
        """Return whether there are at least two places and two outcomes that were seen, and more than 3 counts in total."""
        rows, columns = (self.table.sum(axis=axis) for axis in (1, 0))
        return bool((rows > 0).sum() >= 2 and (columns > 0).sum() >= 2 and self.table.sum() > 3)


def declared_cases(task: Task, structure: Structure, counts: Counts) -> Iterator[Case]:
    """Yield the counts of each declared case: of agents, slot by slot, and of the environment. counts: made without structure."""
    n_states, actions = task.n_states, np.arange(task.n_actions)
    for table, name in enumerate(task.tables):
        declared = structure.agents.get(name)
        if declared is None:
            continue
        if not isinstance(declared, Outcomes):  # labels: each outcome is its own action
            cases = np.arange(int(declared.max()) + 1)
            declared = Outcomes(declared, cases, np.tile(actions, (len(cases), 1)))
        for slot in range(*task.layout.slots(table).indices(counts.agents.shape[0])):
            seen = counts.agents[slot * n_states : (slot + 1) * n_states]
            yield from cases_of(name, declared, seen, lambda place: (place,))
    if structure.environment is not None:
        yield from cases_of("environment", structure.environment, counts.environment, lambda place: divmod(place, task.n_actions))


def cases_of(layer: str, outcomes: Outcomes, seen: sp.csr_array, name: Callable[[int], tuple[int, ...]]) -> Iterator[Case]:
    """Yield the counts of each case by place and outcome. seen: (places, next states or actions). name: returns (s,) or (s, a)."""
    row = outcomes.row.ravel()
    for number in range(outcomes.n_cases):
        places = np.flatnonzero(outcomes.case[row] == number)
        to = outcomes.to[row[places]][:, : outcomes.n_outcomes[number]].astype(np.int64)
        table = np.take_along_axis(seen[places].toarray().astype(np.float64), to, axis=1)
        yield Case(layer, number, [name(int(place)) for place in places], table)


def undeclared_steps(task: Task, structure: Structure, environment: sp.csr_array) -> Suspicion | None:
    """Return a suspicion if steps were seen that the structure declares impossible; else None. environment: (S * A, S) counts."""
    outcomes = structure.environment
    if outcomes is None:
        return None
    beyond = sp.coo_array(environment - environment.multiply(outcomes.allowed()))
    beyond.eliminate_zeros()
    if not beyond.nnz:
        return None
    row, to = int(beyond.coords[0][0]), int(beyond.coords[1][0])
    s, a = divmod(row, task.n_actions)
    place = f"state {name_of(task.state_names, s)}, action {name_of(task.action_names, a)}"
    text = f"environment, {place}: next state {name_of(task.state_names, to)} was seen, but is not declared"
    if beyond.nnz > 1:
        text += f"; so were {beyond.nnz - 1} other steps"
    case, nothing = int(outcomes.case[outcomes.row[s, a]]), np.empty(0)
    return Suspicion("environment", case, 0.0, (s, a), int(beyond.data[0]), nothing, nothing, text)


def suspicion_of(task: Task, case: Case, p_value: float) -> Suspicion:
    """Return the suspicion of a case: it names the place that differs most from all others together, by `deviation`."""
    total = case.table.sum(axis=0)
    seen = [i for i in range(len(case.places)) if case.table[i].sum() > 0]
    worst = max(seen, key=lambda i: deviation(np.stack([case.table[i], total - case.table[i]])))
    here, others = case.table[worst], total - case.table[worst]
    visits = int(here.sum())
    here, elsewhere = here / visits, others / max(others.sum(), 1)
    most = int(np.argmax(np.abs(here - elsewhere)))
    names = [f"state {name_of(task.state_names, case.places[worst][0])}"]
    if len(case.places[worst]) == 2:
        names.append(f"action {name_of(task.action_names, case.places[worst][1])}")
    text = f"{case.layer}, case {case.number} (p = {p_value:.2g}): {', '.join(names)} is least like the others: "
    text += f"outcome {most} came in {here[most]:.0%} of {visits} visits, elsewhere in {elsewhere[most]:.0%} of {int(others.sum())}"
    return Suspicion(case.layer, case.number, p_value, case.places[worst], visits, here, elsewhere, text)


def name_of(names: Any, i: int) -> str:
    """Return how a state or action is called in a text: its index, with its name if there are names."""
    return str(i) if names is None else f"{i} ({names[i]})"


def without_zeros(table: Floats) -> Floats:
    """Return a table without rows and columns of zeros."""
    result: Floats = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    return result


def statistic(table: Any, rows: Floats, columns: Floats) -> Any:
    """Return the chi-squared statistic of a table, (r, c), or of many, (n, r, c). rows, columns: the sums, (r,) and (c,)."""
    expected = np.outer(rows, columns) / rows.sum()
    return ((table - expected) ** 2 / expected).sum(axis=(-2, -1))


def deviation(table: Floats) -> float:
    """Return how many standard deviations the statistic of a table lies above its mean; -inf if the table is too small."""
    table = without_zeros(table)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if min(table.shape, default=0) < 2 or rows.sum() <= 3:
        return -math.inf
    mean, variance = moments(rows, columns)
    return float((statistic(table, rows, columns) - mean) / math.sqrt(max(variance, 1e-300)))


DOUBT = 0.2  # approximate p-value below which a table is compared with random ones
AT_ONCE, ENOUGH = 500, 20  # tables drawn at a time; stop after so many more extreme ones


def homogeneity(table: Floats, draws: int, rng: np.random.Generator) -> float:
    """Return the p-value of the hypothesis that all rows of a table of counts have one distribution; at least 1 / (draws + 1)."""
    table = without_zeros(table)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if min(table.shape, default=0) < 2 or rows.sum() <= 3:
        return 1.0
    observed = float(statistic(table, rows, columns))
    mean, variance = moments(rows, columns)
    if observed <= mean or variance <= 1e-12:
        return 1.0
    likely = float(stats.gamma.sf(observed, mean**2 / variance, scale=variance / mean))
    if likely > DOUBT:
        return likely
    law = stats.random_table(rows.astype(np.int64), columns.astype(np.int64))
    extreme, drawn = 0, 0
    while drawn < draws and extreme < ENOUGH:
        tables = law.rvs(min(AT_ONCE, draws - drawn), random_state=rng)
        extreme += int((statistic(tables, rows, columns) >= observed - 1e-9).sum())
        drawn += len(tables)
    return (extreme + 1) / (drawn + 1)


def moments(rows: Floats, columns: Floats) -> tuple[float, float]:
    """Return mean and variance of the chi-squared statistic over all tables with these sums (Dawson 1954)."""
    n, r, c = float(rows.sum()), len(rows), len(columns)
    free_rows, free_columns = (r - 1) * (n - r) / (n - 1), (c - 1) * (n - c) / (n - 1)
    uneven_rows, uneven_columns = (n * (1 / rows).sum() - r**2) / (n - 2), (n * (1 / columns).sum() - c**2) / (n - 2)
    mean = n * (r - 1) * (c - 1) / (n - 1)
    variance = 2 * n / (n - 3) * (free_rows - uneven_rows) * (free_columns - uneven_columns)
    return mean, variance + n**2 / (n - 1) * uneven_rows * uneven_columns
