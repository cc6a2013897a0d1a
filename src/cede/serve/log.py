"""The log: takes in reports, and counts every episode in the very transaction in which it becomes complete.

A step is known by (team, episode, t). Sent again, it is a duplicate and changes nothing; with another content it is refused. Steps
may come in any order. An episode is complete when all its steps are there: up to one that leads to a terminal state, up to the
horizon, or as many as its end says. Then it is counted as a whole, as `Learner.end_episode` does.

Where there is no horizon, an episode is a run: each of its steps is counted by itself, in the transaction that writes it, whatever
else is there. A terminal state or a declared end ends a run, too: nothing comes after it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from sqlalchemy import Connection

from cede.serve.counting import Cells
from cede.serve.database import insert_new, look_up, run_many, upsert
from cede.serve.pieces import add_pieces
from cede.serve.reports import COLUMNS, KEY, Refused, Report, Row, Team, refuse

Key = tuple[int, int]  # team and episode
TIME, STATE, PREV_AGENT, AGENT, NEXT_STATE = (COLUMNS.index(name) for name in ("t", "state", "prev_agent", "agent", "next_state"))
INTS, AMOUNTS = slice(TIME, NEXT_STATE + 1), slice(NEXT_STATE + 1, NEXT_STATE + 3)


@dataclass(frozen=True)
class EpisodeState:
    """What is known of an episode beside its steps."""

    length: int | None = None  # number of steps, None: not known
    received: int = 0
    last: int = -1  # the greatest t
    counted: int = 0

    @property
    def complete(self) -> bool:
        """Return whether all steps are there."""
        return self.length is not None and self.received == self.length


@dataclass(frozen=True)
class Accepted:
    """What became of a report: how many steps were new, how many known already, and how many episodes were counted by it; without a
    horizon, how many steps.
    """

    new: int
    duplicates: int
    counted: int


@dataclass
class Ledger:
    """What a transaction knows of the log: what was there, and what it adds."""

    team_of: Callable[[int], Team]
    known: dict[Row, Row]  # steps by team, episode and t
    episodes: dict[Key, EpisodeState]
    new: list[Row] = field(default_factory=list)
    touched: set[Key] = field(default_factory=set)
    complete: list[Key] = field(default_factory=list)
    single: list[Row] = field(default_factory=list)  # new steps of runs, which are counted by themselves

    def take(self, report: Report) -> Accepted:
        """Take in a report as a whole; if any of it contradicts the log, nothing is taken, and Refused is raised."""
        staged: dict[Row, Row] = {}
        states: dict[Key, EpisodeState] = {}
        duplicates = 0
        for i, row in enumerate(report.steps):
            key = row[:3]
            there = staged.get(key) or self.known.get(key)
            if there is None:
                staged[key] = row
            elif there == row:
                duplicates += 1
            else:
                name = next(n for n, one, other in zip(COLUMNS, row, there, strict=True) if one != other)
                got, was = ("null" if one[COLUMNS.index(name)] is None else one[COLUMNS.index(name)] for one in (row, there))
                refuse(f"steps[{i}].{name}", got, f"{was}, as in the log: a step is never changed")
        for key in report.begins:
            states[key] = self.episodes.get(key, EpisodeState())
        for row in staged.values():
            self._check_neighbours(row, staged)
            self._note(row, states)
        for i, (team, episode, length) in enumerate(report.ends):
            self._end(states, (team, episode), length, f"ends[{i}].steps")
        self._check_lengths(states)
        endless = {key for key in states if self.team_of(key[0]).served.endless}
        counted = [key for key, state in states.items() if state.complete and not state.counted and key not in endless]
        single = [row for row in staged.values() if row[:2] in endless]
        self.known |= staged
        self.new += staged.values()
        self.touched |= states.keys()
        self.episodes |= states | {key: replace(states[key], counted=1) for key in counted}
        self.complete += counted
        self.single += single
        return Accepted(len(staged), duplicates, len(counted) + len(single))

    def _check_neighbours(self, row: Row, staged: dict[Row, Row]) -> None:
        """Check that a new step goes on where the step before ended, and the step after where it ends."""
        team, episode, t = row[:3]
        before = staged.get((team, episode, t - 1)) or self.known.get((team, episode, t - 1))
        after = self.known.get((team, episode, t + 1))
        name = f"of step {t} of episode {episode}"
        if before is not None and before[NEXT_STATE] != row[STATE]:
            refuse(f"state {name}", row[STATE], f"{before[NEXT_STATE]}, where the step before led")
        if before is not None and before[AGENT] != row[PREV_AGENT]:
            refuse(f"prev_agent {name}", row[PREV_AGENT], f"{before[AGENT]}, who acted in the step before")
        if after is not None and after[STATE] != row[NEXT_STATE]:
            refuse(f"next_state {name}", row[NEXT_STATE], f"{after[STATE]}, where the step after began")
        if after is not None and after[PREV_AGENT] != row[AGENT]:
            refuse(f"agent {name}", row[AGENT], f"{after[PREV_AGENT]}, who acted before the step after")

    def _note(self, row: Row, states: dict[Key, EpisodeState]) -> None:
        """Take note of a new step in the state of its episode."""
        key, t, served = row[:2], row[TIME], self.team_of(row[0]).served
        state = states.get(key) or self.episodes.get(key, EpisodeState())
        states[key] = EpisodeState(state.length, state.received + 1, max(state.last, t), state.counted)
        if t + 1 == served.task.horizon or row[NEXT_STATE] in served.ends:
            self._end(states, key, t + 1, f"the length of episode {key[1]}")

    def _end(self, states: dict[Key, EpisodeState], key: Key, length: int, place: str) -> None:
        """Take note of how many steps an episode has."""
        state = states.get(key) or self.episodes.get(key, EpisodeState())
        if state.length not in (None, length):
            refuse(place, length, f"{state.length}: with that it ends")
        states[key] = replace(state, length=length)

    def _check_lengths(self, states: dict[Key, EpisodeState]) -> None:
        """Check that no episode has steps after its end."""
        for key, state in states.items():
            if state.length is not None and state.last >= state.length:
                refuse(f"t of the last step of episode {key[1]}", state.last, f"at most {state.length - 1}: there it ends")


def open_ledger(connection: Connection, reports: Sequence[Report], team_of: Callable[[int], Team]) -> tuple[Ledger, set[int]]:
    """Read what some reports may contradict; return it, and the teams of theirs that are there, which nobody else changes until the
    end of the transaction.
    """
    keys = sorted({row[:2] for one in reports for row in one.steps} | {k[:2] for one in reports for k in (*one.ends, *one.begins)})
    teams = sorted({team for team, _ in keys})
    lock = " ORDER BY t.id FOR UPDATE OF t" if connection.dialect.name == "postgresql" else ""
    there = {row[0] for row in look_up(connection, "t.id", "teams", ("id",), [(team,) for team in teams], lock)}
    found = look_up(connection, "t.team, t.episode, t.length, t.received, t.last, t.counted", "episodes", KEY[:2], keys)
    episodes = {(row[0], row[1]): EpisodeState(*row[2:]) for row in found}
    wanted = {
        (row[0], row[1], t)
        for one in reports
        for row in one.steps
        if (state := episodes.get(row[:2])) is not None and state.received
        for t in (row[2] - 1, row[2], row[2] + 1)
    }
    known = look_up(connection, ", ".join(f"t.{name}" for name in COLUMNS), "steps", KEY, sorted(wanted))
    return Ledger(team_of, {row[:3]: row for row in known}, episodes), there


def take_in(
    connection: Connection, reports: Sequence[Report], team_of: Callable[[int], Team], now: int
) -> tuple[list[Accepted | Refused], dict[int, int]]:
    """Take in reports, one after the other, in one write transaction.

    now: the time, milliseconds. Return what became of each, and how many episodes of each team were counted; without a horizon,
    steps.
    """
    ledger, there = open_ledger(connection, reports, team_of)
    results: list[Accepted | Refused] = []
    for report in reports:
        try:
            if gone := {key[0] for key in (*report.steps, *report.ends, *report.begins)} - there:
                refuse("a team", team_of(min(gone)).name, "there: it was removed")
            results.append(ledger.take(report))
        except Refused as error:
            results.append(error)
    insert_new(connection, "steps", (*COLUMNS, "received"), [(*row, now) for row in ledger.new])
    states = [(*key, s.length, s.received, s.last, s.counted, now) for key in ledger.touched for s in [ledger.episodes[key]]]
    columns = ("team", "episode", "length", "received", "last", "counted", "begun")
    change = ", ".join(f"{name} = excluded.{name}" for name in columns[2:6])
    upsert(connection, "episodes", columns, states, 2, change)
    add_pieces(connection, ledger.single, now)
    add_counts(connection, steps_of(connection, ledger) + ledger.single, team_of)
    counted: dict[int, int] = {}
    for team, *_ in (*ledger.complete, *ledger.single):
        counted[team] = counted.get(team, 0) + 1
    add_episodes(connection, counted, team_of, now)
    return results, counted


def steps_of(connection: Connection, ledger: Ledger) -> list[Row]:
    """Return all steps of the episodes that became complete: those that are new, and the rest from the log."""
    complete = set(ledger.complete)
    mine = [row for row in ledger.new if row[:2] in complete]
    number: dict[Row, int] = {}
    for row in mine:
        number[row[:2]] = number.get(row[:2], 0) + 1
    partly = {key for key in complete if number.get(key, 0) < ledger.episodes[key].received}
    rest = look_up(connection, ", ".join(f"t.{name}" for name in COLUMNS), "steps", KEY[:2], sorted(partly))
    return [row for row in mine if row[:2] not in partly] + rest


def add_counts(connection: Connection, rows: Iterable[Row], team_of: Callable[[int], Team]) -> None:
    """Add the counts of steps."""
    add_cells(connection, *cells_of(rows, team_of))


def add_cells(connection: Connection, agents: Cells, environment: Cells, sign: int = 1) -> None:
    """Add to counts; with sign -1, take away. agents: (team, row, column, n). environment: (environment, layer, row, column, n)."""
    change = "n = t.n + excluded.n"
    names = ("row", "col", "n")
    upsert(connection, "agent_counts", ("team", *names), signed(agents, sign), 3, change)
    upsert(connection, "environment_counts", ("environment", "layer", *names), signed(environment, sign), 4, change)


def signed(cells: Cells, sign: int) -> Cells:
    """Return cells whose numbers are multiplied by a sign."""
    return cells if sign > 0 else [(*cell[:-1], -cell[-1]) for cell in cells]


def cells_of(rows: Iterable[Row], team_of: Callable[[int], Team]) -> tuple[Cells, Cells]:
    """Return what steps add up to: (team, row, column, n) of agents, and (environment, layer, row, column, n)."""
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        team = team_of(row[0])
        groups.setdefault((team.environment, id(team.served)), []).append(row)
    agents: Cells = []
    outside: dict[tuple[int, ...], int] = {}
    for (environment, _), group in groups.items():
        columns = list(zip(*group, strict=True))
        teams, steps = np.array(columns[0], dtype=np.int64), np.array(columns[INTS], dtype=np.int64)
        costs = np.array([[np.nan if one is None else one for one in column] for column in columns[AMOUNTS]])
        mine, theirs = team_of(group[0][0]).served.counter.count(teams, steps, costs)
        agents += mine
        for *cell, n in theirs:
            place = (environment, *cell)
            outside[place] = outside.get(place, 0) + n
    return agents, [(*place, n) for place, n in outside.items()]


def add_episodes(connection: Connection, counted: dict[int, int], team_of: Callable[[int], Team], now: int) -> None:
    """Add to the numbers of episodes, or steps, of teams and environments; these teams are due for a plan."""
    outside: dict[int, int] = {}
    for team, n in counted.items():
        place = team_of(team).environment
        outside[place] = outside.get(place, 0) + n
    mine = [(n, now, team) for team, n in sorted(counted.items())]
    run_many(connection, "UPDATE teams SET episodes = episodes + ?, due = COALESCE(due, ?) WHERE id = ?", mine)
    theirs = [(n, environment) for environment, n in sorted(outside.items())]
    run_many(connection, "UPDATE environments SET episodes = episodes + ? WHERE id = ?", theirs)
