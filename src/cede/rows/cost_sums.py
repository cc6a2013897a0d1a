"""Compiled sums of learned costs: their number, their sum, and the sum of their squares.

A cost is stored relative to its range, from 0 to 1. Sums are exact, so that the order in which costs are added does not matter: a
cost is split into whole multiples of 2^-24 and a rest in whole multiples of 2^-50, which are added up apart, and its square is
rounded to a multiple of 2^-30. (That holds for up to 8 million costs of one row; beyond, the last bit is rounded.)
"""

from math import floor

import numpy as np
from numba import types

from cede._kernels.bundle import Bundle, Float1, Float2, Int1, Int2, Int3
from cede._kernels.compiling import inlined, kernel, unit
from cede._kernels.tables import add, take
from cede.rows.counting import CountsArrays, forget

COUNT, SUM, REST, SQUARES, N_SUMS = 0, 1, 2, 3, 4  # columns of the table of sums; the sum of costs is SUM + REST
COARSE, FINE, SQUARE_UNIT = 2.0**24, 2.0**50, 2.0**30  # units of the sums, as numbers of them in 1
PLACES = 2 + 6  # that a row takes in a pool at most while it grows to four sums, see `add_to_row`


class CostLayer(Bundle):
    """The unknown costs of a learner. Several places may share a row; all arrays are empty if all costs are known."""

    counts: CountsArrays  # place: (S, A), or (S, slots) for UCRL2: the row of each cost, -1: it is known
    enter_place: Int1  # (S,) the row of the cost of arriving in each state, -1: it is known; empty: all are
    control_place: Int2  # (S or 1, D) the same of control
    switch_place: Int3  # (S or 1, D, D) and of hand-overs, also of impossible ones, which may happen
    charges: int  # costs of a step that are counted: 2 of the environment, or 4 with those of the team
    least: Float1  # (rows,) the least that a cost can be
    spread: Float1  # (rows,) the most minus the least
    kind: int  # of the intervals, see beliefs/costs.py
    low: Float1  # (rows,) believed mean cost: least, greatest, and observed
    high: Float1
    mean: Float1
    window: int  # episodes for which a cost counts, 0: for ever
    recent_row: Int2  # (window, charges L) rows of the last costs, -1: none
    recent_part: Float2  # (window, charges L) their values


@inlined
def parts_of_sums(part):
    """Return what a cost, relative to its range, adds to SUM, REST and SQUARES."""
    coarse = floor(part * COARSE) / COARSE
    return coarse, part - coarse, floor(part * part * SQUARE_UNIT + 0.5) / SQUARE_UNIT


@inlined
def part_of_range(costs, r, cost):
    """Return a cost of row r relative to its range, from 0 to 1."""
    spread = costs.spread[r]
    part = min(max((cost - costs.least[r]) / spread, 0.0), 1.0) if spread > 0.0 else 0.0
    return floor(part * FINE + 0.5) / FINE


@kernel
def add_part(table, r, part):
    """Add a cost of row r, relative to its range, to its sums."""
    coarse, rest, square = parts_of_sums(part)
    add(table, r, np.int64(COUNT), 1.0)
    if coarse > 0.0:
        add(table, r, np.int64(SUM), coarse)
    if rest > 0.0:
        add(table, r, np.int64(REST), rest)
    if square > 0.0:
        add(table, r, np.int64(SQUARES), square)


@kernel
def take_part(table, r, part):
    """Undo `add_part`."""
    coarse, rest, square = parts_of_sums(part)
    take(table, r, np.int64(COUNT), 1.0)
    if coarse > 0.0:
        take(table, r, np.int64(SUM), coarse)
    if rest > 0.0:
        take(table, r, np.int64(REST), rest)
    if square > 0.0:
        take(table, r, np.int64(SQUARES), square)


@inlined
def sums_of(table, r):
    """Return the number of costs of row r, their sum, and the sum of their squares."""
    n, coarse, rest, squares = 0.0, 0.0, 0.0, 0.0
    for j in range(table.start[r], table.start[r] + table.size[r]):
        column, weight = table.column[j], table.weight[j]
        if column == COUNT:
            n = weight
        elif column == SUM:
            coarse = weight
        elif column == REST:
            rest = weight
        else:
            squares = weight
    return n, coarse + rest, squares


@kernel
def rows_of_costs(costs, s, j, to):
    """Return the rows in which the cost of place (s, j), and that of arriving in state `to`, are counted; -1: not at all."""
    row = costs.counts.place[s, j] if costs.counts.place.size > 0 else np.int64(-1)
    return row, costs.enter_place[to] if costs.enter_place.size > 0 else np.int64(-1)


@inlined
def by_state(array, s):
    """Return the part of an array of team costs, or of their places, for state s: the arrays have first axis S, or 1."""
    return array[min(s, array.shape[0] - 1)]


@kernel
def rows_of_team_costs(costs, s, prev, d):
    """Return the rows in which the costs of control and of the hand-over from prev to d in state s are counted; -1: not at all."""
    row = by_state(costs.control_place, s)[d] if costs.control_place.size > 0 else np.int64(-1)
    return row, by_state(costs.switch_place, s)[prev, d] if costs.switch_place.size > 0 else np.int64(-1)


@kernel
def count_costs(costs, rows, measured):
    """Add costs to the sums of their rows, and replace them by the added values, relative to their ranges. rows: (n,), -1: none.
    measured: (n,), overwritten.
    """
    for i in range(rows.size):
        if rows[i] >= 0:
            measured[i] = part_of_range(costs, rows[i], measured[i])
            add_part(costs.counts.seen, rows[i], measured[i])


@unit(types.none, CostLayer, types.int64, types.int64[::1], types.float64[::1])
def forget_costs(costs, episode, rows, parts):
    """Let sums fade after an episode, whose costs have just been counted. rows, parts: (n,) of these costs."""
    table = costs.counts.seen
    forget(costs.counts, episode, rows[:0])
    if costs.window > 0:
        if episode > costs.window:
            gone = (episode - costs.window - 1) % costs.window
            for i in range(costs.recent_row.shape[1]):
                if costs.recent_row[gone, i] >= 0:
                    take_part(table, costs.recent_row[gone, i], costs.recent_part[gone, i])
        now = (episode - 1) % costs.window
        for i in range(costs.recent_row.shape[1]):
            costs.recent_row[now, i] = rows[i] if i < rows.size else -1
            costs.recent_part[now, i] = parts[i] if i < rows.size else 0.0
