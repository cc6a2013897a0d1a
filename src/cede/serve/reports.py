"""Reports of what happened, as they come from outside: checked here, before anything is queued.

What can be checked against the task alone is checked here; what depends on other steps of the episode is checked where the log is
(`log.py`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from cede._base import check
from cede.learning.counts import charged, check_known_costs, check_outcomes
from cede.serve.served import Served

OWNER = "report"
KEY = ("team", "episode", "t")
PLACES = ("state", "prev_agent", "agent", "action", "next_state")
AMOUNTS = ("cost", "enter_cost")
EXTRA = ("chosen", "version", "at")
COLUMNS = (*KEY, *PLACES, *AMOUNTS, *EXTRA, "reason", "meta")  # of a row
NEEDED = ("episode", "t", *PLACES)
REASONS = ("plan", "audition", "fallback")  # why an agent was chosen
BIG = 2**53  # whole numbers below it are exact in every language
MOST_META, DEEPEST_META = 4096, 8  # characters, and levels

Row = tuple[Any, ...]  # a step, in the order of COLUMNS; its team is a number, None stands for what was not given


@dataclass(frozen=True)
class Team:
    """A team as reports and plans see it."""

    id: int
    name: str
    environment: int
    served: Served


@dataclass(frozen=True)
class Report:
    """What one request told, checked against the tasks of its teams."""

    steps: tuple[Row, ...]
    ends: tuple[tuple[int, int, int], ...] = ()  # team, episode, number of steps
    begins: tuple[tuple[int, int], ...] = ()  # team, episode


class Refused(ValueError):
    """A report that contradicts the log. Nothing of it was taken."""


def refuse(place: str, got: object, expected: str) -> NoReturn:
    """Raise Refused, in the grammar of all errors."""
    raise Refused(f"{OWNER}: {place} is {got}, must be {expected}")


def read_steps(given: Any, team_of: Callable[[str], Team], default: Team | None, most: int) -> tuple[Row, ...]:
    """Check steps, a list of objects, and return them as rows.

    team_of: finds a team by its name. default: the team of all steps; None: each step names its own. most: steps of a report.
    """
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        check.fail(OWNER, "steps", check.show(given), "a list of objects")
    if len(given) > most:
        check.fail(OWNER, "the number of steps", len(given), f"at most {most}")
    names = (*COLUMNS[1:], *(() if default is not None else ("team",)))
    if known := {name for one in given for name in one} - set(names):
        check.fail(OWNER, "an entry of a step", check.show(sorted(known)[0]), check.one_of(names))
    needed = names if default is None else NEEDED
    for name in (*NEEDED, *(("team",) if default is None else ())):
        missing = next((i for i, one in enumerate(given) if name not in one), None)
        if missing is not None:
            check.fail(OWNER, f"steps[{missing}].{name}", "missing", f"given; a step has {check.show(list(needed))}")
    columns = {name: [one.get(name) for one in given] for name in COLUMNS[1:]}
    for name in NEEDED:
        check_whole(name, columns[name])
    for name in EXTRA:
        check_whole(name, [one for one in columns[name] if one is not None], columns[name])
    for name in AMOUNTS:
        columns[name] = [None if one is None else amount(name, i, one) for i, one in enumerate(columns[name])]
    check_reasons(columns["reason"])
    columns["meta"] = [None if one is None else meta(i, one) for i, one in enumerate(columns["meta"])]
    teams = [default] * len(given) if default is not None else named(given, team_of)
    by_task: dict[int, list[int]] = {}
    for i, team in enumerate(teams):
        assert team is not None
        by_task.setdefault(id(team.served), []).append(i)
    for places in by_task.values():
        first = teams[places[0]]
        assert first is not None
        check_fit(first.served, columns, None if len(places) == len(given) else places)
    return tuple(zip([team.id for team in teams if team is not None], *columns.values(), strict=True))


def named(given: Sequence[Mapping[str, Any]], team_of: Callable[[str], Team]) -> list[Team | None]:
    """Return the team that each step names."""
    known: dict[Any, Team] = {}
    for i, one in enumerate(given):
        name = one["team"]
        if not isinstance(name, str):
            check.fail(OWNER, f"steps[{i}].team", check.show(name), "the name of a team")
        if name not in known:
            known[name] = team_of(name)
    return [known[one["team"]] for one in given]


def check_whole(name: str, values: Sequence[Any], all_values: Sequence[Any] | None = None) -> None:
    """Check that values are whole numbers from 0 to 2^53 - 1, no truth values. all_values: those and None, to find the place."""
    if set(map(type, values)) <= {int} and (not values or (min(values) >= 0 and max(values) < BIG)):
        return
    for i, one in enumerate(values if all_values is None else all_values):
        if one is not None or all_values is None:
            check.integer(OWNER, f"steps[{i}].{name}", one, 0, BIG - 1)


def check_reasons(values: Sequence[Any]) -> None:
    """Check the reasons of choices, which may be left out."""
    for i, one in enumerate(values):
        if one is not None and one not in REASONS:
            check.choice(OWNER, f"steps[{i}].reason", one, REASONS)


def amount(name: str, i: int, value: Any) -> float:
    """Check a cost, and return it."""
    if type(value) not in (int, float):
        check.fail(OWNER, f"steps[{i}].{name}", check.show(value), "a finite number")
    return check.number(OWNER, f"steps[{i}].{name}", value)


def meta(i: int, value: Any) -> str:
    """Check free metadata of a step, an object of JSON, and return it as text, always the same for the same object."""
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
    """Return how deep objects and lists are nested, at most `room`."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inside is None or room == 0:
        return 0
    return 1 + max((depth(one, room - 1) for one in inside), default=0)


def check_fit(served: Served, columns: Mapping[str, list[Any]], places: list[int] | None) -> None:
    """Check steps of teams with one task against it. places: which steps; None: all."""
    task = served.task

    def pick(name: str) -> list[Any]:
        return columns[name] if places is None else [columns[name][i] for i in places]

    def at(i: int) -> int:
        return i if places is None else places[i]

    sizes = {"t": task.horizon or BIG, "state": task.n_states, "next_state": task.n_states, "action": task.n_actions}
    found = {}
    for name in ("t", *PLACES):
        size = sizes.get(name, task.n_agents)
        found[name] = values = np.array(pick(name), dtype=np.int64)
        if values.size and values.max() >= size:
            i = int(np.argmax(values >= size))
            check.fail(OWNER, f"steps[{at(i)}].{name}", int(values[i]), f"an integer from 0 to {size - 1}")
    for i, one in enumerate(pick("chosen")):
        if one is not None and one >= task.n_agents:
            check.fail(OWNER, f"steps[{at(i)}].chosen", one, f"an integer from 0 to {task.n_agents - 1}")
    if task.terminal and task.is_terminal[found["state"]].any():
        i = int(np.argmax(task.is_terminal[found["state"]]))
        expected = "one in which an episode goes on: it ends there"
        check.fail(OWNER, f"steps[{at(i)}].state", int(found["state"][i]), expected)
    moves = (found["state"], found["action"], found["next_state"])
    numbering = " of steps[{i}]" if places is None else " of step {i} of its team"
    check_outcomes(OWNER, served.told.structure, *moves, "next_state" + numbering)
    costs, entered = (np.array([np.nan if one is None else one for one in pick(name)], dtype=np.float64) for name in AMOUNTS)
    check_known_costs(OWNER, task, *moves, (costs, entered), numbering)
    if task.learns_costs:
        charged(OWNER, task, *moves, (costs, entered), numbering)


def read_ends(given: Any, team_of: Callable[[str], Team], default: Team | None) -> tuple[tuple[int, int, int], ...]:
    """Check ends of episodes, a list of objects with episode and steps, and team where there is no default."""
    if not isinstance(given, list):
        check.fail(OWNER, "ends", check.show(given), "a list of objects")
    return tuple(read_end(i, one, team_of, default) for i, one in enumerate(given))


def read_end(i: int, given: Any, team_of: Callable[[str], Team], default: Team | None) -> tuple[int, int, int]:
    """Check the end of an episode; return team, episode and number of steps."""
    names = ("episode", "steps", *(() if default is not None else ("team",)))
    if not isinstance(given, dict) or given.keys() != set(names):
        check.fail(OWNER, f"ends[{i}]", check.show(given), f"an object of {', '.join(names)}")
    if default is None and not isinstance(given["team"], str):
        check.fail(OWNER, f"ends[{i}].team", check.show(given["team"]), "the name of a team")
    team = default or team_of(given["team"])
    episode = check.integer(OWNER, f"ends[{i}].episode", given["episode"], 0, BIG - 1)
    most = team.served.task.horizon or BIG - 1
    return team.id, episode, check.integer(OWNER, f"ends[{i}].steps", given["steps"], 1, most)
