"""Runs without a horizon, in pieces of PIECE steps, which are the units of their history as episodes are elsewhere.

A run may have any number of steps, so it is never looked at as a whole. Of each piece the database knows how many of its steps are
in the log, and how many of these are in the history.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from cede.serve.database import run, upsert
from cede.serve.reports import Row

PIECE = 100  # steps
COLUMNS = "episode, piece, received, begun"
OF_LOG = f"""SELECT episode, t / {PIECE} AS piece, COUNT(*) AS received, MIN(received) AS begun
    FROM steps WHERE team = ? GROUP BY episode, t / {PIECE}"""


@dataclass(frozen=True)
class Source:
    """Where it is kept what of a history's units is to be summed: episodes that were counted, or pieces of runs."""

    table: str
    key: tuple[str, ...]
    mark: str  # a column that is the same as long as nobody else summed it
    waits: str  # SQL: which are to be summed
    waiting: str  # SQL: how much that is, in episodes or steps
    placed: str  # SQL: to take note that it was summed


SOURCES = {
    "episodes": Source(
        table="episodes",
        key=("team", "episode"),
        mark="counted",
        waits="counted = 1 AND place = -1",
        waiting="COUNT(*)",
        placed="number = ?, place = ?",
    ),
    "steps": Source(
        table="pieces",
        key=("team", "episode", "piece"),
        mark="summed",
        waits="received > summed",
        waiting="COALESCE(SUM(received - summed), 0)",
        placed="number = ?, place = ?, summed = ?",
    ),
}


@dataclass(frozen=True)
class Unit:
    """What is known of an episode or a piece that is to be summed."""

    begun: int
    mark: int
    received: int
    number: int  # among those of the team, in history; -1: it is not there yet
    place: int  # among those of the environment


def add_pieces(connection: Connection, rows: Iterable[Row], now: int) -> None:
    """Take note of new steps of runs, rows that begin with team, episode and t. now: the time, milliseconds."""
    found = Counter((team, episode, t // PIECE) for team, episode, t, *_ in rows)
    columns, change = ("team", "episode", "piece", "received", "begun"), "received = t.received + excluded.received"
    upsert(connection, "pieces", columns, [(*key, n, now) for key, n in found.items()], 3, change)


def wrong_pieces(connection: Connection, team: int, most: int = 10) -> list[str]:
    """Compare the pieces of a team's runs with the log; return some of the differences, as text."""
    kept = "SELECT episode, piece, received FROM pieces WHERE team = ?"
    there = f"SELECT episode, piece, received FROM ({OF_LOG}) AS log"
    result = []
    for what, one, other in (("not as in the log", kept, there), ("missing", there, kept)):
        sql = f"SELECT * FROM ({one}) AS a EXCEPT SELECT * FROM ({other}) AS b LIMIT {most}"
        result += [f"piece (episode, piece, steps) {tuple(row)} is {what}" for row in run(connection, sql, (team, team))]
    return result


def rebuild_pieces(connection: Connection, team: int) -> None:
    """Make the pieces of a team's runs again from the log. Nothing of them is in the history."""
    run(connection, "DELETE FROM pieces WHERE team = ?", (team,))
    sql = f"INSERT INTO pieces (team, {COLUMNS}) SELECT ?, {COLUMNS} FROM ({OF_LOG}) AS log"
    run(connection, sql, (team, team))
