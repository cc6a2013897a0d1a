"""The log of steps: takes in reports, and counts an episode in the transaction in which it becomes complete.

The key of a step is (team, episode, t). Sent again, a step is a duplicate and changes nothing; with another content it is refused.
Steps may come in any order. An episode is complete when all its steps are in the log: up to a step that leads to a terminal state,
up to the horizon, or as many as its end says. Then it is counted as a whole, as `Learner.end_episode` does.

Without a horizon, an episode is a run: each step is counted by itself, in the transaction that writes it. A terminal state or a
declared end ends a run, too. A run may have any number of steps, so its history is kept in pieces of PIECE steps.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sqlalchemy import Connection, bindparam, delete, except_, func, insert, literal, literal_column, select, update

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede.serve.names import CountRow, Row
from cede.serve.store.database import Refused, among, insert_new, look_up, now_ms, run_many, upsert
from cede.serve.store.schema import PIECE, counts, environments, episodes, pieces, steps, teams
from cede.steps.step import WHERE, WHO, Step, wrong_links

if TYPE_CHECKING:
    from cede.serve.served import ServedTeam, TeamOf

KEY = ("team", "episode", "t")
PLACES = ("state", "prev_agent", "agent", "action", "next_state")
AMOUNTS = ("cost", "enter_cost")
EXTRA = ("chosen", "version", "at")
COLUMNS = (*KEY, *PLACES, *AMOUNTS, *EXTRA, "reason", "meta")  # of a step's Row; the team by number, None where not given
REASONS = ("plan", "audition", "fallback")  # of a choice
MOST_GIVEN = 2**52  # the service gives smaller episode numbers; clients may choose larger ones
T, STATE, PREV_AGENT, AGENT, NEXT_STATE = (COLUMNS.index(name) for name in ("t", "state", "prev_agent", "agent", "next_state"))
Key = tuple[int, int]  # team and episode
OF_EPISODE = ("length", "received", "last", "counted")
STEP = select(*(steps.c[name] for name in COLUMNS))
STEPS = STEP.where(among(steps.c.team, steps.c.episode, steps.c.t))
STEPS_OF_EPISODES = STEP.where(among(steps.c.team, steps.c.episode))
STATES = select(*(episodes.c[name] for name in ("team", "episode", *OF_EPISODE))).where(among(episodes.c.team, episodes.c.episode))
LOCK_TEAMS = select(teams.c.id).where(among(teams.c.id)).order_by(teams.c.id).with_for_update()


def step_of(row: Row) -> Step:
    """Return a row of the log as a Step."""
    return Step(*row[T : NEXT_STATE + 3])


@dataclass(frozen=True)
class StepReport:
    """The content of one request, checked against the tasks of its teams."""

    steps: tuple[Row, ...]
    ends: tuple[tuple[int, int, int], ...] = ()  # team, episode, number of steps
    begins: tuple[Key, ...] = ()


@dataclass(frozen=True)
class EpisodeState:
    """The state of an episode in the log."""

    length: int | None = None  # number of steps; None: not known
    received: int = 0
    last: int = -1  # the greatest t
    counted: int = 0

    @property
    def complete(self) -> bool:
        """Return whether all steps are in the log."""
        return self.length is not None and self.received == self.length


@dataclass(frozen=True)
class Accepted:
    """The outcome of a report."""

    new: int  # steps
    duplicates: int  # steps that were in the log already
    counted: int  # episodes that this report completed; without a horizon, new steps


def refuse(place: str, got: object, expected: str) -> NoReturn:
    """Raise Refused, in the grammar of all errors."""
    raise Refused(f"report: {place} is {got}, must be {expected}")


@dataclass
class EpisodeLog:
    """The part of the log that a transaction reads, and its additions."""

    team_of: "TeamOf"
    known: dict[Row, Row]  # steps by team, episode and t
    episodes: dict[Key, EpisodeState]
    new: list[Row] = field(default_factory=list)
    touched: set[Key] = field(default_factory=set)
    complete: list[Key] = field(default_factory=list)
    single: list[Row] = field(default_factory=list)  # new steps of runs

    def take(self, report: StepReport) -> Accepted:
        """Take in a report as a whole. If a part of it contradicts the log, nothing is taken, and Refused is raised."""
        staged: dict[Row, Row] = {}
        states: dict[Key, EpisodeState] = {}
        duplicates = 0
        for i, row in enumerate(report.steps):
            logged = staged.get(row[:3]) or self.known.get(row[:3])
            if logged is None:
                staged[row[:3]] = row
            elif logged == row:
                duplicates += 1
            else:
                name, got, was = next(one for one in zip(COLUMNS, row, logged, strict=True) if one[1] != one[2])
                got, was = ("null" if one is None else one for one in (got, was))
                refuse(f"steps[{i}].{name}", got, f"{was}, as in the log: a step is never changed")
        for key in report.begins:
            states[key] = self.episodes.get(key, EpisodeState())
        for row in staged.values():
            self._check_neighbours(row, staged)
            self._add(row, states)
        for i, (team, episode, length) in enumerate(report.ends):
            self._end(states, (team, episode), length, f"ends[{i}].steps")
        for key, state in states.items():
            if state.length is not None and state.last >= state.length:
                refuse(f"t of the last step of episode {key[1]}", state.last, f"at most {state.length - 1}: there it ends")
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
        """Check that a new step continues the step before it, and that the step after it continues this one."""
        team, episode, t = row[:3]
        before = staged.get((team, episode, t - 1)) or self.known.get((team, episode, t - 1))
        after = self.known.get((team, episode, t + 1))
        name, step = f"of step {t} of episode {episode}", step_of(row)
        if before is not None:
            wrong_agent, wrong_state = wrong_links(step_of(before), step)
            if wrong_state:
                refuse(f"state {name}", row[STATE], f"{before[NEXT_STATE]}, {WHERE}")
            if wrong_agent:
                refuse(f"prev_agent {name}", row[PREV_AGENT], f"{before[AGENT]}, {WHO}")
        if after is not None:
            wrong_agent, wrong_state = wrong_links(step, step_of(after))
            if wrong_state:
                refuse(f"next_state {name}", row[NEXT_STATE], f"{after[STATE]}, where the step after began")
            if wrong_agent:
                refuse(f"agent {name}", row[AGENT], f"{after[PREV_AGENT]}, who acted before the step after")

    def _add(self, row: Row, states: dict[Key, EpisodeState]) -> None:
        """Add a new step to the state of its episode."""
        key, t, served = row[:2], row[T], self.team_of(row[0]).served
        state = states.get(key) or self.episodes.get(key, EpisodeState())
        states[key] = EpisodeState(state.length, state.received + 1, max(state.last, t), state.counted)
        if t + 1 == served.task.horizon or row[NEXT_STATE] in served.ends:
            self._end(states, key, t + 1, f"the length of episode {key[1]}")

    def _end(self, states: dict[Key, EpisodeState], key: Key, length: int, place: str) -> None:
        """Set the number of steps of an episode."""
        state = states.get(key) or self.episodes.get(key, EpisodeState())
        if state.length not in (None, length):
            refuse(place, length, f"{state.length}: with that it ends")
        states[key] = replace(state, length=length)


def open_log(connection: Connection, reports: Sequence[StepReport], team_of: "TeamOf") -> tuple[EpisodeLog, set[int]]:
    """Read the part of the log that reports may contradict. Return it, and the numbers of their teams that exist.

    These teams are locked until the end of the transaction.
    """
    keys = sorted({row[:2] for one in reports for row in one.steps} | {k[:2] for one in reports for k in (*one.ends, *one.begins)})
    existing = {row[0] for row in look_up(connection, LOCK_TEAMS, sorted({(team,) for team, _ in keys}))}
    states = {(row[0], row[1]): EpisodeState(*row[2:]) for row in look_up(connection, STATES, keys)}
    wanted = {
        (row[0], row[1], t)
        for one in reports
        for row in one.steps
        if (state := states.get(row[:2])) is not None and state.received
        for t in (row[2] - 1, row[2], row[2] + 1)
    }
    return EpisodeLog(team_of, {row[:3]: row for row in look_up(connection, STEPS, sorted(wanted))}, states), existing


def take_in(
    connection: Connection, team_of: "TeamOf", reports: Sequence[StepReport]
) -> tuple[list[Accepted | Refused], dict[int, int]]:
    """Take in reports in one write transaction.

    Return the outcome of each, and the number of counted episodes by team; without a horizon, of steps.
    """
    log, existing = open_log(connection, reports, team_of)
    now = now_ms()
    outcomes: list[Accepted | Refused] = []
    for report in reports:
        try:
            if gone := {key[0] for key in (*report.steps, *report.ends, *report.begins)} - existing:
                refuse("a team", team_of(min(gone)).name, "there: it was removed")
            outcomes.append(log.take(report))
        except Refused as error:
            outcomes.append(error)
    insert_new(connection, steps, (*COLUMNS, "received"), [(*row, now) for row in log.new])
    states = ((key, log.episodes[key]) for key in log.touched)
    put_states(connection, ((*key, one.length, one.received, one.last, one.counted) for key, one in states), now)
    parts = Counter((team, episode, t // PIECE) for team, episode, t, *_ in log.single)
    counted_pieces = [(*key, n, now) for key, n in parts.items()]
    upsert(connection, pieces, ("team", "episode", "piece", "received", "begun"), counted_pieces, add=["received"])
    if complete := [*steps_of(connection, log), *log.single]:
        columns = list(zip(*complete, strict=True))
        amounts = np.array(columns[NEXT_STATE + 1 : NEXT_STATE + 3], dtype=np.float64)  # None becomes NaN
        add_counts(connection, count_steps(np.array(columns[: NEXT_STATE + 1], dtype=np.int64), amounts, team_of))
    counted = Counter(key[0] for key in (*log.complete, *log.single))
    add_episodes(connection, counted, team_of, now)
    return outcomes, counted


def begin_episode(connection: Connection, team: "ServedTeam", team_of: "TeamOf", key: str | None = None) -> tuple[int, bool]:
    """Begin an episode under an unused number; return the number, and whether it is new.

    key: idempotency key; the same key returns the same number. The team is locked until the end of the transaction.
    """
    connection.execute(select(teams.c.id).where(teams.c.id == team.id).with_for_update())
    own = episodes.c.team == team.id
    if key is not None:
        known = connection.scalar(select(episodes.c.episode).where(own, episodes.c.key == key))
        if known is not None:
            return int(known), False
    unused = select(func.coalesce(func.max(episodes.c.episode) + 1, 0)).where(own, episodes.c.episode < MOST_GIVEN)
    number = int(connection.scalar(unused) or 0)
    if number >= MOST_GIVEN:
        check.fail("begin", "episode", "missing", "given: this team has no number left that the service could give")
    [outcome], _ = take_in(connection, team_of, [StepReport((), (), ((team.id, number),))])
    if isinstance(outcome, Refused):
        raise outcome
    if key is not None:
        connection.execute(update(episodes).where(own, episodes.c.episode == number).values(key=key))
    return number, True


def steps_of(connection: Connection, log: EpisodeLog) -> list[Row]:
    """Return all steps of the episodes that became complete: new ones, and the rest from the database."""
    complete = set(log.complete)
    new = [row for row in log.new if row[:2] in complete]
    n_new = Counter(row[:2] for row in new)
    partly = {key for key in complete if n_new[key] < log.episodes[key].received}
    return [row for row in new if row[:2] not in partly] + look_up(connection, STEPS_OF_EPISODES, sorted(partly))


def put_states(connection: Connection, rows: Iterable[Row], now: int) -> None:
    """Write states of episodes: rows of team, episode and OF_EPISODE."""
    columns = ("team", "episode", *OF_EPISODE, "begun")
    upsert(connection, episodes, columns, [(*row, now) for row in rows], replace=OF_EPISODE)


def add_counts(connection: Connection, rows: Iterable[CountRow], sign: int = 1) -> None:
    """Add to counts; with sign -1, subtract. rows: each key once."""
    upsert(connection, counts, counts.c.keys(), [(*row[:-1], sign * row[-1]) for row in rows], add=["n"])


def count_steps(columns: Ints, amounts: Floats, team_of: "TeamOf") -> list[CountRow]:
    """Count steps; return rows of the table `counts`, each key once.

    columns: (8, n) KEY and PLACES. amounts: (2, n) AMOUNTS, NaN where not given.
    """
    numbers, member = np.unique(columns[0], return_inverse=True)
    groups: dict[tuple[int, int], list[int]] = {}  # members with one environment and one task
    members = [team_of(number) for number in numbers.tolist()]
    for i, team in enumerate(members):
        groups.setdefault((team.environment, id(team.served)), []).append(i)
    sums: dict[Row, int] = {}
    for (environment, _), group in groups.items():
        own: Any = slice(None) if len(groups) == 1 else np.isin(member, group)
        counter = members[group[0]].served.counter
        add_to(sums, counter.count(environment, columns[0, own], columns[2:, own], amounts[:, own]))
    return [(kind, owner, layer, key, n) for (kind, owner, layer, key), n in sums.items()]


def add_to(sums: dict[Row, int], rows: Iterable[Row]) -> None:
    """Add rows, whose last entry is a number, to sums by the other entries."""
    for row in rows:
        sums[row[:-1]] = sums.get(row[:-1], 0) + row[-1]


MORE: Any = bindparam("n")
DUE = func.coalesce(teams.c.due, bindparam("now"))
MORE_OF_TEAM = update(teams).where(teams.c.id == bindparam("owner")).values(episodes=teams.c.episodes + MORE, due=DUE)
MORE_OF_ENVIRONMENT = (
    update(environments).where(environments.c.id == bindparam("owner")).values(episodes=environments.c.episodes + MORE)
)


def add_episodes(connection: Connection, counted: Mapping[int, int], team_of: "TeamOf", now: int) -> None:
    """Add to the numbers of episodes, or steps, of teams and environments. The teams become due for a plan."""
    sums: Counter[int] = Counter()
    for team, n in counted.items():
        sums[team_of(team).environment] += n
    run_many(connection, MORE_OF_TEAM, [{"owner": team, "n": n, "now": now} for team, n in sorted(counted.items())])
    run_many(connection, MORE_OF_ENVIRONMENT, [{"owner": environment, "n": n} for environment, n in sorted(sums.items())])


# ------------------------------------------------------------------------------------------------- pieces of runs

OF_PIECE = ("episode", "piece", "received", "begun")


def pieces_in_log(team: int) -> Any:
    """Return a query for the pieces of a team's runs, by the steps in the log: OF_PIECE."""
    piece = (steps.c.t // literal_column(str(PIECE), steps.c.t.type)).label("piece")
    query = select(steps.c.episode, piece, func.count().label("received"), func.min(steps.c.received).label("begun"))
    return query.where(steps.c.team == team).group_by(steps.c.episode, piece)


def wrong_pieces(connection: Connection, team: int, most: int = 10) -> list[str]:
    """Compare the pieces of a team's runs with the log; return some of the differences, as text."""
    names = OF_PIECE[:3]
    stored = select(*(pieces.c[name] for name in names)).where(pieces.c.team == team)
    log = pieces_in_log(team).subquery()
    logged = select(*(log.c[name] for name in names))
    result = []
    for problem, one, other in (("not as in the log", stored, logged), ("missing", logged, stored)):
        rows = connection.execute(except_(one, other).limit(most))
        result += [f"piece (episode, piece, steps) {tuple(row)} is {problem}" for row in rows]
    return result


def rebuild_pieces(connection: Connection, team: int) -> None:
    """Recompute the pieces of a team's runs from the log; none is summed into the history yet."""
    connection.execute(delete(pieces).where(pieces.c.team == team))
    log = pieces_in_log(team).subquery()
    connection.execute(insert(pieces).from_select(("team", *OF_PIECE), select(literal(team), *log.c)))
