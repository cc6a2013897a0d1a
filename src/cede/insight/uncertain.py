"""Rows with wide confidence sets, ranked by their possible effect on the cost of an episode."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cede._base.arrays import Floats, Policy
from cede.beliefs.belief import Belief
from cede.insight.frequencies import frequencies
from cede.insight.occupancy import Tables
from cede.insight.visits import visits_by_place
from cede.planning.passes import value_under
from cede.problem.layout import BY_PREV_AGENT, BY_TIME
from cede.rows.places import Places

if TYPE_CHECKING:
    from cede.learners.learner import Learner

MOST_ROWS = 8  # that are listed
LITTLE = 0.02  # rows with less than this fraction of the first row's effect are not listed


@dataclass(frozen=True)
class WideRow:
    """A row of a belief whose confidence set is still wide."""

    layer: str  # "environment", or the name of an agent
    place: str
    visits: float
    width: float
    matters: float  # possible effect on the cost of an episode (without horizon: see `Summary.cost_of`), see `stakes`


def stakes(learner: "Learner", policy: Policy, met: Floats) -> tuple[Floats, Floats]:
    """Return the possible effect of each place on the cost of an episode: (slots, S) of the agents, (P * S, A) of the environment.

    It is a product, summed over time steps: expected visits under the plan; the probability that may be misplaced (half the width,
    at most 1, and 1 without visits); and the range of the cost to go over the actions of an agent, or over next states of the
    environment. An agent counts wherever it can get control, minus its extra cost over the planned agent. policy: (L, S, D). met:
    (L, S, D), expected visits under the plan.
    """
    task = learner.costs.middle("summarise", learner.task)
    seen, sets = frequencies(learner), learner.beliefs
    tables, value = Tables.of(*seen), value_under(task, *seen, policy)
    n, agents = task.n_states, range(task.n_agents)
    moved, moved_environment = (may_move(belief)[belief.row] for belief in sets)
    of_agents, of_environment = np.zeros(moved.shape), np.zeros(moved_environment.shape)
    control, switch = (
        np.broadcast_to(task.control_cost, (n, len(agents))),
        np.broadcast_to(task.switch_cost, (n, *[len(agents)] * 2)),
    )
    before = np.array(agents)
    for t, chosen in enumerate(policy):
        block = slice(0, n) if task.periods is None else slice(int(task.periods[t]) * n, (int(task.periods[t]) + 1) * n)
        after = task.layout.factor * value[t + 1 if task.horizon is not None else 0]
        after = after if task.enter_cost is None else after + task.enter_cost[:, None]  # (S, D)
        ahead = tables.rows @ after + tables.unseen[:, None] * after.mean(axis=0)
        span = np.ptp(task.env_cost[:, :, None] + ahead[tables.row[block]], axis=1)  # (S, D)
        obeyed = [task.roles.orders.chance_of(d, chosen) for d in agents]  # (S, D) each
        paid = sum(part * np.where(part > 0.0, control[:, [d]] + switch[:, :, d], 0.0) for d, part in enumerate(obeyed))
        for d in agents:
            slot, vary = int(task.layout.slot[d]) + (t if task.layout.vary[d] == BY_TIME else 0), task.layout.vary[d]
            slots = slot + before if vary == BY_PREV_AGENT else np.full(len(agents), slot)
            more = np.where(obeyed[d] > 0.0, 0.0, np.maximum(control[:, [d]] + switch[:, :, d] - paid, 0.0))  # (S, D)
            change = met[t] * np.maximum(moved[slots].T * span[:, [d]] - more, 0.0)
            np.add.at(of_agents, slots, np.where(task.can_choose[:, :, d], change, 0.0).T)
            acts = np.einsum("sp,psa->sa", obeyed[d] * met[t], tables.actions[slots])
            of_environment[block] += acts * moved_environment[block] * np.ptp(after[:, d])
    return of_agents, of_environment


def may_move(sets: Belief) -> Floats:
    """Return the probability that may be misplaced in each row, (rows,)."""
    unseen: Floats = np.where(sets.centre.total <= 0, np.sign(sets.distances), 0.0)
    return np.maximum(unseen, np.minimum(1.0, sets.distances / 2))


def widest(learner: "Learner", names: list[str], policy: Policy, met: Floats) -> tuple[WideRow, ...]:
    """Return the rows with the greatest possible effect on the cost of an episode, in descending order; none without sets, and for
    UCRL2.

    names: of the states. policy, met: as for `stakes`.
    """
    if not learner.settings.has_sets or learner.settings.flat:
        return ()
    task = learner.task
    actions = task.action_names or tuple(f"action {a}" for a in range(task.n_actions))
    owners = np.repeat(np.arange(len(task.tables)), task.layout.n_slots), np.zeros(len(learner.beliefs[1].row), dtype=np.int64)
    visited = visits_by_place(learner)
    places, all_stakes = Places(task, structure=learner.settings.structure).place, stakes(learner, policy, met)
    rows: list[WideRow] = []
    for layer, (place, belief, stake, visits, owner) in enumerate(
        zip(places, learner.beliefs, all_stakes, visited, owners, strict=True)
    ):
        key = owner[:, None] * (int(place.max()) + 1) + place  # places that share a row, of one policy
        total = np.bincount(key.ravel(), weights=stake.ravel())
        for row in np.argsort(-total, kind="stable")[:MOST_ROWS].tolist():
            i, j = divmod(int(np.argmax(np.where(key == row, stake, -1.0))), key.shape[1])  # where it matters most
            period, s = divmod(i, task.n_states) if layer else (0, j)
            where = names[s] + (f", {actions[j]}" if layer else "")
            where += f", period {period}" if layer and task.periods is not None else ""
            name = "environment" if layer else task.tables[owner[i]]
            width = float(belief.distances[belief.row[i, j]])
            rows.append(WideRow(name, where, float(visits[i, j]), width, float(total[row])))
    rows.sort(key=lambda row: -row.matters)
    return tuple(row for row in rows[:MOST_ROWS] if row.matters > 0.0 and row.matters >= LITTLE * rows[0].matters)
