"""From counts to beliefs: one layer of a learner, agents or environment, and learned costs."""

from math import inf

import numpy as np
from numba import types

from cede._base.arrays import Floats, Ints
from cede._kernels.bundle import Bundle, Float1, Int1
from cede._kernels.compiling import inlined, kernel, unit
from cede._kernels.problem import ProblemArrays
from cede._kernels.random_streams import stream_at
from cede._kernels.tables import BeliefArrays, Table
from cede.beliefs.costs import interval_of_mean, sample_mean
from cede.beliefs.kl import surprise
from cede.beliefs.posterior import sample_closed, sample_open
from cede.beliefs.registry import BY_NAME, code_of, form_of, width_of
from cede.problem.structure import Outcomes
from cede.problem.task import Task
from cede.rows.cost_sums import CostLayer, by_state, sums_of
from cede.rows.counting import CountsArrays

AGENTS_LAYER, ENVIRONMENT_LAYER = 0, 1  # the two layers
FIRST_STREAM = 2**40  # number of the first random stream for costs: beyond those of all tables


class LayerArrays(Bundle):
    """One layer of a learner: its counts and its belief."""

    counts: CountsArrays
    expected: Table  # (counted rows) pseudo-counts that are added to the counts, where rows are sampled; or without any rows
    kind: int  # code of its belief, see registry.py
    belief: BeliefArrays  # its table is the counted one, or, where rows are unfolded or sampled, one of its own, made by `believe`
    case: Int1  # (belief's rows,) the counted row from which a row of the belief follows; from `counted` on: a known one
    extra: Float1  # (counted,) added to the constant: for fewer outcomes, more functions, or surprise
    outcomes: Float1  # (counted,) how many outcomes a row can have, for kinds with surprise; else empty
    unseen: float  # width of rows without visits, over the constant; 0: by the kind's own formula
    part: float  # the scale, times the square root of the rows that an episode meets; 0: the scale does not depend on these
    planned_visits: Float1  # (counted,) visits when the plan was made, for the doubling rule; else empty


@unit(types.none, Table, types.int64, Table, types.int64)
def unfold(seen, c, table, r):
    """Make row r of a belief from the counts of its case c: all its outcomes, also those without counts."""
    start, n, total, weights = table.start[r], table.size[r], seen.total[c], table.weight
    for j in range(start, start + n):
        weights[j] = 0.0 if total > 0.0 else 1.0
    for j in range(seen.start[c], seen.start[c] + seen.size[c]):
        weights[start + seen.column[j]] = seen.weight[j]
    table.total[r] = total if total > 0.0 else float(n)


@inlined
def measure_surprise(layer, c):
    """Write the surprise of the counts of row c, which is added to its constant."""
    if layer.counts.seen.total[c] > 0.0:
        layer.extra[c] = surprise(layer.counts.seen, c, layer.outcomes[c])


@inlined
def set_form(layer, scale):
    """Write which sets a layer has: L1 balls, balls of relative entropy, or intervals."""
    layer.belief.kl, layer.belief.linear = form_of(layer.kind, scale)


@unit(types.none, LayerArrays, types.float64, types.float64, types.boolean)
def believe_layer(layer, constant, scale, unfolds):
    """Make the widths of a layer from its counts; and, if unfolds, the rows of a table of its own."""
    belief = layer.belief
    set_form(layer, scale)
    for c in range(layer.outcomes.size):
        measure_surprise(layer, c)
    visits, case, counted, kind, extra = layer.counts.seen.total, layer.case, layer.counts.counted, layer.kind, layer.extra
    for r in range(belief.width.size):
        c = case[r]
        belief.width[r] = width_of(kind, visits[c], constant + extra[c], scale) if c < counted else 0.0
    if layer.unseen > 0.0 and scale > 0.0:
        for r in range(belief.width.size):
            if layer.case[r] < layer.counts.counted and layer.counts.seen.total[layer.case[r]] <= 0.0:
                belief.width[r] = layer.unseen * constant
    if unfolds and belief.closed:
        for r in range(belief.table.start.size):
            if layer.case[r] < layer.counts.counted:
                unfold(layer.counts.seen, layer.case[r], belief.table, r)


@unit(types.none, BeliefArrays, CountsArrays, Table, types.int64[::1], types.float64, types.int64, types.int64, types.int64)
def sample_layer(belief, counts, expected, cases, prior, sticks, seed, first):
    """Sample every unknown row of a layer's belief, each from its own random stream, so that the order does not matter.

    expected, cases: of the layer, see `LayerArrays`; rows that share a case are the same sample. sticks: how many outcomes without
    counts share their mass, at most. first: the number of the layer's first case among those of both layers.
    """
    table, seen, columns = belief.table, counts.seen, counts.n_columns
    to = 0
    for r in range(table.start.size):
        case = cases[r]
        if case >= counts.counted:
            continue
        stream = stream_at(seed, first + case)
        if not belief.closed:
            if columns > sticks:
                to = sample_open(seen, expected, r, table, to, columns, prior, sticks, stream)
                continue
            table.start[r] = to  # all columns are outcomes
            table.size[r] = columns
            for j in range(columns):
                table.column[to + j] = j
            to += columns
        sample_closed(seen, expected, case, table, r, prior, stream)


@kernel
def believe_row(layer, r, constant, scale):
    """`believe_layer`, for one row of the belief."""
    case = layer.case[r]
    if case < layer.counts.counted:
        if layer.outcomes.size > 0:
            measure_surprise(layer, case)
        layer.belief.width[r] = width_of(layer.kind, layer.counts.seen.total[case], constant + layer.extra[case], scale)
        if layer.belief.closed:
            unfold(layer.counts.seen, case, layer.belief.table, r)


@inlined
def row_has_doubled(layer, r):
    """Return whether the visits of row r have at least doubled since the last plan, or begun."""
    return layer.counts.seen.total[r] >= layer.planned_visits[r] + max(1.0, layer.planned_visits[r])


@unit(types.boolean, LayerArrays)
def has_doubled(layer):
    """Return whether the visits of some row have doubled."""
    found = False
    for r in range(layer.planned_visits.size):
        found = found or row_has_doubled(layer, r)
    return found


@kernel
def note_visits(layer):
    """Store the current visits for the doubling rule."""
    for r in range(layer.planned_visits.size):
        layer.planned_visits[r] = layer.counts.seen.total[r]


# ------------------------------------------------------------------------------------------------- costs


@kernel
def believe_cost(costs, r, constant, scale):
    """Write the interval of the costs of row r. constant, scale: of the intervals."""
    n, total, squares = sums_of(costs.counts.seen, r)
    low, high, mean = interval_of_mean(costs.kind, n, total, squares, constant, scale)
    least, spread = costs.least[r], costs.spread[r]
    costs.low[r], costs.high[r], costs.mean[r] = least + spread * low, least + spread * high, least + spread * mean


@unit(types.none, CostLayer, types.float64, types.float64, types.float64, types.int64)
def believe_costs(costs, constant, scale, prior, seed):
    """Write the belief of every row: its interval, or with a prior a draw from its posterior, by the seed."""
    for r in range(costs.least.size):
        if prior > 0.0:
            n, total, squares = sums_of(costs.counts.seen, r)
            part = sample_mean(n, total, squares, prior, stream_at(seed, FIRST_STREAM + r))
            costs.low[r] = costs.high[r] = costs.least[r] + costs.spread[r] * part
            costs.mean[r] = costs.least[r] + costs.spread[r] * (min(total / n, 1.0) if n > 0.0 else 0.5)
        else:
            believe_cost(costs, r, constant, scale)


@inlined
def put_cost(costs, problem, s, j, believed, sign):
    """Write the believed cost of a place with unknown cost, times a sign, into the costs of a problem."""
    problem.env_cost[s, j] = sign * believed[costs.counts.place[s, j]]


@unit(types.none, CostLayer, ProblemArrays, types.float64[:, ::1], types.int64, types.float64[::1], types.float64)
def put_team_costs(costs, problem, control_cost, s, believed, sign):
    """Write the believed costs of control and of hand-overs in state s, times a sign, into control_cost, (S or 1, D), and into the
    costs of a problem. Impossible hand-overs stay impossible.
    """
    if costs.control_place.size > 0:
        place, control = by_state(costs.control_place, s), by_state(control_cost, s)
        for d in range(place.shape[0]):
            if place[d] >= 0:
                control[d] = sign * believed[place[d]]
    if costs.switch_place.size > 0:
        pairs, switching = by_state(costs.switch_place, s), by_state(problem.switch_cost, s)
        for prev in range(pairs.shape[0]):
            for d in range(pairs.shape[1]):
                if pairs[prev, d] >= 0 and switching[prev, d] < inf:
                    switching[prev, d] = sign * believed[pairs[prev, d]]


@kernel
def believe_team_costs(costs, s, constant, scale):
    """`believe_costs` for the rows of control and of hand-overs in state s."""
    if costs.control_place.size > 0:
        place = by_state(costs.control_place, s)
        for d in range(place.shape[0]):
            if place[d] >= 0:
                believe_cost(costs, place[d], constant, scale)
    if costs.switch_place.size > 0:
        pairs = by_state(costs.switch_place, s)
        for prev in range(pairs.shape[0]):
            for d in range(pairs.shape[1]):
                if pairs[prev, d] >= 0:
                    believe_cost(costs, pairs[prev, d], constant, scale)


@unit(types.none, CostLayer, ProblemArrays, types.float64[:, ::1], types.float64[::1], types.float64)
def put_costs(costs, problem, control_cost, believed, sign):
    """Write the believed cost of each row, times a sign, into the costs of a problem. control_cost: (S or 1, D), what control costs
    without prices of limits.
    """
    place, enter_cost = costs.counts.place, problem.enter_cost
    for s in range(place.shape[0]):
        for j in range(place.shape[1]):
            if place[s, j] >= 0:
                put_cost(costs, problem, s, j, believed, sign)
    for s in range(costs.enter_place.size):
        if costs.enter_place[s] >= 0:
            enter_cost[s] = sign * believed[costs.enter_place[s]]
    for s in range(max(costs.control_place.shape[0], costs.switch_place.shape[0])):
        put_team_costs(costs, problem, control_cost, s, believed, sign)


# ------------------------------------------------------------------------------------------------- new layers


def new_layer(
    which: int,
    name: str | None,
    counts: CountsArrays,
    belief: BeliefArrays,
    case: Ints,
    n_outcomes: Floats,
    users: Ints | int,
    *,
    doubling: bool,
) -> LayerArrays:
    """Make a layer with a kind of belief.

    which: AGENTS_LAYER or ENVIRONMENT_LAYER. name: of the kind of belief; None: no sets. case: (belief's rows,) see `LayerArrays`.
    n_outcomes: (counted,) how many outcomes each counted row can have. users: how many agents act by each place of the counts.
    doubling: whether the doubling rule needs the visits at the last plan.
    """
    kind, counted = None if name is None else BY_NAME[name], counts.counted
    extra = np.zeros(counted)
    if kind is not None and kind.more is not None:
        weights = (users + np.zeros(counts.place.shape)).ravel()  # one function for each place and agent that use a row
        functions = np.bincount(counts.place.ravel(), weights=weights, minlength=counted)[:counted].astype(np.float64)
        extra = kind.more(n_outcomes, counts.n_columns, functions)
    return LayerArrays(
        counts=counts,
        expected=Table.empty(0, counts.n_columns),
        kind=code_of(name),
        belief=belief,
        case=case,
        extra=extra,
        outcomes=n_outcomes if kind is not None and kind.surprise else np.empty(0),
        unseen=0.0 if kind is None else kind.unseen[which],
        part=0.0 if kind is None else kind.part[which],
        planned_visits=np.zeros(counted if doubling else 0),
    )


def new_belief(table: Table, row: Ints, *, closed: bool) -> BeliefArrays:
    """Make a belief of width 0 with a table as its centre. row: the row of each place. closed: see `Belief`."""
    return BeliefArrays(table=table, width=np.zeros(table.n_rows), row=row, closed=int(closed))


def full_agents_table(task: Task, to: Ints, known: Floats) -> Table:
    """Make a table with all actions in every row.

    to: (rows, A) the action that each outcome means. known: (n, A) probabilities of known rows, which are appended.
    """
    n, n_actions = len(to) + len(known), task.n_actions
    weight = np.concatenate([np.ones(to.shape), known])
    column = np.concatenate([to, np.tile(np.arange(n_actions), (len(known), 1))]).astype(np.int32).ravel()
    size = np.full(n, n_actions, dtype=np.int64)
    return Table.from_arrays(n_actions, np.arange(n) * n_actions, size, column, weight.ravel(), weight.sum(axis=1))


def full_environment_table(task: Task, outcomes: Outcomes) -> Table:
    """Make a table with all declared outcomes of a structure in every row."""
    possible = outcomes.to >= 0
    size = possible.sum(axis=1).astype(np.int64)
    column = outcomes.to[possible].astype(np.int32)
    return Table.from_arrays(task.n_states, np.cumsum(size) - size, size, column, np.ones(column.size), size.astype(np.float64))


def only_used(case: Ints, row: Ints, beyond: int) -> Ints:
    """Return the counted row behind each row of a belief, (rows,), with `beyond` where a row serves no place.

    Rows serve no place if an agent or the environment is known instead. beyond: any number above all counted rows, which kernels
    treat as a known row.
    """
    used = np.zeros(len(case), dtype=np.bool_)
    used[row] = True
    return np.where(used, case, beyond)
