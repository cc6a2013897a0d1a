"""Reads reports of steps from requests, and checks them against the tasks of their teams.

Checks against other steps of an episode are in `store/log.py`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cede._base import check
from cede.serve.names import BIG, Row
from cede.serve.served import Served, ServedTeam
from cede.serve.store.log import AMOUNTS, COLUMNS, EXTRA, PLACES, REASONS, StepReport
from cede.steps.check import check_steps
from cede.steps.step import Steps

OWNER = "report"
NEEDED = ("episode", "t", *PLACES)
MOST_META, DEEPEST_META = 4096, 8  # characters, and levels of nesting
Team = ServedTeam | Callable[[str], ServedTeam]  # the team of a report; or a function that returns a team by name


def read_report(given: Any, team: Team, most: int) -> StepReport:
    """Check a report, an object of steps and ends, against the tasks of its teams. most: steps."""
    if not isinstance(given, dict) or given.keys() - {"steps", "ends"}:
        check.fail(OWNER, "body", check.show(given), "an object of steps and ends")
    steps, ends = given.get("steps", []), given.get("ends", [])
    if not isinstance(ends, list):
        check.fail(OWNER, "ends", check.show(ends), "a list of objects")
    return StepReport(read_steps(steps, team, most), tuple(read_end(i, one, team) for i, one in enumerate(ends)))


def read_steps(given: Any, team: Team, most: int) -> tuple[Row, ...]:
    """Check steps, a list of objects, and return them as rows of `log.COLUMNS`."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        check.fail(OWNER, "steps", check.show(given), "a list of objects")
    if len(given) > most:
        check.fail(OWNER, "the number of steps", len(given), f"at most {most}")
    named = () if isinstance(team, ServedTeam) else ("team",)
    if unknown := {name for one in given for name in one} - {*COLUMNS[1:], *named}:
        check.fail(OWNER, "an entry of a step", check.show(sorted(unknown)[0]), check.one_of((*COLUMNS[1:], *named)))
    for name in (*NEEDED, *named):
        missing = next((i for i, one in enumerate(given) if name not in one), None)
        if missing is not None:
            check.fail(OWNER, f"steps[{missing}].{name}", "missing", f"given; a step has {check.show([*NEEDED, *named])}")
    columns = {name: [one.get(name) for one in given] for name in COLUMNS[1:]}
    for name in (*NEEDED, *EXTRA):
        check_whole(name, columns[name], optional=name in EXTRA)
    for name in AMOUNTS:
        columns[name] = [None if one is None else amount(name, i, one) for i, one in enumerate(columns[name])]
    for i, one in enumerate(columns["reason"]):
        if one is not None and one not in REASONS:
            check.choice(OWNER, f"steps[{i}].reason", one, REASONS)
    columns["meta"] = [None if one is None else meta(i, one) for i, one in enumerate(columns["meta"])]
    teams = teams_of("steps", given, team)
    by_task: dict[int, list[int]] = {}
    for i, one in enumerate(teams):
        by_task.setdefault(id(one.served), []).append(i)
    for indices in by_task.values():
        check_fit(teams[indices[0]].served, columns, None if len(indices) == len(given) else indices)
    return tuple(zip([one.id for one in teams], *columns.values(), strict=True))


def read_end(i: int, given: Any, team: Team) -> tuple[int, int, int]:
    """Check the end of an episode, an object; return team, episode and number of steps."""
    names = ("episode", "steps") if isinstance(team, ServedTeam) else ("episode", "steps", "team")
    if not isinstance(given, dict) or given.keys() != set(names):
        check.fail(OWNER, f"ends[{i}]", check.show(given), f"an object of {', '.join(names)}")
    [own] = teams_of("ends", [given], team, i)
    episode = check.integer(OWNER, f"ends[{i}].episode", given["episode"], 0, BIG - 1)
    return own.id, episode, check.integer(OWNER, f"ends[{i}].steps", given["steps"], 1, own.served.task.horizon or BIG - 1)


def teams_of(place: str, given: Sequence[Mapping[str, Any]], team: Team, first: int = 0) -> list[ServedTeam]:
    """Return the team of each entry. place: of the entries in the report. first: index of the first one there."""
    if isinstance(team, ServedTeam):
        return [team] * len(given)
    known: dict[str, ServedTeam] = {}
    for i, one in enumerate(given):
        name = one["team"]
        if not isinstance(name, str):
            check.fail(OWNER, f"{place}[{first + i}].team", check.show(name), "the name of a team")
        if name not in known:
            known[name] = team(name)
    return [known[one["team"]] for one in given]


def check_whole(name: str, values: Sequence[Any], *, optional: bool) -> None:
    """Check that values are integers from 0 to 2^53 - 1, no booleans. optional: None is allowed."""
    given = [one for one in values if one is not None] if optional else values
    if set(map(type, given)) <= {int} and (not given or (min(given) >= 0 and max(given) < BIG)):
        return
    for i, one in enumerate(values):
        if one is not None or not optional:
            check.integer(OWNER, f"steps[{i}].{name}", one, 0, BIG - 1)


def amount(name: str, i: int, value: Any) -> float:
    """Check a cost, and return it."""
    if type(value) not in (int, float):
        check.fail(OWNER, f"steps[{i}].{name}", check.show(value), "a finite number")
    return check.number(OWNER, f"steps[{i}].{name}", value)


def meta(i: int, value: Any) -> str:
    """Check free metadata of a step, a JSON object, and return it as text in a canonical form."""
    place = f"steps[{i}].meta"
    if not isinstance(value, dict):
        check.fail(OWNER, place, check.show(value), "an object")
    if depth(value) > DEEPEST_META:
        check.fail(OWNER, f"the depth of {place}", f"more than {DEEPEST_META}", f"at most {DEEPEST_META}")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    if len(text) > MOST_META:
        check.fail(OWNER, f"the length of {place}", len(text), f"at most {MOST_META} characters as JSON")
    return text


def depth(value: Any, room: int = DEEPEST_META + 1) -> int:
    """Return the depth of nested objects and lists, at most `room`."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inside is None or room == 0:
        return 0
    return 1 + max((depth(one, room - 1) for one in inside), default=0)


def check_fit(served: Served, columns: Mapping[str, list[Any]], indices: list[int] | None) -> None:
    """Check steps of teams with one task against it. indices: of these steps; None: all."""
    task = served.task

    def pick(name: str) -> list[Any]:
        return columns[name] if indices is None else [columns[name][i] for i in indices]

    def at(i: int) -> int:
        return i if indices is None else indices[i]

    for name, size in (("t", task.horizon or BIG), ("chosen", task.n_agents)):
        for i, one in enumerate(pick(name)):
            if one is not None and one >= size:
                check.fail(OWNER, f"steps[{at(i)}].{name}", one, f"an integer from 0 to {size - 1}")
    arrays: dict[str, Any] = {name: np.array(pick(name), dtype=np.int64) for name in ("t", *PLACES)}
    arrays |= {name: np.array(pick(name), dtype=np.float64) for name in AMOUNTS}  # None becomes NaN
    steps = Steps(**arrays)
    check_steps(
        OWNER, task, steps, structure=served.settings.structure, place=lambda name, i: f"steps[{at(i)}].{name}", linked=False
    )
