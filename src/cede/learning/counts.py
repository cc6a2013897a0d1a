"""What was seen, as sums: N(s, d, a) of the agents, N'(s, a, s') of the environment (Section 3 of the paper), and first states.

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
from cede._base.reprs import plural, short_repr
from cede._kernels import costs as cost_kernels
from cede._kernels import layer as kernels
from cede._kernels.costs import N_SUMS, CostLayer
from cede._kernels.layer import CountsArrays, Forgetting, OutcomeIndex
from cede._kernels.tables import Table
from cede.learning.forgetting import forgetting_arrays
from cede.learning.layer_prior import LayerPrior
from cede.learning.turns import Turn
from cede.planning.passes import problem_of
from cede.problem.costs import partly_known
from cede.problem.structure import Outcomes, Structure, checked_structure, n_cases
from cede.problem.task import BY_PREV_AGENT, BY_TIME, Task

Step = tuple[int, int, int, int, int, int]  # t, state, prev_agent, agent, action, next_state
SAME_COST = 1e-6  # how far a measured cost may be from a known one, relative to it or, near 0, absolutely: float32 rounds so


@dataclass(frozen=True, eq=False)
class Episode(Remade):
    """The steps of one episode, n of them (at most the horizon). `rollout` returns one; `Learner.observe_episode` and `count` take
    them. Its arrays are read-only.
    """

    states: Ints  # (n + 1,) the last one is where it ended
    prev_agents: Ints  # (n,) who was in control before; the first is the start agent
    agents: Ints  # (n,) who was in control
    actions: Ints  # (n,)
    costs: Floats  # (n,) cost of each step: environment, control, switching and arriving together
    env_costs: Floats | None = None  # (n,) what the environment charged for each action; needed where that must be learned
    enter_costs: Floats | None = None  # (n,) what it charged for arriving; the same

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
        for name in ("env_costs", "enter_costs"):
            if getattr(self, name) is not None:
                found[name] = partly_known("Episode", name, getattr(self, name), (n,), "(n,)")
        for name, array in found.items():
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def __repr__(self) -> str:
        return short_repr(
            self, lambda: (plural(len(self.actions), "step"), f"cost {self.cost:.6g}", plural(self.switches, "hand-over"))
        )

    @property
    def cost(self) -> float:
        """Return the total cost."""
        return float(self.costs.sum())

    @property
    def switches(self) -> int:
        """Return how often the agent changed. If a hand-over takes several steps, each of these steps is one."""
        return int(np.count_nonzero(self.agents != self.prev_agents))


Shape = tuple[int, int]
LAYERS = ("agents", "environment")
MOST_COUNT = 2**62


def shapes(task: Task, *, flat: bool = False, structure: Structure | None = None) -> tuple[Shape, Shape, Shape]:
    """Return (rows, columns) of the counts of the agents, of those of the environment, and of the sums of costs that are learned.

    flat: for UCRL2, whose environment table has a row for each state and slot. structure: if declared, rows are cases.
    """
    rows = sum(int(n) * cases for n, cases in zip(task.n_slots, cases_of(task, structure), strict=True))
    costs = (len(cost_places(task, flat=flat, structure=structure).least), N_SUMS)
    if structure is not None and structure.environment is not None:
        outcomes = structure.environment
        return (rows, task.n_actions), (outcomes.n_cases, outcomes.to.shape[1]), costs
    places = task.n_periods * task.n_states * (int(task.n_slots.sum()) if flat else task.n_actions)
    return (rows, task.n_actions), (places, task.n_states), costs


@dataclass(frozen=True, eq=False)
class CostPlaces:
    """Where costs that must be learned are counted, and what they can be. `cost_places` makes it."""

    place: Ints  # (S, A), or (S, slots) for UCRL2: the row of each cost, -1: it is known; empty: all are
    enter_place: Ints  # (S,) the row of the cost of arriving, -1: it is known; empty: all are
    least: Floats  # (rows,)
    spread: Floats  # (rows,) the most minus the least


def cost_places(task: Task, *, flat: bool = False, structure: Structure | None = None) -> CostPlaces:
    """Return where costs are counted that must be learned. Arguments: as for `shapes`.

    UCRL2, which ignores actions, must learn the mean cost of every agent in every state where actions differ in cost.
    """
    low, high = task.extremes_of_env_cost
    unknown = np.isnan(task.env_cost)
    if flat:
        unknown = np.repeat(((high > low) & ~task.is_terminal)[:, None], int(task.n_slots.sum()), axis=1)
    labels = np.arange(unknown.size).reshape(unknown.shape)
    if structure is not None and structure.costs is not None and not flat:
        labels = structure.costs
    used, number = np.unique(labels[unknown], return_inverse=True)
    place = np.full(unknown.shape, -1, dtype=np.int64)
    place[unknown] = number
    least, spread = np.empty(len(used)), np.empty(len(used))
    states = np.nonzero(unknown)[0]
    ends = (low, high) if flat else (np.full(task.n_states, end) for end in task.cost_range or (0.0, 0.0))
    lowest, highest = ends
    least[number], spread[number] = lowest[states], (highest - lowest)[states]
    enter_place = np.empty(0, dtype=np.int64)
    if task.enter_cost is not None and np.isnan(task.enter_cost).any():
        enter_unknown = np.isnan(task.enter_cost)
        enter_place = np.where(enter_unknown, len(used) + np.cumsum(enter_unknown) - 1, -1)
        n, (begin, end) = int(enter_unknown.sum()), task.enter_cost_range
        least, spread = np.concatenate([least, np.full(n, begin)]), np.concatenate([spread, np.full(n, end - begin)])
    return CostPlaces(place if len(used) else np.empty((0, 0), dtype=np.int64), enter_place, least, spread)


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
    (agent_rows, n_actions), (rows, columns), _ = shapes(task, flat=flat, structure=structure)
    relabelled = structure is not None and any(isinstance(seen, Outcomes) for seen in structure.agents.values())
    agents = {"place": whole.case[whole.row], "outcomes": outcome_index(whole if relabelled else None)}
    outcomes = None if structure is None else structure.environment
    if outcomes is not None:
        environment = {"place": outcomes.case[outcomes.row], "outcomes": outcome_index(outcomes)}
    else:
        places = np.arange(rows).reshape(task.n_periods * task.n_states, -1)
        environment = {"place": places, "outcomes": outcome_index(None)}
    return {**agents, "counted": agent_rows, "n_columns": n_actions}, {**environment, "counted": rows, "n_columns": columns}


def places_of(task: Task, *, structure: Structure | None = None) -> tuple[Ints, Ints]:
    """Return the row in which each place is counted: (slots, S) for the agents' table, (P * S, A) for the environment's."""
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
    costs: Any = None  # (rows, 4) of each unknown cost, from 0 to 1 in its range: count, sum (in two parts), sum of squares
    starts: Any = None  # (S,) how often each state was the first of an episode of the team; empty: this was not counted

    def __post_init__(self) -> None:
        for name in ("episodes", "environment_episodes"):
            object.__setattr__(self, name, check.integer("Counts", name, getattr(self, name), 0, MOST_COUNT))
        if self.costs is None:
            object.__setattr__(self, "costs", sp.csr_array((0, N_SUMS), dtype=np.float64))
        for name in ("agents", "environment", "costs"):
            object.__setattr__(self, name, checked_counts("Counts", name, getattr(self, name)))
        check_sums("Counts", self.costs)
        object.__setattr__(self, "starts", checked_starts("Counts", self.starts))

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            layers = (f"{name}: {getattr(self, name).sum():,.6g} steps in {getattr(self, name).nnz:,} places" for name in LAYERS)
            return plural(self.episodes, "episode"), *layers

        return short_repr(self, parts)

    @classmethod
    def zeros(cls, task: Task, *, flat: bool = False, structure: Structure | None = None) -> "Counts":
        """Make counts of nothing for a task. flat: for UCRL2. structure: as declared, or None."""
        agents, environment, costs = shapes(task, flat=flat, structure=structure)
        return cls(
            agents=sp.csr_array(agents, dtype=np.int64),
            environment=sp.csr_array(environment, dtype=np.int64),
            episodes=0,
            environment_episodes=0,
            costs=sp.csr_array(costs, dtype=np.float64),
            starts=np.zeros(task.n_states),
        )

    def __add__(self, other: "Counts") -> "Counts":
        """Add the counts of other episodes."""
        if not isinstance(other, Counts):
            return NotImplemented
        for layer in ("agents", "environment", "costs"):
            mine, theirs = getattr(self, layer).shape, getattr(other, layer).shape
            if mine != theirs:
                check.fail("Counts +", f"the shape of {layer}", theirs, f"{mine}, as on the left")
        both = self.starts.size > 0 and other.starts.size > 0
        if both and self.starts.shape != other.starts.shape:
            check.fail("Counts +", "the shape of starts", other.starts.shape, f"{self.starts.shape}, as on the left")
        return Counts(
            agents=canonical(self.agents + other.agents),
            environment=canonical(self.environment + other.environment),
            episodes=self.episodes + other.episodes,
            environment_episodes=self.environment_episodes + other.environment_episodes,
            costs=canonical(self.costs + other.costs),
            starts=self.starts + other.starts
            if self.starts.size and other.starts.size
            else (self if self.starts.size else other).starts,
        )


def check_sums(owner: str, sums: sp.csr_array) -> None:
    """Check sums of costs, (rows, 4): of n numbers from 0 to 1 the sum is at most n, that of squares no more than that."""
    if sums.shape[1] != N_SUMS:
        check.fail(owner, "the number of columns of costs", sums.shape[1], f"{N_SUMS}: count, sum in two parts, sum of squares")
    n, coarse, rest, squares = np.asarray(sums.toarray()).T
    total = coarse + rest
    wrong = (total > n * (1 + 1e-6) + 1e-6) | (squares > total * (1 + 1e-6) + 1e-6)
    if wrong.any():
        row = int(np.argmax(wrong))
        given = [float(one[row]) for one in (n, total, squares)]
        check.fail(owner, f"costs[{row}]", check.show(given), "count, sum and sum of squares of numbers from 0 to 1")


def checked_starts(owner: str, given: Any) -> Floats:
    """Check how often each state was the first of an episode, (S,), and return a copy, read-only; empty for None."""
    result = np.empty(0) if given is None else check.copied(owner, "starts", given, "(S,)")
    if result.ndim != 1 or not ((result >= 0.0) & (result <= MOST_COUNT)).all():
        check.fail(owner, "starts", check.show(given), f"(S,) of numbers from 0 to {MOST_COUNT}")
    result.setflags(write=False)
    return result


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
    if task.horizon is not None and len(episode.actions) > task.horizon:
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
    if task.terminal and task.is_terminal[episode.states[:-1]].any():
        at = int(np.argmax(task.is_terminal[episode.states[:-1]]))
        check.fail(owner, f"states[{at}]", int(episode.states[at]), "one in which an episode goes on: it ends there")
    moves = (episode.states[:-1], episode.actions, episode.states[1:])
    measured = (episode.env_costs, episode.enter_costs)
    charged(owner, task, *moves, measured)
    return episode


def check_known_costs(
    owner: str,
    task: Task,
    states: Ints,
    actions: Ints,
    nexts: Ints,
    measured: tuple[Any, Any],
    place: str = "",
) -> None:
    """Check that no cost contradicts one that the task says: nobody would learn from it, and a record would not hold it.

    The arguments are those of `charged`. Episodes are not checked: `rollout` draws random costs of which a task says the mean.
    """
    arriving = np.zeros(len(states)) if task.enter_cost is None else task.enter_cost[nexts]
    for name, told, given in zip(("cost", "enter_cost"), (task.env_cost[states, actions], arriving), measured, strict=True):
        if given is None:
            continue
        found = np.asarray(given, dtype=np.float64)
        wrong = np.abs(found - told) > SAME_COST * (1.0 + np.abs(told))  # never where one of them is NaN
        if wrong.any():
            i = int(np.argmax(wrong))
            entry = f"env_cost[{states[i]}, {actions[i]}]" if name == "cost" else f"enter_cost[{nexts[i]}]"
            unknown = "NaN there and a cost_range" if name == "cost" else "NaN there and an enter_cost_range"
            expected = f"{told[i]:g}, as {entry} of the task says, or left out; a cost that is measured is declared unknown"
            check.fail(owner, name + place.format(i=i), float(found[i]), f"{expected}: {unknown}")


def charged(
    owner: str, task: Task, states: Ints, actions: Ints, nexts: Ints, measured: tuple[Any, Any], place: str = ""
) -> tuple[Floats, Floats]:
    """Check what the environment charged in some steps, where the task does not say it; return it for actions and for arriving,
    (n,) each.

    measured: the same two as they were measured, NaN or None where they were not. place: how a step is called in an error, with {i}
    for its number.
    """
    env_cost = task.env_cost[states, actions]
    enter_cost = np.zeros(len(states)) if task.enter_cost is None else task.enter_cost[nexts]
    result = []
    for name, told, given, ends in (
        ("cost", env_cost, measured[0], task.cost_range),
        ("enter_cost", enter_cost, measured[1], task.enter_cost_range),
    ):
        unknown = np.isnan(told)
        if not unknown.any():
            result.append(told)
            continue
        found = np.full(len(states), np.nan) if given is None else np.asarray(given, dtype=np.float64)
        missing = unknown & np.isnan(found)
        if missing.any():
            i = int(np.argmax(missing))
            where = f"env_cost[{states[i]}, {actions[i]}]" if name == "cost" else f"enter_cost[{nexts[i]}]"
            check.fail(owner, name + place.format(i=i), "missing", f"given: the task does not say what {where} is")
        wrong = unknown & ~((found >= ends[0]) & (found <= ends[1]))
        if wrong.any():
            i = int(np.argmax(wrong))
            expected = f"from {ends[0]:g} to {ends[1]:g}, the {'cost_range' if name == 'cost' else 'enter_cost_range'} of the task"
            check.fail(owner, name + place.format(i=i), float(found[i]), expected)
        result.append(np.where(unknown, found, told))
    return result[0], result[1]


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
    """Growing counts of an environment and of its costs. A learner has its own, or shares that of its fleet."""

    table: Table
    costs: Table  # sums of costs that are learned, (rows, 4)
    rows: int  # the first so many rows of the table are counted; rows of a known table may follow
    episodes: int  # episodes counted into it, of all teams
    structure: Structure | None = None  # whose cases the rows are, without agents; None: a row for each pair (s, a)
    fades: bool = False
    turn: Turn = field(default_factory=Turn)  # of all that count into it
    prior: LayerPrior | None = None  # from features, of all teams that were told some; None: nothing was fitted yet

    @classmethod
    def of(cls, counts: Counts, known: sp.csr_array | None = None) -> "EnvironmentTally":
        """Make a tally from counts. known: rows of a known table, which are appended."""
        table, costs = Table.of(below(counts.environment, known)), Table.of(counts.costs)
        return cls(table, costs, counts.environment.shape[0], counts.environment_episodes)

    @property
    def counts(self) -> sp.csr_array:
        """Return the counts as a matrix, (rows, columns)."""
        return as_counts(self.table.matrix(self.rows), fades=self.fades)

    @property
    def cost_sums(self) -> sp.csr_array:
        """Return the sums of costs as a matrix, (rows, 4)."""
        return self.costs.matrix()

    def as_it_is(self) -> dict[str, Any]:
        """Return all that changes in it, by name; of tables a copy."""
        return {"table": self.table.copy(), "costs": self.costs.copy(), "episodes": self.episodes, "prior": self.prior}


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
        fading = forgetting or tuple(forgetting_arrays([], task.plan_steps, NO_INTS) for _ in range(2))
        agents, outside = new_layers(task, flat=flat, structure=structure)
        self.agents = CountsArrays(seen=Table.of(below(counts.agents, known_agents)), forgetting=fading[0], **agents)
        if environment is None:
            environment = EnvironmentTally.of(counts, known_environment)
            environment.structure = None if structure is None else structure.of_environment
            environment.fades = fading[1].factor.size > 0
        self.environment_tally = environment
        self._environment = CountsArrays(seen=environment.table, forgetting=fading[1], **outside)
        self._costs = cost_layer(task, cost_places(task, flat=flat, structure=structure), environment.costs, fading[1])
        self.problem = problem_of(task)
        for layer in (self.agents, self._environment):
            if layer.forgetting.factor.size:
                sum_in_order(layer.seen, layer.counted)
        self.episodes = counts.episodes
        self.starts = counts.starts.copy() if counts.starts.size else np.zeros(task.n_states)
        self.keys = np.empty((2, 0), dtype=np.int64)  # if counts fade: where the steps of the running episode were counted
        self.cost_rows, self.cost_parts = NO_INTS, np.empty(0)  # and its costs

    @property
    def environment(self) -> CountsArrays:
        """Return where the environment is counted. A fleet may replace its table as a whole; then the new one is taken."""
        if self._environment.seen is not self.environment_tally.table:
            self._environment.seen = self.environment_tally.table
        return self._environment

    @property
    def costs(self) -> CostLayer:
        """Return where costs are counted that must be learned."""
        if self._costs.counts.seen is not self.environment_tally.costs:
            self._costs.counts.seen = self.environment_tally.costs
        return self._costs

    @property
    def layers(self) -> tuple[CountsArrays, CountsArrays]:
        """Return where the agents and the environment are counted."""
        return self.agents, self.environment

    @property
    def fades(self) -> bool:
        """Return whether any counts fade."""
        return any(layer.forgetting.factor.size > 0 for layer in self.layers)

    def add(self, *steps: Ints, costs: Floats | None = None, enter_costs: Floats | None = None) -> None:
        """Count steps: times, states, previous agents, agents, actions and next states, (n,) each.

        costs, enter_costs: (n,) what the environment charged; needed where some costs must be learned.
        """
        given = (*self.layers, self.problem, int(self.flat), *steps)
        if self.task.horizon is not None:
            self.add_starts(steps[1][steps[0] == 0])
        if self.costs.least.size:
            self._add_costs(steps, costs, enter_costs)
        if self.fades:
            keys = np.empty((2, len(steps[0])), dtype=np.int64)
            kernels.keys_of_steps(*given, *keys)
            self.keys = np.concatenate([self.keys, keys], axis=1)
        cells, counted = np.empty((4, kernels.CHUNK), dtype=np.int64), np.zeros(1, dtype=np.int64)
        while counted[0] < len(steps[0]):
            for layer, places in zip(self.layers, kernels.count_steps(*given, cells, counted), strict=True):
                if places > 0:
                    layer.seen.lengthen(places)

    def add_starts(self, states: Ints) -> None:
        """Count the first states of episodes, (n,). Where counts of the environment fade, older ones fade before each."""
        keep = kernels.part_kept(self._environment.forgetting)
        for state in states.tolist():
            if keep < 1.0:
                self.starts *= keep
                self.starts[self.starts < kernels.LEAST_WEIGHT] = 0.0
            self.starts[state] += 1.0

    def _add_costs(self, steps: tuple[Ints, ...], costs: Floats | None, enter_costs: Floats | None) -> None:
        """Count the costs of steps, where they must be learned. The arguments are those of `add`."""
        times, states, prevs, who, actions, nexts = steps
        measured, arriving = charged("Tally", self.task, states, actions, nexts, (costs, enter_costs))
        layer, n = self.costs, len(states)
        rows, parts = np.full(2 * n, -1, dtype=np.int64), np.stack([measured, arriving], axis=1).reshape(-1)
        if layer.counts.place.size:
            vary = self.task.vary[who]
            slots = self.task.slot[who] + np.where(vary == BY_TIME, times, np.where(vary == BY_PREV_AGENT, prevs, 0))
            rows[0::2] = layer.counts.place[states, slots if self.flat else actions]
        if layer.enter_place.size:
            rows[1::2] = layer.enter_place[nexts]
        places = cost_kernels.PLACES * len(np.unique(rows))
        if len(layer.counts.seen.column) - layer.counts.seen.end < places:
            layer.counts.seen.lengthen(places)
        cost_kernels.count_costs(layer, rows, parts)
        if layer.counts.forgetting.factor.size:
            self.cost_rows, self.cost_parts = np.concatenate([self.cost_rows, rows]), np.concatenate([self.cost_parts, parts])

    def add_episode(self, episode: Episode) -> None:
        """Count all steps of an episode."""
        self.add(*steps_of(episode), costs=episode.env_costs, enter_costs=episode.enter_costs)

    def end_episode(self) -> None:
        """Note that an episode is over, and let counts fade."""
        self.episodes += 1
        self.environment_tally.episodes += 1
        if self.fades:
            for layer, keys in zip(self.layers, self.keys, strict=True):
                if layer.forgetting.factor.size:
                    kernels.forget(layer, self.episodes, np.ascontiguousarray(keys))
            self.keys = self.keys[:, :0]
            if self.costs.least.size and self.costs.counts.forgetting.factor.size:
                cost_kernels.forget_costs(self.costs, self.episodes, self.cost_rows, self.cost_parts)
                self.cost_rows, self.cost_parts = NO_INTS, np.empty(0)

    @property
    def counts(self) -> Counts:
        """Return a copy of all that was counted."""
        seen = self.agents.seen.matrix(self.agents.counted)
        return Counts(
            agents=as_counts(seen, fades=self.agents.forgetting.factor.size > 0),
            environment=self.environment_tally.counts,
            episodes=self.episodes,
            environment_episodes=self.environment_tally.episodes,
            costs=self.environment_tally.cost_sums,
            starts=self.starts,
        )


def cost_layer(task: Task, where: CostPlaces, table: Table, forgetting: Forgetting) -> CostLayer:
    """Return where costs that must be learned are counted, in the form that kernels read.

    table: their sums. forgetting: how the counts of the environment fade: with one rule, all rows alike.
    """
    n, factor, window = len(where.least), forgetting.factor, int(forgetting.lengths.max(initial=0))
    none, no_steps = forgetting_arrays([], task.plan_steps, NO_INTS), np.empty((0, 0), dtype=np.int64)
    if factor.size and n:
        none.factor, none.window = np.full(n, factor[0]), np.zeros(n, dtype=np.int64)
    steps = (window, 2 * task.plan_steps) if n else (0, 0)
    return CostLayer(
        counts=CountsArrays(
            seen=table, counted=n, n_columns=N_SUMS, place=where.place, outcomes=outcome_index(None), forgetting=none
        ),
        enter_place=where.enter_place,
        least=where.least,
        spread=where.spread,
        low=np.empty(n),
        high=np.empty(n),
        mean=np.empty(n),
        window=window if n else 0,
        recent_row=np.full(steps, -1, dtype=np.int64) if n else no_steps,
        recent_part=np.zeros(steps),
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
