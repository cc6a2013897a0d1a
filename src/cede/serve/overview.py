"""What the dashboard shows beside history: teams and episodes, the steps of an episode, who is in control where, health."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from cede import __version__
from cede._base import check
from cede._base.arrays import Floats
from cede.learning.counts import places_of
from cede.learning.learner import Learner
from cede.serve.database import Database, run
from cede.serve.export import SHOWN, as_object
from cede.serve.memory import check_time
from cede.serve.planning import ServedPlan
from cede.serve.reports import Team
from cede.serve.service import Service
from cede.serve.store import Store, now_ms

TEAM = ("name", "environment", "episodes", "version", "created")
EPISODE = ("episode", "length", "received", "counted", "begun", "last")


def find_teams(
    store: Store, environment: str | None, search: str, after: str, most: int, only: Iterable[str] | None
) -> list[dict[str, Any]]:
    """Return teams whose names contain a text, in the order of names, from the one after `after` on.

    environment: whose teams; None: of all. only: names of those that may be seen; None: all. unit: what their `episodes` are, steps
    where there is no horizon.
    """
    pattern = "%" + "".join(f"!{letter}" if letter in "!%_" else letter for letter in search.lower()) + "%"
    sql = """SELECT t.name, e.name, t.episodes, t.version, t.created FROM teams t JOIN environments e ON e.id = t.environment
        WHERE t.name > ? AND (e.name = ? OR ? = 1) AND LOWER(t.name) LIKE ? ESCAPE '!'"""
    values = (environment or "", int(environment is None), pattern)
    with store.database.read() as connection:
        if only is None:
            rows = run(connection, sql + " ORDER BY t.name LIMIT ?", (after, *values, most)).all()
        else:
            found = (run(connection, sql + " AND t.name = ?", (after, *values, name)).first() for name in sorted(only))
            rows = [row for row in found if row is not None][:most]
    return [{**dict(zip(TEAM, row, strict=True)), "unit": store.environment(row[1])[1].unit} for row in rows]


def episodes_of(database: Database, team: Team, before: int | None, most: int) -> list[dict[str, Any]]:
    """Return episodes of a team by their numbers, the greatest first, from the one before `before` on; or runs.

    counted: whether all steps that are there were counted. Those of runs always are. last: the greatest t, -1: none.
    """
    sql = f"SELECT {', '.join(EPISODE)} FROM episodes WHERE team = ? AND (episode < ? OR ? = 1) ORDER BY episode DESC LIMIT ?"
    with database.read() as connection:
        rows = run(connection, sql, (team.id, before or 0, int(before is None), most)).all()
    return [{**dict(zip(EPISODE, row, strict=True)), "counted": bool(row[3]) or team.served.endless} for row in rows]


def steps_of(database: Database, team: Team, episode: int, since: int, most: int) -> list[dict[str, Any]]:
    """Return steps of an episode, from t = since on."""
    sql = f"SELECT {SHOWN} WHERE s.team = ? AND s.episode = ? AND s.t >= ? ORDER BY s.t LIMIT ?"
    with database.read() as connection:
        rows = run(connection, sql, (team.id, episode, since, most)).all()
    return [as_object((team.name, *row)) for row in rows]


def visits_of(learner: Learner) -> tuple[Floats, Floats]:
    """Return how often each state was seen, (S,), and each member acting in it, (S, members). Where rows are shared by declared
    structure, these are the visits of all states that share them.
    """
    task, counts = learner.task, learner.counts
    agents_place, environment_place = places_of(task, structure=learner.told.structure)
    outcomes = np.asarray(counts.environment.sum(axis=1)).ravel()
    states = outcomes[environment_place].sum(axis=1).reshape(-1, task.n_states).sum(axis=0)
    acted = np.asarray(counts.agents.sum(axis=1)).ravel()
    members = np.zeros((task.n_states, len(task.members)))
    for table, (first, n) in enumerate(zip(task.first_slot, task.n_slots, strict=True)):
        who = int(task.acting[np.argmax(task.table == table)])
        members[:, who] += acted[agents_place[first : first + n]].sum(axis=0)
    return states, members


def policy_map(
    plan: ServedPlan, learner: Learner, t: int | None, search: str, first: int, most: int, by_visits: bool
) -> dict[str, Any]:
    """Return who is in control where at time t, by the newest plan: for every state the agent that follows each previous agent.

    t: None: the first time step; without a horizon it must be None, and t and steps of the result are.
    search: only states whose names contain it. by_visits: the states seen most often first. first, most: the part of the list.
    """
    task = plan.team.served.task
    if plan.team.served.endless:
        check_time("map", t, endless=True)
        policy = plan.policy
    else:
        t = check.index("map", "t", t or 0, task.plan_steps)
        policy = plan.policy[t]
    states, members = visits_of(learner)
    names = [check.printable(one) for one in task.state_names or (f"state {s}" for s in range(task.n_states))]
    found = [s for s in range(task.n_states) if search.lower() in names[s].lower()]
    if by_visits:
        found.sort(key=lambda s: -states[s])
    rows = [
        {
            "state": s,
            "name": names[s],
            "terminal": bool(task.is_terminal[s]),
            "visits": float(states[s]),
            "acted": members[s].tolist(),
            "agents": policy[s].tolist(),
        }
        for s in found[first : first + most]
    ]
    age = max(0, now_ms() - plan.made) / 1000
    about: dict[str, Any] = {"version": plan.version, "reason": plan.reason, "made": plan.made, "age": age}
    about |= {"episodes": plan.episodes, "unit": plan.team.served.unit}
    sizes = {"t": t, "steps": task.horizon, "states": len(found), "most_visits": float(states.max(initial=0.0))}
    whom = {"agents": list(task.agents), "members": list(task.members), "acting": task.acting.tolist(), "aim": task.aim.tolist()}
    return {**about, **sizes, **whom, "rows": rows}


def health(service: Service) -> dict[str, Any]:
    """Return how the service is. steps: that were counted where there is no horizon."""
    with service.database.read() as connection:
        teams, due, oldest = run(connection, "SELECT COUNT(*), COUNT(due), MIN(due) FROM teams").first()
        environments = run(connection, "SELECT name, episodes FROM environments").all()
        newest = run(connection, "SELECT MAX(made) FROM plans WHERE id = (SELECT MAX(id) FROM plans)").scalar()
    now = now_ms()
    counted = {"episodes": 0, "steps": 0}
    for name, n in environments:
        counted[service.store.environment(name)[1].unit] += n
    return {
        "version": __version__,
        "ready": service.ready,
        "waiting_steps": service.writer.waiting,
        "most_waiting_steps": service.options.most_waiting,
        "teams": int(teams),
        "environments": len(environments),
        **counted,
        "due": int(due),
        "oldest_due": None if oldest is None else max(0, now - oldest) / 1000,
        "newest_plan": None if newest is None else max(0, now - newest) / 1000,
        "plans_in_memory": service.plans.awake(),
        "plans_made": service.planner.made,
        "failures": service.writer.failures + service.planner.failures,
    }
