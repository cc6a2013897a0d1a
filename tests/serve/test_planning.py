"""Planners: versions grow, what went into them is recorded, and the work of a dead planner is taken over."""

import threading

import cede
from cede.serve.planner.plans import PlanCache, Planner
from cede.serve.store.audit import erase
from cede.serve.store.log import take_in
from traffic import episodes, put, report, river, rows, run


def told(store, team, number, seed):
    episode = episodes(river(), 1, seed)[0]
    one = report(rows(team, number, episode), [(team.id, number, len(episode.actions))])
    store.database.write(lambda c: take_in(c, store.team, [one]))


def kept(store):
    with store.database.read() as connection:
        sql = "SELECT team, version, episodes, environment_episodes FROM plans ORDER BY team, version"
        return [tuple(row) for row in run(connection, sql)]


def due(store):
    with store.database.read() as connection:
        return [row[0] for row in run(connection, "SELECT id FROM teams WHERE due IS NOT NULL ORDER BY id")]


def test_teams_with_new_episodes_are_due_and_versions_grow(store):
    one, two = put(store, cede.recommended(river().task), {"a": 0, "b": 1})
    published = []
    planner = Planner(store, published=published.append)
    assert due(store) == [one.id, two.id]  # a new team gets a plan from what the others know
    assert planner.once() == 2
    assert planner.once() == 0
    told(store, two, 0, 3)
    told(store, two, 1, 4)
    assert due(store) == [two.id]
    assert planner.once() == 1
    told(store, one, 0, 5)
    assert planner.once() == 1
    assert kept(store) == [(one.id, 1, 0, 0), (one.id, 2, 1, 3), (two.id, 1, 0, 0), (two.id, 2, 2, 2)]
    assert [plan.version for plan in published] == [1, 1, 2, 2]
    assert planner.made == 4


def test_a_dead_planners_work_is_taken_over(store):
    (team,) = put(store, cede.recommended(river().task), {"a": 0})
    dead, living = Planner(store, lease=-1), Planner(store)
    leased = store.database.write(dead.lease)
    assert leased == [team.id]
    late = dead.make(leased)
    assert living.once() == 1  # its lease is over
    assert store.database.write(lambda c: dead.publish(c, late)) == []  # it comes back too late
    assert kept(store) == [(team.id, 1, 0, 0)]
    told(store, team, 0, 1)
    assert store.database.write(living.lease) == [team.id]
    assert Planner(store).once() == 0  # nobody takes what a living one has


def test_what_is_counted_while_a_plan_is_made_is_planned_for_afterwards(store):
    (team,) = put(store, cede.recommended(river().task), {"a": 0})
    planner = Planner(store)
    plans = planner.make(store.database.write(planner.lease))
    told(store, team, 0, 1)
    assert len(store.database.write(lambda c: planner.publish(c, plans))) == 1
    assert due(store) == [team.id]
    assert planner.once() == 1
    assert due(store) == []


def test_a_plan_from_what_was_erased_meanwhile_is_not_published(store):
    one, two = put(store, cede.recommended(river().task), {"a": 0, "b": 1})
    told(store, one, 0, 1)
    planner = Planner(store)
    plans = planner.make(store.database.write(planner.lease))
    store.database.write(lambda c: erase(c, store, one))
    assert store.database.write(lambda c: planner.publish(c, plans)) == []
    assert due(store) == [one.id, two.id]


def test_plans_say_why_they_choose_in_the_words_of_a_record(store, tmp_path):
    """Auditions at first and now and then, else the plan: as it is recorded of a learner that saw the same."""
    (team,) = put(store, cede.recommended(river().task), {"a": 0})
    published, learner = [], cede.recommended(river().task)
    planner = Planner(store, published=published.append)
    with learner.record_to(tmp_path / "record.jsonl"):
        for number in range(20):
            planner.once()
            agent = learner.choose(0, 0, 0)
            assert agent == published[-1].policy[0, 0, 0]
            learner.observe(0, 0, 0, agent, 0, 0)
            learner.end_episode()
            one = report([(team.id, number, 0, 0, 0, agent, 0, 0, *[None] * 7)], [(team.id, number, 1)])
            store.database.write(lambda c, one=one: take_in(c, store.team, [one]))
    words = cede.read_record(tmp_path / "record.jsonl").columns["reason"].tolist()
    assert [plan.reason for plan in published] == words
    assert set(words) == {"plan", "audition"}
    with store.database.read() as connection:
        assert [row[0] for row in run(connection, "SELECT reason FROM plans ORDER BY version")] == words
    for number, word in enumerate(words):  # plans that were made before schema 3
        sql = "UPDATE plans SET reason = NULL, episodes = ? WHERE version = 20"
        store.database.write(lambda c, sql=sql, number=number: run(c, sql, (number,)))
        assert PlanCache(store).load("a").plan.reason == word


def test_several_planners_share_the_work(store):
    put(store, cede.recommended(river().task), {f"team-{i}": i for i in range(30)})
    planners = [Planner(store) for _ in range(3)]

    def work(planner):
        while planner.once(4):
            pass

    threads = [threading.Thread(target=work, args=(one,)) for one in planners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert due(store) == []
    assert [row[1:] for row in kept(store)] == [(1, 0, 0)] * 30
    assert sum(one.made for one in planners) == 30
