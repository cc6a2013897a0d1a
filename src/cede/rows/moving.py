"""Counts of a team that changes: rows that move when an agent joins or leaves, and rows that fade at once."""

from collections.abc import Mapping

import numpy as np

from cede._base.arrays import Ints
from cede.problem.team_changes import slots_after
from cede.rows.fading import FADED_UNIT
from cede.rows.places import AGENT, COSTS, ENVIRONMENT, NO_INTS, Places
from cede.rows.stored import LayerCounts

Moves = Mapping[str, Ints]  # by layer: the row after the change of each row before, -1: it is gone


def moves_of(old: Places, new: Places) -> Moves:
    """Return where the rows of each layer are after an agent has joined or left. old, new: the places before and after."""
    before, after, flat = old.task, new.task, old.flat
    slots, result = slots_after(before, after), {}
    cases = dict(zip(before.tables, old.cases, strict=True))
    for name, shape in old.shapes.items():
        table = name.removeprefix(AGENT)
        if name.startswith(AGENT) and name in new.shapes:
            own, first = slots[before.layout.slots(before.tables.index(table))], after.layout.first_slot[after.tables.index(table)]
            rows = (own - first)[:, None] * cases[table] + np.arange(cases[table])
            result[name] = np.where(own[:, None] >= 0, rows, -1).ravel()
        elif name.startswith(AGENT):
            result[name] = np.full(shape[0], -1, dtype=np.int64)
        else:
            result[name] = np.arange(shape[0])
    if flat:
        columns, states = int(after.layout.n_slots.sum()), np.arange(before.n_periods * before.n_states)[:, None]
        result[ENVIRONMENT] = np.where(slots >= 0, states * columns + slots, -1).ravel()
    if old.costs.place.size and flat:
        kept = old.costs.place >= 0
        result[COSTS][old.costs.place[kept]] = np.where(slots >= 0, new.costs.place[:, slots], -1)[kept]
    if old.costs.enter_place.size:
        arriving = old.costs.enter_place, new.costs.enter_place
        result[COSTS][arriving[0][arriving[0] >= 0]] = arriving[1][arriving[1] >= 0]
    stay = rows_of_team_costs(new)
    for what, row in rows_of_team_costs(old).items():
        result[COSTS][row] = stay.get(what, -1)
    return result


def rows_of_team_costs(places: Places) -> dict[tuple[object, ...], int]:
    """Return the row of each learned cost of control and of hand-overs, by the number of states that are told apart, the state, and
    the names of one or two members.
    """
    task, aim, result = places.task, places.task.layout.aim, dict[tuple[object, ...], int]()
    names = np.array(task.members, dtype=object)
    for s, d in np.argwhere(places.costs.control_place >= 0):
        result[len(places.costs.control_place), s, names[task.acting[d]]] = int(places.costs.control_place[s, d])
    for s, prev, d in np.argwhere(places.costs.switch_place >= 0):
        result[len(places.costs.switch_place), s, names[aim[prev]], names[aim[d]]] = int(places.costs.switch_place[s, prev, d])
    return result


def moved(layer: LayerCounts, rows: Ints, shape: tuple[int, int]) -> LayerCounts:
    """Return a layer whose rows have moved, without those that are gone. rows: (rows before,). shape: after the change."""
    row, column = np.divmod(layer.key, max(layer.shape[1], 1))
    stay = rows[row] >= 0
    key = rows[row[stay]] * shape[1] + column[stay]
    order = np.argsort(key)
    return LayerCounts(shape, key[order], layer.number[stay][order])


def keys_after(keys: Ints, rows: Ints, columns: int) -> Ints:
    """Return keys row * columns + column, any shape, after their rows have moved; -1 for those that are gone, or were -1."""
    inside = keys >= 0
    row, column = np.divmod(np.where(inside, keys, 0), columns)
    return np.where(inside & (rows[row] >= 0), rows[row] * columns + column, -1) if rows.size else np.full_like(keys, -1)


def moves_of_all_agents(moves: Moves, old: Places, new: Places) -> Ints:
    """Return the moves of the rows of all agents below one another."""
    first = dict(zip(new.task.tables, np.cumsum([0, *new.agent_rows]).tolist(), strict=False))
    parts = [NO_INTS]
    for name in old.task.tables:
        rows = moves[f"{AGENT}{name}"]
        parts.append(np.where(rows >= 0, rows + first.get(name, 0), -1))
    return np.concatenate(parts)


def faded(layer: LayerCounts, keep: float, most: float | None = None) -> LayerCounts:
    """Return counts that fade at once: to the fraction `keep`, and then to at most `most` in each row, if that is given."""
    if keep == 1.0 and most is None:
        return layer
    row = layer.key // max(layer.shape[1], 1)
    factor = np.full(layer.shape[0], keep)
    if most is not None:
        total = keep * np.bincount(row, weights=layer.number, minlength=layer.shape[0])
        factor *= np.minimum(1.0, most / np.maximum(total, most if most > 0.0 else 1.0))
        factor = factor if most > 0.0 else np.zeros_like(factor)
    number = np.floor(layer.number * factor[row] * FADED_UNIT + 0.5) / FADED_UNIT
    left = number > 0.0
    return LayerCounts(layer.shape, layer.key[left], number[left])


def ring_after(recent: Ints, window: int, episodes: int) -> Ints:
    """Return a ring of the last episodes, (window before, L) as in `Forgetting`, with another, shorter window."""
    if not recent.size or len(recent) == window:
        return recent
    result = np.full((window, recent.shape[1]), -1, dtype=np.int64)
    last = np.arange(max(0, episodes - window), episodes)
    if window:
        result[last % window] = recent[last % len(recent)]
    return result if window else NO_INTS
