"""Working counts: tables that grow in place, loaded from stored counts and stored again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede._base.turns import Turn
from cede._kernels.tables import Table
from cede.problem.arrays import problem_of
from cede.problem.layout import BY_PREV_AGENT, BY_TIME
from cede.problem.structure import Structure, checked_structure
from cede.problem.task import CHARGES, Task
from cede.rows import cost_sums
from cede.rows import counting as kernels
from cede.rows.cost_sums import N_SUMS, CostLayer
from cede.rows.counting import CountsArrays, Forgetting
from cede.rows.fading import forgetting_arrays
from cede.rows.places import (
    AGENT,
    COSTS,
    ENVIRONMENT,
    NO_INTS,
    START,
    CostPlaces,
    Places,
    Shape,
    outcome_index,
)
from cede.rows.stored import NOTHING, Counts, LayerCounts, apart, below_one_another
from cede.steps.check import checked_episode
from cede.steps.step import Episode, Steps


@dataclass(frozen=True)
class AgentSpan:
    """The rows of one policy among those of all shared agents, and what must be the same in all teams that share it."""

    first: int
    rows: int
    varies_with: str | None
    structure: str | None  # digest of what is declared of it


@dataclass(eq=False)
class SharedCounts:
    """Working counts of an environment, of its costs, and of agents that teams share by name. A learner has its own counts of the
    environment, or shares those of its fleet.
    """

    table: Table
    costs: Table  # sums of costs that are learned, (rows, 4)
    rows: int  # rows of the table that are counted; rows of a known table may follow
    episodes: int  # episodes counted into it, of all teams
    structure: Structure | None = None  # whose cases the rows are, without agents; None: a row for each pair (s, a)
    turn: Turn = field(default_factory=Turn)  # the lock of all learners that count into it
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # of the layer "environment", declared by options of teams
    agents: Table = field(default_factory=lambda: Table.empty(0, 0))  # rows of agents that are shared by name
    spans: Mapping[str, AgentSpan] = field(default_factory=dict)  # which of these rows each such policy has, by its name
    agents_episodes: int = 0  # episodes of all teams that share some of these agents
    version: int = 0  # of `agents`, which several learners copy into tables of their own

    @classmethod
    def load(
        cls, counts: Counts, shapes: Mapping[str, Shape], known: sp.csr_array | None = None, structure: Structure | None = None
    ) -> "SharedCounts":
        """Make it from stored counts. shapes: of its layers. known: rows of a known table, which are appended."""
        environment, costs = (below_one_another(counts.layers, {name: shapes[name]}) for name in (ENVIRONMENT, COSTS))
        return cls(environment.table(known), costs.table(), environment.shape[0], counts.environment_episodes, structure)

    def store(self, task: Task) -> dict[str, LayerCounts]:
        """Return the counts of the environment, of its costs, and of shared agents of the team with this task, by layer."""
        layers = {ENVIRONMENT: LayerCounts.of_table(self.table, self.rows), COSTS: LayerCounts.of_table(self.costs)}
        return {**layers, **{f"{AGENT}{name}": layer for name, layer in self.agent_layers().items() if name in task.tables}}

    @property
    def layer_names(self) -> set[str]:
        """Return the names of the layers of shared agents."""
        return {f"{AGENT}{name}" for name in self.spans}

    def agent_layers(self) -> dict[str, LayerCounts]:
        """Return the counts of all shared agents, by the name of the policy."""
        parts = apart(LayerCounts.of_table(self.agents), [span.rows for span in self.spans.values()]) if self.spans else []
        return dict(zip(self.spans, parts, strict=True))

    def with_shared_agents(self, counts: Counts, task: Task) -> Counts:
        """Return the counts of a team with the layers of its shared agents."""
        shared = {f"{AGENT}{name}": layer for name, layer in self.agent_layers().items() if name in task.tables}
        return replace(counts, layers={**counts.layers, **shared})

    def rows_of_agents(self, places: Places) -> Ints:
        """Return the shared row of each row of the agents of a team, (rows,); -1: it is the team's own."""
        parts = [NO_INTS]
        for name, rows in zip(places.task.tables, places.agent_rows, strict=True):
            span = self.spans.get(name)
            parts.append(np.full(rows, -1, dtype=np.int64) if span is None else span.first + np.arange(rows))
        return np.concatenate(parts)

    def as_it_is(self) -> dict[str, Any]:
        """Return a snapshot of the fields that change, by name; tables are copied."""
        tables = {"table": self.table.copy(), "costs": self.costs.copy(), "agents": self.agents.copy()}
        return {**tables, **{name: getattr(self, name) for name in ("episodes", "extras", "agents_episodes")}}


class Working:
    """Counts that grow in place; counting a step costs only what it changes.

    places: the rows of the task. counts: stored counts. shared: counts of the environment that are shared with other learners,
    or None. known_agents, known_environment: (n, columns) rows of known tables, appended after the counted rows. forgetting: how
    counts fade, of the agents and of the environment; None: not at all.
    """

    def __init__(
        self,
        places: Places,
        counts: Counts,
        *,
        shared: SharedCounts | None = None,
        known_agents: sp.csr_array | None = None,
        known_environment: sp.csr_array | None = None,
        forgetting: tuple[Forgetting, Forgetting] | None = None,
    ) -> None:
        self.places, self.task, task = places, places.task, places.task
        fading = forgetting or tuple(forgetting_arrays([], task.plan_steps, NO_INTS) for _ in range(2))
        agents, outside = places.new_layers()
        acted = below_one_another(counts.layers, places.of_agents(task.tables))
        self.agents = CountsArrays(seen=acted.table(known_agents), forgetting=fading[0], **agents)
        if shared is None:
            declared = None if places.structure is None else places.structure.of_environment
            shared = SharedCounts.load(counts, places.shapes, known_environment, declared)
        self.shared = shared
        self._environment = CountsArrays(seen=shared.table, forgetting=fading[1], **outside)
        self._costs = cost_layer(task, places.costs, shared.costs, fading[1])
        self.problem = problem_of(task)
        self.episodes, self.others_episodes = counts.episodes, counts.others_episodes
        self.shared_rows = shared.rows_of_agents(places) if shared.spans else np.full(self.agents.counted, -1)
        self.shares_agents = bool((self.shared_rows >= 0).any())
        self.copied: tuple[Table | None, int] = None, 0  # the shared table, and its version, of which there is a copy
        self.refresh()
        self.starts = counts.starts.copy() if counts.starts.size else np.zeros(task.n_states)
        self.keys = np.empty((2, 0), dtype=np.int64)  # if counts fade: keys of the steps of the running episode
        self.cost_rows, self.cost_parts = NO_INTS, np.empty(0)  # and its costs

    def store(self, *, environment: bool = True) -> Counts:
        """Return a copy of all counts; environment: False to leave out those of the environment."""
        names = [f"{AGENT}{name}" for name in self.task.tables]
        self.refresh()
        parts = apart(LayerCounts.of_table(self.agents.seen, self.agents.counted), self.places.agent_rows)
        outside = self.shared.store(self.task) if environment else {}
        layers = {**dict(zip(names, parts, strict=True)), **outside, START: LayerCounts.of_row(self.starts)}
        if not environment:
            layers = {name: layer for name, layer in layers.items() if name.removeprefix(AGENT) not in self.shared.spans}
        others = self.agents_episodes - self.episodes if environment else self.others_episodes
        return Counts(layers, self.episodes, self.shared.episodes if environment else 0, others)

    @property
    def agents_episodes(self) -> int:
        """Return how many episodes were counted into its agents, at most: its own, and those of teams that share some of them."""
        return max(self.episodes + self.others_episodes, self.shared.agents_episodes if self.shares_agents else 0)

    def refresh(self) -> None:
        """Copy the rows of shared agents into the table of all agents, if others have counted since."""
        shared, table = self.shared, self.agents.seen
        if self.shares_agents and (self.copied[0] is not shared.agents or self.copied[1] != shared.version):
            own = np.flatnonzero(self.shared_rows >= 0)
            place = np.full(shared.agents.n_rows, -1, dtype=np.int64)
            place[self.shared_rows[own]] = own
            table.size[own], table.total[own] = 0, 0.0
            row, column, number = shared.agents.entries()
            mine = place[row] >= 0
            key = place[row[mine]] * table.n_columns + column[mine]
            order = np.argsort(key)
            table.add(key[order], number[mine][order])
            self.copied = shared.agents, shared.version

    def _share(self, keys: Ints) -> None:
        """Count steps of shared agents for all teams, too. keys: row * n_columns + column of each step."""
        row, column = np.divmod(keys, self.agents.n_columns)
        mine = self.shared_rows[row] >= 0
        key, number = np.unique(self.shared_rows[row[mine]] * self.agents.n_columns + column[mine], return_counts=True)
        self.shared.agents.add(key, number.astype(np.float64))
        self.shared.version += 1
        self.copied = self.shared.agents, self.shared.version

    @property
    def environment(self) -> CountsArrays:
        """Return the counts of the environment, with the current table of `shared`, which a fleet may replace."""
        if self._environment.seen is not self.shared.table:
            self._environment.seen = self.shared.table
        return self._environment

    @property
    def costs(self) -> CostLayer:
        """Return the sums of unknown costs."""
        if self._costs.counts.seen is not self.shared.costs:
            self._costs.counts.seen = self.shared.costs
        return self._costs

    @property
    def layers(self) -> tuple[CountsArrays, CountsArrays]:
        """Return the counts of the agents and of the environment."""
        return self.agents, self.environment

    @property
    def fades(self) -> bool:
        """Return whether any counts fade."""
        return any(layer.forgetting.factor.size > 0 for layer in self.layers)

    def add(self, *steps: Ints, charged: Sequence[Floats | None] = (None,) * len(CHARGES)) -> None:
        """Count steps: times, states, previous agents, agents, actions and next states, (n,) each.

        charged: (n,) each, what was charged, in the order of CHARGES; needed where some of these costs are unknown.
        """
        arguments = (*self.layers, self.problem, int(self.places.flat), *steps)
        if self.task.horizon is not None:
            self.add_starts(steps[1][steps[0] == 0])
        if self.costs.least.size:
            self.add_costs(steps, charged)
        self.refresh()
        if self.fades or self.shares_agents:
            keys = np.empty((2, len(steps[0])), dtype=np.int64)
            kernels.keys_of_steps(*arguments, *keys)
            self.keys = np.concatenate([self.keys, keys], axis=1) if self.fades else self.keys
            if self.shares_agents:
                self._share(keys[0])
        cells, counted = np.empty((4, kernels.CHUNK), dtype=np.int64), np.zeros(1, dtype=np.int64)
        while counted[0] < len(steps[0]):
            for layer, places in zip(self.layers, kernels.count_steps(*arguments, cells, counted), strict=True):
                if places > 0:
                    layer.seen.lengthen(places)

    def add_starts(self, states: Ints) -> None:
        """Count the first states of episodes, (n,). If counts of the environment fade, earlier starts fade before each."""
        keep = kernels.part_kept(self._environment.forgetting)
        for state in states.tolist():
            if keep < 1.0:
                self.starts *= keep
                self.starts[self.starts < kernels.LEAST_WEIGHT] = 0.0
            self.starts[state] += 1.0

    def add_costs(self, steps: tuple[Ints, ...], charged: Sequence[Floats | None]) -> None:
        """Count the unknown costs of steps. The arguments are those of `add`; costs that are NaN arrive later."""
        times, states, prevs, who, actions, nexts = steps
        layer, n = self.costs, len(states)
        parts = np.stack([np.zeros(n) if part is None else part for part in charged[: layer.charges]], axis=1).reshape(-1)
        rows = np.full((n, layer.charges), -1, dtype=np.int64)
        if layer.counts.place.size:
            vary = self.task.layout.vary[who]
            slots = self.task.layout.slot[who] + np.where(vary == BY_TIME, times, np.where(vary == BY_PREV_AGENT, prevs, 0))
            rows[:, 0] = layer.counts.place[states, slots if self.places.flat else actions]
        if layer.enter_place.size:
            rows[:, 1] = layer.enter_place[nexts]
        if layer.control_place.size:
            rows[:, 2] = layer.control_place[np.minimum(states, len(layer.control_place) - 1), who]
        if layer.switch_place.size:
            rows[:, 3] = layer.switch_place[np.minimum(states, len(layer.switch_place) - 1), prevs, who]
        flat = rows.reshape(-1)
        flat[np.isnan(parts)] = -1
        places = cost_sums.PLACES * len(np.unique(flat))
        if len(layer.counts.seen.column) - layer.counts.seen.end < places:
            layer.counts.seen.lengthen(places)
        cost_sums.count_costs(layer, flat, parts)
        if layer.counts.forgetting.factor.size:
            self.cost_rows, self.cost_parts = np.concatenate([self.cost_rows, flat]), np.concatenate([self.cost_parts, parts])

    def add_steps(self, steps: Steps) -> None:
        """Count steps that were checked."""
        self.add(*steps.places, charged=[getattr(steps, name) for name in CHARGES])

    def end_episode(self) -> None:
        """Note that an episode is over, and let counts fade."""
        self.episodes += 1
        self.shared.episodes += 1
        self.shared.agents_episodes += self.shares_agents
        if self.fades:
            for layer, keys in zip(self.layers, self.keys, strict=True):
                if layer.forgetting.factor.size:
                    kernels.forget(layer, self.episodes, np.ascontiguousarray(keys))
            self.keys = self.keys[:, :0]
            if self.costs.least.size and self.costs.counts.forgetting.factor.size:
                cost_sums.forget_costs(self.costs, self.episodes, self.cost_rows, self.cost_parts)
                self.cost_rows, self.cost_parts = NO_INTS, np.empty(0)


def count(task: Task, episodes: Iterable[Episode], *, flat: bool = False, structure: Structure | None = None) -> Counts:
    """Count episodes.

    task: the task of the episodes. episodes: the Episodes. flat: count p(s' | s, d) instead of p(s' | s, a), for UCRL2. structure:
    count by the cases of a declared structure.
    """
    check.instance("count", "task", task, Task, ", as in mdp.task")
    flat = check.truth("count", "flat", flat)
    checked_structure("count", structure, task.n_states, task.n_actions, task.tables)
    if flat and structure is not None:
        check.fail("count", "structure", "given", "left out with flat: agents and environment are one in that table")
    working = Working(Places(task, flat, structure), NOTHING)
    for episode in check.items("count", "episodes", episodes, "Episodes"):
        working.add_steps(checked_episode("count", task, episode, structure))
        working.end_episode()
    return working.store()


def cost_layer(task: Task, where: CostPlaces, table: Table, forgetting: Forgetting) -> CostLayer:
    """Return the layer of unknown costs in the form that kernels read.

    table: their sums. forgetting: how the counts of the environment fade: with one rule, all rows alike.
    """
    n, factor, window = len(where.least), forgetting.factor, int(forgetting.lengths.max(initial=0))
    none, no_steps = forgetting_arrays([], task.plan_steps, NO_INTS), np.empty((0, 0), dtype=np.int64)
    if factor.size and n:
        none.factor, none.window = np.full(n, factor[0]), np.zeros(n, dtype=np.int64)
    charges = len(task.charges)
    steps = (window, charges * task.plan_steps) if n else (0, 0)
    return CostLayer(
        counts=CountsArrays(
            seen=table, counted=n, n_columns=N_SUMS, place=where.place, outcomes=outcome_index(None), forgetting=none
        ),
        enter_place=where.enter_place,
        control_place=where.control_place,
        switch_place=where.switch_place,
        charges=charges,
        least=where.least,
        spread=where.spread,
        low=np.empty(n),
        high=np.empty(n),
        mean=np.empty(n),
        window=window if n else 0,
        recent_row=np.full(steps, -1, dtype=np.int64) if n else no_steps,
        recent_part=np.zeros(steps),
    )
