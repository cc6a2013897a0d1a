"""What was seen, as sums: N(s, d, a) of the agents and N'(s, a, s') of the environment (Section 3 of the paper).

Counts add. Any split of the same episodes, counted separately and added in any order, gives the same counts. If a structure is
declared, a step is counted in the row of its case.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Floats, Ints, canonical
from cede._base.remade import Remade
from cede._kernels import layer as kernels
from cede._kernels.layer import CountsArrays, Forgetting, OutcomeIndex
from cede._kernels.tables import Sums, Table
from cede.learning.forgetting import forgetting_arrays
from cede.learning.turns import Turn
from cede.planning.passes import problem_of
from cede.problem.structure import Outcomes, Structure, checked_structure, n_cases
from cede.problem.task import Task


@dataclass(frozen=True, eq=False)
class Episode(Remade):
    """The steps of one episode, n of them (at most the horizon). `rollout` returns one; `Learner.observe_episode` and `count` take
    them. Its arrays are read-only.
    """

    states: Ints  # (n + 1,) the last one is where it ended
    prev_agents: Ints  # (n,) who was in control before; the first is the start agent
    agents: Ints  # (n,) who was in control
    actions: Ints  # (n,)
    costs: Floats  # (n,) cost of each step: environment, control and switching together

    def __post_init__(self) -> None:
        found: dict[str, Any] = {}
        for name in ("states", "prev_agents", "agents", "actions"):
            found[name] = check.integers("Episode", name, getattr(self, name), 1)
            if found[name].size and found[name].min() < 0:
                i = int(np.argmax(found[name] < 0))
                check.fail("Episode", f"{name}[{i}]", int(found[name][i]), "an integer of at least 0")
        n = len(found["actions"])
        found["costs"] = costs = check.copied("Episode", "costs", self.costs, "(n,)")
        sides = tuple(len(found[name]) for name in ("prev_agents", "agents"))
        if (len(found["states"]) - 1, *sides) != (n, n, n) or costs.shape != (n,):
            what = "the number of states - 1, prev_agents, agents, actions and costs"
            check.fail("Episode", what, (len(found["states"]) - 1, *sides, n, costs.size), "equal")
        if n == 0:
            check.fail("Episode", "the number of steps", 0, "at least 1")
        follows = found["prev_agents"][1:] == found["agents"][:-1]
        if not follows.all():
            i = int(np.argmin(follows)) + 1
            who = int(found["agents"][i - 1])
            check.fail(
                "Episode", f"prev_agents[{i}]", int(found["prev_agents"][i]), f"{who}, who was in control in the step before"
            )
        check.finite("Episode", "costs", costs)
        for name, array in found.items():
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def cost(self) -> float:
        """Return the total cost."""
        return float(self.costs.sum())

    @property
    def switches(self) -> int:
        """Return how often the agent changed. If a hand-over takes several steps, each of these steps is one."""
        return int(np.count_nonzero(self.agents != self.prev_agents))


Shape = tuple[int, int]
MOST_COUNT = 2**62


def shapes(task: Task, *, flat: bool = False, structure: Structure | None = None) -> tuple[Shape, Shape]:
    """Return (rows, columns) of the counts of the agents, and of those of the environment.

    flat: for UCRL2, whose environment table has a row for each state and slot. structure: if declared, rows are cases.
    """
    rows = sum(int(n) * cases for n, cases in zip(task.n_slots, cases_of(task, structure), strict=True))
    if structure is not None and structure.environment is not None:
        outcomes = structure.environment
        return (rows, task.n_actions), (outcomes.n_cases, outcomes.to.shape[1])
    slots = int(task.n_slots.sum())
    return (rows, task.n_actions), (task.n_states * (slots if flat else task.n_actions), task.n_states)


def cases_of(task: Task, structure: Structure | None) -> list[int]:
    """Return how many situations each policy of `task.tables` distinguishes: all states, or its declared cases."""
    declared = {} if structure is None else structure.agents
    return [n_cases(declared[name]) if name in declared else task.n_states for name in task.tables]


def new_layers(task: Task, *, flat: bool = False, structure: Structure | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return where steps are counted: for the agents and for the environment the fields of `CountsArrays` that follow from the
    task.

    These are `place`, `outcomes`, `counted` and `n_columns`. Rows of the agents are ordered by agent, then slot, then case; rows of
    the environment by state and action, or as the structure numbers its cases.
    """
    whole = all_agents(task, structure)
    (agent_rows, n_actions), (rows, columns) = shapes(task, flat=flat, structure=structure)
    relabelled = structure is not None and any(isinstance(seen, Outcomes) for seen in structure.agents.values())
    agents = {"place": whole.case[whole.row], "outcomes": outcome_index(whole if relabelled else None)}
    outcomes = None if structure is None else structure.environment
    if outcomes is not None:
        environment = {"place": outcomes.case[outcomes.row], "outcomes": outcome_index(outcomes)}
    else:
        environment = {"place": np.arange(rows).reshape(task.n_states, -1), "outcomes": outcome_index(None)}
    return {**agents, "counted": agent_rows, "n_columns": n_actions}, {**environment, "counted": rows, "n_columns": columns}


def places_of(task: Task, *, structure: Structure | None = None) -> tuple[Ints, Ints]:
    """Return the row in which each place is counted: (slots, S) for the agents' table, (S, A) for the environment's."""
    agents, environment = new_layers(task, structure=structure)
    return agents["place"], environment["place"]


@dataclass(frozen=True, eq=False)
class Rows:
    """The declared structure of all agents of a task together, laid out as `Outcomes` is for one agent. `all_agents` makes it."""

    row: Ints  # (slots, S)
    case: Ints  # (rows,) row of the counts
    to: Ints  # (rows, A) the action of each outcome


def all_agents(task: Task, structure: Structure | None) -> Rows:
    """Return the cases of all agents of a task, agent by agent and slot by slot; without a declaration each state is a case."""
    declared = {} if structure is None else structure.agents
    same = np.arange(task.n_actions)[None, :]
    row, case, to = np.empty((int(task.n_slots.sum()), task.n_states), dtype=np.int64), [], []
    rows, cases = 0, 0
    for d, name in enumerate(task.tables):
        seen = declared.get(name, np.arange(task.n_states))
        for slot in range(int(task.n_slots[d])):
            if isinstance(seen, Outcomes):
                own, here, means = seen.case, seen.row, seen.to.astype(np.int64)
            else:
                own, here = np.arange(n_cases(seen)), seen
                means = np.repeat(same, len(own), axis=0)
            row[int(task.first_slot[d]) + slot] = rows + here
            case.append(cases + own)
            to.append(means)
            rows, cases = rows + len(own), cases + n_cases(seen)
    return Rows(row, np.concatenate(case), np.concatenate(to))


def outcome_index(outcomes: Outcomes | Rows | None) -> OutcomeIndex:
    """Return the index by which kernels find which outcome of a place a step was. None: an outcome is the next state or action
    itself.
    """
    if outcomes is None:
        return OutcomeIndex(entry=np.empty((0, 0), dtype=np.int64), **dict.fromkeys(("begin", "to", "outcome"), NO_INTS))
    begin, means, which = [0], [], []
    for to in outcomes.to.astype(np.int64):
        possible = np.flatnonzero(to >= 0)
        order = possible[np.argsort(to[possible])]
        begin.append(begin[-1] + len(order))
        means.append(to[order])
        which.append(order)
    lists = {"begin": np.array(begin, dtype=np.int64), "to": np.concatenate(means)}
    return OutcomeIndex(entry=outcomes.row.reshape(-1, outcomes.row.shape[-1]).copy(), **lists, outcome=np.concatenate(which))


NO_INTS: Ints = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Counts(Remade):
    """Sparse sums over episodes: how often each agent took each action, and how often each next state followed.

    `count` makes them of episodes, `Learner.counts` returns those of a learner, and `+` adds two.

    Rows of `agents`: slot * S + s, with one slot for each policy of `task.tables` (or one for each time step or previous agent if
    the policy varies with that). Rows of `environment`: s * A + a; for UCRL2, which ignores actions, s * slots + slot. If a
    structure is declared, rows are cases and columns are outcomes. Counts are whole numbers, unless they fade. All is read-only.
    """

    agents: sp.csr_array  # (slots * S, A) int64
    environment: sp.csr_array  # (S * A, S) int64; flat: (S * slots, S); or (cases, outcomes)
    episodes: int
    environment_episodes: int  # counted into `environment`; more than `episodes` in a fleet, whose teams share it

    def __post_init__(self) -> None:
        for name in ("episodes", "environment_episodes"):
            object.__setattr__(self, name, check.integer("Counts", name, getattr(self, name), 0, MOST_COUNT))
        for name in ("agents", "environment"):
            object.__setattr__(self, name, checked_counts("Counts", name, getattr(self, name)))

    @classmethod
    def zeros(cls, task: Task, *, flat: bool = False, structure: Structure | None = None) -> "Counts":
        """Make counts of nothing for a task. flat: for UCRL2. structure: as declared, or None."""
        agents, environment = shapes(task, flat=flat, structure=structure)
        return cls(
            agents=sp.csr_array(agents, dtype=np.int64),
            environment=sp.csr_array(environment, dtype=np.int64),
            episodes=0,
            environment_episodes=0,
        )

    def __add__(self, other: "Counts") -> "Counts":
        """Add the counts of other episodes."""
        if not isinstance(other, Counts):
            return NotImplemented
        for layer in ("agents", "environment"):
            mine, theirs = getattr(self, layer).shape, getattr(other, layer).shape
            if mine != theirs:
                check.fail("Counts +", f"the shape of {layer}", theirs, f"{mine}, as on the left")
        return Counts(
            agents=canonical(self.agents + other.agents),
            environment=canonical(self.environment + other.environment),
            episodes=self.episodes + other.episodes,
            environment_episodes=self.environment_episodes + other.environment_episodes,
        )


def checked_counts(owner: str, layer: str, given: Any) -> sp.csr_array:
    """Check a sparse matrix of counts, finite numbers of at least 0, and return it in canonical form, read-only."""
    if not sp.issparse(given) or given.ndim != 2 or given.dtype.kind not in "iuf":
        check.fail(owner, layer, check.show(given), "a SciPy matrix of counts, (rows, columns)")
    wrong = ~(np.isfinite(given.data) & (given.data >= 0) & (given.data <= MOST_COUNT)) if given.nnz else np.zeros(0, dtype=bool)
    if wrong.any():
        check.fail(owner, f"a count of {layer}", given.data[wrong][0], f"a number from 0 to {MOST_COUNT}")
    result = canonical(sp.csr_array(given, dtype=np.float64 if given.dtype.kind == "f" else np.int64))
    for array in (result.data, result.indices, result.indptr):
        array.setflags(write=False)
    return result


def checked_episode(owner: str, task: Task, given: Any) -> Episode:
    """Check that an episode fits the task, and return it."""
    episode = check.instance(owner, "episode", given, Episode)
    if len(episode.actions) > task.horizon:
        check.fail(owner, "the number of steps of the episode", len(episode.actions), f"at most {task.horizon}, the horizon")
    for name, size in (
        ("states", task.n_states),
        ("prev_agents", task.n_agents),
        ("agents", task.n_agents),
        ("actions", task.n_actions),
    ):
        values = getattr(episode, name)
        if values.size and values.max() >= size:
            at = int(np.argmax(values >= size))
            check.index(owner, f"{name}[{at}]", values[at], size)
    return episode


def check_outcomes(owner: str, structure: Structure | None, states: Ints, actions: Ints, nexts: Ints, place: str = "") -> None:
    """Check that the declared structure allows every step, since others cannot be counted.

    states, actions, nexts: (n,) each. place: how a next state is called in an error, with {i} for the number of the step.
    """
    if structure is None or structure.environment is None or not len(states):
        return
    outcomes = structure.environment
    possible = (outcomes.to[outcomes.row[states, actions]] == nexts[:, None]).any(axis=1)
    if not possible.all():
        i = int(np.argmin(possible))
        known = outcomes.states_from(int(states[i]), int(actions[i]))
        after = f"after state {states[i]} and action {actions[i]}"
        expected = f"one of {check.show(known)}: the declared structure knows no other {after}"
        check.fail(owner, place.format(i=i) or "next_state", int(nexts[i]), expected)


def count(task: Task, episodes: Iterable[Episode], *, flat: bool = False, structure: Structure | None = None) -> Counts:
    """Count episodes.

    task: what the episodes belong to. episodes: the Episodes. flat: count p(s' | s, d) instead of p(s' | s, a), for UCRL2.
    structure: count by the cases of a declared structure.
    """
    check.instance("count", "task", task, Task, ", as in mdp.task")
    flat = check.truth("count", "flat", flat)
    checked_structure("count", structure, task.n_states, task.n_actions, task.tables)
    if flat and structure is not None:
        check.fail("count", "structure", "given", "left out with flat: agents and environment are one in that table")
    tally = Tally(task, Counts.zeros(task, flat=flat, structure=structure), flat=flat, structure=structure)
    for given in check.items("count", "episodes", episodes, "Episodes"):
        episode = checked_episode("count", task, given)
        check_outcomes("count", structure, episode.states[:-1], episode.actions, episode.states[1:])
        tally.add_episode(episode)
        tally.end_episode()
    return tally.counts


@dataclass(eq=False)
class EnvironmentTally:
    """Growing counts of an environment. A learner has its own, or shares that of its fleet."""

    table: Table
    rows: int  # the first so many rows of the table are counted; rows of a known table may follow
    episodes: int  # episodes counted into it, of all teams
    structure: Outcomes | None = None  # whose cases the rows are; None: a row for each pair (s, a)
    fades: bool = False
    turn: Turn = field(default_factory=Turn)  # of all that count into it

    @classmethod
    def of(cls, counts: sp.csr_array, episodes: int, known: sp.csr_array | None = None) -> "EnvironmentTally":
        """Make a tally from counts, (rows, columns). known: rows of a known table, which are appended."""
        return cls(Table.of(below(counts, known)), counts.shape[0], episodes)

    @property
    def counts(self) -> sp.csr_array:
        """Return the counts as a matrix, (rows, columns)."""
        return as_counts(self.table.matrix(self.rows), fades=self.fades)


def check_counted(owner: str, structure: Outcomes | None, rows: Ints, columns: Ints) -> None:
    """Check that counts from outside lie in columns that are outcomes of their case, which kernels trust.

    structure: that of the environment, or None. rows, columns: (n,) where there are counts.
    """
    if structure is not None and (columns >= structure.n_outcomes[rows]).any():
        i = int(np.argmax(columns >= structure.n_outcomes[rows]))
        most = int(structure.n_outcomes[rows[i]])
        check.fail(owner, f"a counted outcome of case {rows[i]}", int(columns[i]), f"from 0 to {most - 1}: it has {most}")


def as_counts(matrix: sp.csr_array, *, fades: bool) -> sp.csr_array:
    """Return counts as integers; if they fade, as they are."""
    return matrix if fades else matrix.astype(np.int64)


def steps_of(episode: Episode) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Return the steps of an episode as kernels take them, (n,) each: times, states, previous agents, agents, actions, next states.

    They are copies: kernels are compiled for arrays that may be written.
    """
    states, prevs, agents, actions = (one.copy() for one in (episode.states, episode.prev_agents, episode.agents, episode.actions))
    return np.arange(len(actions)), states[:-1], prevs, agents, actions, states[1:]


class Tally:
    """Counts that grow in place; counting a step costs only what it changes. A learner that is at work has one.

    counts: what was counted before. flat, structure: as for `count`. environment: the tally that counts the environment, if it is
    shared with others; else one is made from `counts`. known_agents, known_environment: (n, columns) rows of known tables, appended
    after the counted rows. forgetting: how counts fade, of the agents and of the environment; None: not at all.
    """

    def __init__(
        self,
        task: Task,
        counts: Counts,
        *,
        flat: bool,
        structure: Structure | None = None,
        environment: EnvironmentTally | None = None,
        known_agents: sp.csr_array | None = None,
        known_environment: sp.csr_array | None = None,
        forgetting: tuple[Forgetting, Forgetting] | None = None,
    ) -> None:
        self.task, self.flat = task, flat
        fading = forgetting or tuple(forgetting_arrays([], task.horizon, NO_INTS) for _ in range(2))
        agents, outside = new_layers(task, flat=flat, structure=structure)
        self.agents = CountsArrays(seen=Table.of(below(counts.agents, known_agents)), forgetting=fading[0], **agents)
        if environment is None:
            environment = EnvironmentTally.of(counts.environment, counts.environment_episodes, known_environment)
            environment.structure = None if structure is None else structure.environment
            environment.fades = fading[1].factor.size > 0
        self.environment_tally = environment
        self._environment = CountsArrays(seen=environment.table, forgetting=fading[1], **outside)
        self.problem = problem_of(task)
        for layer in (self.agents, self._environment):
            if layer.forgetting.factor.size:
                sum_in_order(layer.seen, layer.counted)
        self.episodes = counts.episodes
        self.keys = np.empty((2, 0), dtype=np.int64)  # if counts fade: where the steps of the running episode were counted

    @property
    def environment(self) -> CountsArrays:
        """Return where the environment is counted. A fleet may replace its table as a whole; then the new one is taken."""
        if self._environment.seen is not self.environment_tally.table:
            self._environment.seen = self.environment_tally.table
        return self._environment

    @property
    def layers(self) -> tuple[CountsArrays, CountsArrays]:
        """Return where the agents and the environment are counted."""
        return self.agents, self.environment

    @property
    def fades(self) -> bool:
        """Return whether any counts fade."""
        return any(layer.forgetting.factor.size > 0 for layer in self.layers)

    def add(self, *steps: Ints) -> None:
        """Count steps: times, states, previous agents, agents, actions and next states, (n,) each."""
        given = (*self.layers, self.problem, int(self.flat), *steps)
        if self.fades:
            keys = np.empty((2, len(steps[0])), dtype=np.int64)
            kernels.keys_of_steps(*given, *keys)
            self.keys = np.concatenate([self.keys, keys], axis=1)
        cells, counted = np.empty((4, kernels.CHUNK), dtype=np.int64), np.zeros(1, dtype=np.int64)
        while counted[0] < len(steps[0]):
            for layer, places in zip(self.layers, kernels.count_steps(*given, cells, counted), strict=True):
                if places > 0:
                    layer.seen.lengthen(places)

    def stay_in(self, state: int, times: int) -> None:
        """Count, for the environment alone, that every action in a state led back to that state, `times` times each."""
        layer = self.environment
        found: dict[tuple[int, int], float] = {}
        for j, row in enumerate(layer.place[state]):
            cell = (int(row), int(kernels.outcome_of(layer.outcomes, state, j, state)))
            found[cell] = found.get(cell, 0.0) + times
        rows, columns = (np.array(part, dtype=np.int64) for part in zip(*sorted(found), strict=True))
        layer.seen.add(Sums(rows, columns, np.array([found[cell] for cell in sorted(found)])))

    def add_episode(self, episode: Episode) -> None:
        """Count all steps of an episode."""
        self.add(*steps_of(episode))

    def end_episode(self) -> None:
        """Note that an episode is over, and let counts fade."""
        self.episodes += 1
        self.environment_tally.episodes += 1
        if self.fades:
            for layer, keys in zip(self.layers, self.keys, strict=True):
                if layer.forgetting.factor.size:
                    kernels.forget(layer, self.episodes, np.ascontiguousarray(keys))
            self.keys = self.keys[:, :0]

    @property
    def counts(self) -> Counts:
        """Return a copy of all that was counted."""
        seen = self.agents.seen.matrix(self.agents.counted)
        return Counts(
            agents=as_counts(seen, fades=self.agents.forgetting.factor.size > 0),
            environment=self.environment_tally.counts,
            episodes=self.episodes,
            environment_episodes=self.environment_tally.episodes,
        )


def sum_in_order(table: Table, rows: int) -> None:
    """Set the totals of the first rows of a table, each added up from its first outcome to its last.

    Kernels add in this order. If counts are not whole numbers, another order would give other bits.
    """
    sums = table.sums(rows)
    table.total[:rows] = np.bincount(sums.row, weights=sums.amount, minlength=rows)


def below(counts: sp.csr_array, known: sp.csr_array | None) -> sp.csr_array:
    """Return a matrix with known rows appended below the counts; the counts themselves if `known` is None."""
    return counts if known is None else sp.csr_array(sp.vstack([counts.astype(np.float64), known], format="csr"))
