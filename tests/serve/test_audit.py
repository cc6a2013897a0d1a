"""Counting the log again: in parts, for many teams at once, with a progress bar, and without asking for teams that told nothing."""

import io
import sys
from dataclasses import replace

import pytest
from sqlalchemy import event

import cede
from cede._base import progress
from cede.serve.http.setup import team_from
from cede.serve.store import audit
from cede.serve.store.log import take_in
from traffic import episodes, put, report, river, rows, run

KEPT = {
    "counts": "*",
    "episodes": "team, episode, length, received, last, counted",
    "teams": "id, episodes",
    "environments": "id, episodes",
}


def kept(store):
    """All that follows from the log."""
    with store.database.read() as connection:
        found = {table: run(connection, f"SELECT {columns} FROM {table}").all() for table, columns in KEPT.items()}
    return {table: sorted(tuple(row) for row in some) for table, some in found.items()}


def tell(store, team, mdp, n, seed):
    for number, episode in enumerate(episodes(mdp, n, seed)):
        one = report(rows(team, number, episode), [(team.id, number, len(episode.actions))])
        (found,), _ = store.database.write(lambda c, one=one: take_in(c, store.team, [one]))
        assert found.counted == 1


@pytest.fixture
def mixed(store):
    """Two environments, one of which learns costs; teams with agents of their own; episodes without steps, and without an end."""
    mdp, desk = river(), cede.worlds.support_desk()
    learning = replace(desk.task.with_unknown_costs((0.0, 0.3)), enter_cost_range=(0, 5))
    one, two = put(store, cede.recommended(mdp.task), {"one": 0, "two": 1})
    (third,) = put(store, cede.recommended(learning), {"third": 2}, "desk")
    own = team_from("test", store.environment("river").served, {"agents": ["p=0.3", "another"], "switch_cost": 0.2})
    store.database.write(lambda c: store.put_team(c, "own", "river", own, 0, 0))
    (last,) = put(store, cede.recommended(mdp.task), {"last": 3})
    for i, team in enumerate((one, store.team("own"), last)):
        tell(store, team, mdp, 6, i)
    tell(store, third, desk, 6, 7)
    store.database.write(lambda c: take_in(c, store.team, [report(rows(last, 77, episodes(mdp, 1, 9)[0])[2:3])]))
    for number in (3, 9):
        store.database.write(lambda c, number=number: take_in(c, store.team, [replace(report(), begins=((two.id, number),))]))
    return store


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_the_log_may_be_cut_anywhere(mixed, monkeypatch, chunk):
    """Whatever the size of the parts: what was counted when it was told is what is counted now."""
    monkeypatch.setattr(audit, "CHUNK", chunk)
    before = kept(mixed)
    with mixed.database.read() as connection:
        assert audit.verify(connection, mixed) == []
    mixed.database.write(lambda c: run(c, "UPDATE counts SET n = n + 1 WHERE kind = 1"))
    with mixed.database.read() as connection:
        assert len(audit.verify(connection, mixed)) == sum(row[0] == 1 for row in before["counts"])
    mixed.database.write(lambda c: audit.rebuild(c, mixed))
    assert kept(mixed) == before
    for name in ("one", "third", "own", "last", "two"):
        mixed.database.write(lambda c, name=name: audit.erase(c, mixed, mixed.team(name)))
        with mixed.database.read() as connection:
            assert audit.verify(connection, mixed) == []
    assert [len(some) for some in kept(mixed).values()] == [0, 0, 5, 2]


def test_a_part_is_all_that_is_in_memory(store, monkeypatch):
    monkeypatch.setattr(audit, "CHUNK", 50)
    mdp = river()
    (team,) = put(store, cede.recommended(mdp.task), {"a": 0})
    tell(store, team, mdp, 60, 1)
    with store.database.read() as connection:
        sizes = [(len(part.states), len(part.stored)) for part in audit.recount(connection, store)]
    assert sum(size for size, _ in sizes) == 60
    assert max(max(size) for size in sizes) < 50


def test_teams_that_told_nothing_are_not_asked_for(store):
    mdp, asked = river(), []
    (team,) = put(store, cede.recommended(mdp.task), {"a": 0})
    tell(store, team, mdp, 3, 1)
    event.listen(store.database.engine, "before_cursor_execute", lambda *given: asked.append(given[2]))

    def number(work):
        asked.clear()
        work()
        return len(asked)

    def verify():
        with store.database.read() as connection:
            assert audit.verify(connection, store) == []

    def rebuild():
        store.database.write(lambda c: audit.rebuild(c, store))

    before = [number(work) for work in (verify, rebuild)]
    put(store, cede.recommended(mdp.task), {f"silent-{i}": i for i in range(50)})
    assert [number(work) for work in (verify, rebuild)] == before
    assert max(before) < 30


def test_steps_of_a_team_that_is_not_there_are_an_error(store):
    mdp = river()
    (team,) = put(store, cede.recommended(mdp.task), {"a": 0})
    tell(store, team, mdp, 1, 1)
    store.database.write(lambda c: run(c, "UPDATE steps SET team = 12"))
    with pytest.raises(ValueError, match="log: the number of a team is 12, must be that of a team"), store.database.read() as c:
        audit.verify(c, store)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("shown", [True, False])
def test_progress_is_told_in_steps_and_shown_in_a_terminal_only(store, monkeypatch, shown):
    monkeypatch.setattr(audit, "CHUNK", 30)
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    mdp = river()
    (team,) = put(store, cede.recommended(mdp.task), {"a": 0})
    tell(store, team, mdp, 10, 1)
    with store.database.read() as connection:
        steps = run(connection, "SELECT COUNT(*) FROM steps").scalar()
    for work, name in ((audit.verify, "verify"), (audit.rebuild, "rebuild")):
        said = []
        store.database.write(lambda c, work=work, said=said: work(c, store, said.append))
        assert said == [*range(30, steps, 30), steps, steps]
        monkeypatch.setattr(sys, "stderr", Terminal() if shown else io.StringIO())
        store.database.write(lambda c, work=work: work(c, store, True))
        assert (f"{name}: steps" in sys.stderr.getvalue()) == (f"{steps}/{steps}" in sys.stderr.getvalue()) == shown
