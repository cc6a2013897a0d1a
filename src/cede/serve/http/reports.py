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


def read_report(report: Any, team: Team, most: int) -> StepReport:
    """Check a report, an object of steps and ends, against the tasks of its teams. most: steps."""
    if not isinstance(report, dict) or report.keys() - {"steps", "ends"}:
        check.fail(OWNER, "body", check.show(report), "an object of steps and ends")
    steps, ends = report.get("steps", []), report.get("ends", [])
    if not isinstance(ends, list):
        check.fail(OWNER, "ends", check.show(ends), "a list of objects")
    return StepReport(read_steps(steps, team, most), tuple(read_end(i, end, team) for i, end in enumerate(ends)))


def read_steps(steps: Any, team: Team, most: int) -> tuple[Row, ...]:
    """Check steps, a list of objects, and return them as rows of `log.COLUMNS`."""
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        check.fail(OWNER, "steps", check.show(steps), "a list of objects")
    if len(steps) > most:
        check.fail(OWNER, "the number of steps", len(steps), f"at most {most}")
    named = () if isinstance(team, ServedTeam) else ("team",)
    if unknown := {name for step in steps for name in step} - {*COLUMNS[1:], *named}:
        check.fail(OWNER, "an entry of a step", check.show(sorted(unknown)[0]), check.one_of((*COLUMNS[1:], *named)))
    for name in (*NEEDED, *named):
        missing = next((i for i, step in enumerate(steps) if name not in step), None)
        if missing is not None:
            check.fail(OWNER, f"steps[{missing}].{name}", "missing", f"given; a step has {check.show([*NEEDED, *named])}")
    columns = {name: [step.get(name) for step in steps] for name in COLUMNS[1:]}
    for name in (*NEEDED, *EXTRA):
        check_whole(name, columns[name], optional=name in EXTRA)
    for name in AMOUNTS:
        columns[name] = [None if value is None else amount(name, i, value) for i, value in enumerate(columns[name])]
    for i, value in enumerate(columns["reason"]):
        if value is not None and value not in REASONS:
            check.choice(OWNER, f"steps[{i}].reason", value, REASONS)
    columns["meta"] = [None if value is None else meta(i, value) for i, value in enumerate(columns["meta"])]
    teams = teams_of("steps", steps, team)
    by_task: dict[int, list[int]] = {}
    for i, member in enumerate(teams):
        by_task.setdefault(id(member.served), []).append(i)
    for indices in by_task.values():
        check_fit(teams[indices[0]].served, columns, None if len(indices) == len(steps) else indices)
    return tuple(zip([member.id for member in teams], *columns.values(), strict=True))


def read_end(i: int, end: Any, team: Team) -> tuple[int, int, int]:
    """Check the end of an episode, an object; return team, episode and number of steps."""
    names = ("episode", "steps") if isinstance(team, ServedTeam) else ("episode", "steps", "team")
    if not isinstance(end, dict) or end.keys() != set(names):
        check.fail(OWNER, f"ends[{i}]", check.show(end), f"an object of {', '.join(names)}")
    [own] = teams_of("ends", [end], team, i)
    episode = check.integer(OWNER, f"ends[{i}].episode", end["episode"], 0, BIG - 1)
    return own.id, episode, check.integer(OWNER, f"ends[{i}].steps", end["steps"], 1, own.served.task.horizon or BIG - 1)


def teams_of(place: str, entries: Sequence[Mapping[str, Any]], team: Team, first: int = 0) -> list[ServedTeam]:
    """Return the team of each entry. place: of the entries in the report. first: index of the first one there."""
    if isinstance(team, ServedTeam):
        return [team] * len(entries)
    known: dict[str, ServedTeam] = {}
    for i, entry in enumerate(entries):
        name = entry["team"]
        if not isinstance(name, str):
            check.fail(OWNER, f"{place}[{first + i}].team", check.show(name), "the name of a team")
        if name not in known:
            known[name] = team(name)
    return [known[entry["team"]] for entry in entries]


def check_whole(name: str, values: Sequence[Any], *, optional: bool) -> None:
    """Check that values are integers from 0 to 2^53 - 1, no booleans. optional: None is allowed."""
    numbers = [value for value in values if value is not None] if optional else values
    if set(map(type, numbers)) <= {int} and (not numbers or (min(numbers) >= 0 and max(numbers) < BIG)):
        return
    for i, value in enumerate(values):
        if value is not None or not optional:
            check.integer(OWNER, f"steps[{i}].{name}", value, 0, BIG - 1)


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
    return 1 + max((depth(part, room - 1) for part in inside), default=0)


def check_fit(served: Served, columns: Mapping[str, list[Any]], indices: list[int] | None) -> None:
    """Check steps of teams with one task against it. indices: of these steps; None: all."""
    task = served.task

    def pick(name: str) -> list[Any]:
        return columns[name] if indices is None else [columns[name][i] for i in indices]

    def at(i: int) -> int:
        return i if indices is None else indices[i]

    for name, size in (("t", task.horizon or BIG), ("chosen", task.n_agents)):
        for i, index in enumerate(pick(name)):
            if index is not None and index >= size:
                check.fail(OWNER, f"steps[{at(i)}].{name}", index, f"an integer from 0 to {size - 1}")
    arrays: dict[str, Any] = {name: np.array(pick(name), dtype=np.int64) for name in ("t", *PLACES)}
    arrays |= {name: np.array(pick(name), dtype=np.float64) for name in AMOUNTS}  # None becomes NaN
    steps = Steps(**arrays)
    check_steps(
        OWNER, task, steps, structure=served.settings.structure, place=lambda name, i: f"steps[{at(i)}].{name}", linked=False
    )
