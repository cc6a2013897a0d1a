"""The store: what is reported in any order, twice and from several threads equals a fleet that saw the same episodes."""

import threading
from dataclasses import replace

import numpy as np
import pytest

import cede
from cede.serve.http.setup import checked, team_from
from cede.serve.planner.plans import Planner
from cede.serve.store.audit import erase, rebuild, verify
from cede.serve.store.database import Busy, Database, Refused, Taken, Unavailable, Unknown
from cede.serve.store.log import COLUMNS, Accepted, StepReport, begin_episode, take_in
from cede.serve.store.store import Store
from cede.serve.store.writer import Writer
from problems import random_mdp
from traffic import episodes, observe, put, report, river, rows, run


def desk():
    """Ends, and costs that are random and must be learned: of actions, and of arriving."""
    mdp = cede.worlds.support_desk()
    enter = np.where(np.arange(mdp.task.n_states) == mdp.task.terminal[1], np.nan, 0.0)
    task = replace(mdp.task.with_unknown_costs((0.0, 0.3)), enter_cost=enter, enter_cost_range=(0, 5))
    return mdp, task


PROBLEMS = {
    "recommended": (lambda: (river(), river().task), cede.recommended),
    "structure": (lambda: (river(), river().task), lambda task: cede.ucrl2_mc(task, belief="kl", structure=river().structure)),
    "sampling": (lambda: (random_mdp(3), random_mdp(3).task), cede.posterior_sampling),
    "costs and ends": (desk, cede.recommended),
}


def same(counts, other):
    for name in ("agents", "environment", "costs"):
        one, two = getattr(counts, name), getattr(other, name)
        assert one.shape == two.shape
        np.testing.assert_array_equal(one.toarray(), two.toarray())
        assert one.dtype == two.dtype
    assert (counts.episodes, counts.environment_episodes) == (other.episodes, other.environment_episodes)


def in_any_order(teams, seen, rng):
    """Batches of all steps and ends, one fifth of them twice, in any order."""
    steps, ends = [], []
    for team, own in zip(teams, seen, strict=True):
        for number, episode in enumerate(own):
            steps += rows(team, number, episode)
            ends.append((team.id, number, len(episode.actions)))
    steps += [steps[i] for i in rng.choice(len(steps), len(steps) // 5)]
    order = rng.permutation(len(steps))
    parts = np.array_split(order, max(1, len(steps) // 37))
    batches = [report([steps[i] for i in part]) for part in parts]
    batches += [report((), [ends[i] for i in part]) for part in np.array_split(rng.permutation(len(ends)), 5)]
    return [batches[i] for i in rng.permutation(len(batches))], len(steps)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_served_learner_equals_a_fleet_that_saw_the_same_log(store, problem):
    make, algorithm = PROBLEMS[problem]
    (mdp, task), rng = make(), np.random.default_rng(5)
    teams = put(store, algorithm(task), {"a": 3, "b": 4, "c": 5})
    seen = [episodes(mdp, 12, seed) for seed in range(3)]
    batches, n = in_any_order(teams, seen, rng)
    other = Store(Database(store.database.engine.url.render_as_string(hide_password=False)))  # as of a second server
    writers, results = [Writer(store), Writer(other)], []

    def send(own, writer):
        results.extend([writer.submit(one).result() for one in own])

    threads = [threading.Thread(target=send, args=(batches[i::4], writers[i % 2])) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.close()
    other.database.close()
    assert sum(one.counted for one in results) == 36
    assert sum(one.new + one.duplicates for one in results) == n

    told = algorithm(task).settings
    fleet = cede.Fleet([cede.Learner(task, told, seed=seed) for seed in (3, 4, 5)])
    for learner, own in zip(fleet, seen, strict=True):
        for episode in own:
            observe(learner, episode)
    planner = Planner(store)
    while planner.once():
        pass
    with store.database.read() as connection:
        assert verify(connection, store) == []
        for team, learner in zip(teams, fleet, strict=True):
            served, version = store.learner(connection, team), store.numbers(connection, team).version
            assert version == 1
            same(served.counts, learner.counts)
            learner.replan()
            assert served.plan.policy.tobytes() == learner.plan.policy.tobytes()
            assert served.plan.value.tobytes() == learner.plan.value.tobytes()


def test_teams_with_agents_of_their_own_share_the_environment(store):
    mdps = [river(), river(3)]
    put(store, cede.ucrl2_mc(mdps[0].task), {"two": 0})
    common = store.environment("river").served
    given = {"agents": list(mdps[1].task.agents), "switch_cost": 0.1, "known_agents": {"p=0.5": np.full((6, 2), 0.5).tolist()}}
    own = team_from("team", common, given)
    store.database.write(lambda c: store.put_team(c, "three", "river", own, 7, 0))
    teams = [store.team("two"), store.team("three")]
    seen = [episodes(mdp, 6, seed) for seed, mdp in enumerate(mdps)]
    batches, _ = in_any_order(teams, seen, np.random.default_rng(1))
    results, _ = store.database.write(lambda c: take_in(c, store.team, batches))
    assert sum(one.counted for one in results) == 12
    fleet = cede.Fleet([cede.ucrl2_mc(mdps[0].task)])
    fleet.welcome(mdps[1].task, known_agents={"p=0.5": np.full((6, 2), 0.5)}, seed=7)
    for learner, all_of_it in zip(fleet, seen, strict=True):
        for episode in all_of_it:
            observe(learner, episode)
    with store.database.read() as connection:
        assert verify(connection, store) == []
        for team, learner in zip(teams, fleet, strict=True):
            served = store.learner(connection, team)
            same(served.counts, learner.counts)
            learner.replan()
            assert served.plan.policy.tobytes() == learner.plan.policy.tobytes()


def take(store, *reports):
    return store.database.write(lambda connection: take_in(connection, store.team, reports))[0]


def changed(row, **values):
    return tuple(values.get(name, one) for name, one in zip(COLUMNS, row, strict=True))


def test_duplicates_and_conflicts(store):
    mdp = river()
    (team,) = put(store, cede.recommended(mdp.task), {"a": 0})
    steps = rows(team, 7, episodes(mdp, 2, 3)[0])
    assert len(steps) == 20
    assert take(store, report(steps[:5])) == [Accepted(5, 0, 0)]
    assert take(store, report(steps[3:8]), report(steps[3:9])) == [Accepted(3, 2, 0), Accepted(1, 5, 0)]
    for name, value in {"action": 1 - steps[4][6], "cost": 0.25, "chosen": 1, "meta": "{}", "at": 5, "reason": "plan"}.items():
        (error,) = take(store, report([steps[15], changed(steps[4], **{name: value})]))
        assert isinstance(error, Refused)
        assert str(error).startswith(f"report: steps[1].{name} is")
    assert take(store, report(steps[15:16])) == [Accepted(1, 0, 0)]  # nothing of a refused report was taken
    for name in ("state", "prev_agent"):
        (error,) = take(store, report([changed(steps[9], **{name: 1 - min(1, steps[9][COLUMNS.index(name)])})]))
        assert f"{name} of step 9 of episode 7 is" in str(error)
    for name in ("next_state", "agent"):
        (error,) = take(store, report([changed(steps[14], **{name: 1 - min(1, steps[14][COLUMNS.index(name)])})]))
        assert f"{name} of step 14 of episode 7 is" in str(error)
    (error,) = take(store, report((), [(team.id, 7, 12)]))
    assert "t of the last step of episode 7 is 15, must be at most 11" in str(error)
    assert take(store, report(steps, [(team.id, 7, 20)])) == [Accepted(10, 10, 1)]
    assert take(store, report(steps, [(team.id, 7, 20)])) == [Accepted(0, 20, 0)]
    (error,) = take(store, report((), [(team.id, 7, 19)]))
    assert "ends[0].steps is 19, must be 20" in str(error)
    with store.database.read() as connection:
        assert verify(connection, store) == []
        assert store.numbers(connection, team).episodes == 1


def test_an_episode_ends_where_it_says_or_in_a_terminal_state(store):
    mdp, task = desk()
    (team,) = put(store, cede.recommended(task), {"a": 0})
    ended = next(e for e in episodes(mdp, 400, 0) if task.is_terminal[e.states[-1]] and 1 < len(e.actions) < 6)
    steps = rows(team, 0, ended)
    assert take(store, report(steps[::-1])) == [Accepted(len(steps), 0, 1)]
    going_on = next(e for e in episodes(mdp, 400, 1) if not task.is_terminal[e.states[-1]] and 1 < len(e.actions) < 6)
    steps = rows(team, 1, going_on)
    assert take(store, report(steps[1:])) == [Accepted(len(steps) - 1, 0, 0)]
    assert take(store, report((), [(team.id, 1, len(steps))])) == [Accepted(0, 0, 0)]
    (error,) = take(store, report([changed(steps[-1], t=len(steps), state=steps[-1][7], prev_agent=steps[-1][5])]))
    assert "must be at most" in str(error)
    assert take(store, report(steps[:1])) == [Accepted(1, 0, 1)]


def test_verify_finds_what_is_wrong_and_rebuild_mends_it(store):
    mdp = river()
    teams = put(store, cede.recommended(mdp.task), {"a": 0, "b": 1})
    batches, _ = in_any_order(teams, [episodes(mdp, 5, 0), episodes(mdp, 5, 1)], np.random.default_rng(0))
    take(store, *batches)
    common = store.environment("river").served
    store.database.write(lambda c: store.put_team(c, "silent", "river", common, 0, 0))
    spoil = [
        "UPDATE counts SET n = n + 1 WHERE kind = 1 AND owner = 1",
        'DELETE FROM counts WHERE kind = 0 AND "key" % 6 = 0',
        "UPDATE teams SET episodes = 3 WHERE id = 2",
        "UPDATE environments SET episodes = 99",
        "UPDATE episodes SET counted = 0 WHERE episode = 2",
        "UPDATE teams SET episodes = 0 WHERE id = 1",
        "UPDATE teams SET episodes = 3 WHERE name = 'silent'",
        "INSERT INTO counts VALUES (1, 3, 'agent/p=0.3', 0, 1)",
        "DELETE FROM episodes WHERE episode = 3 AND length = 20",
    ]
    with store.database.read() as connection:
        before = [store.learner(connection, team).counts for team in teams]
        assert verify(connection, store) == []
    for sql in spoil:
        store.database.write(lambda c, s=sql: run(c, s))
        with store.database.read() as connection:
            assert verify(connection, store), sql
        store.database.write(lambda c: rebuild(c, store))
        with store.database.read() as connection:
            assert verify(connection, store) == [], sql
            for counts, team in zip(before, teams, strict=True):
                same(store.learner(connection, team).counts, counts)


def test_erased_steps_never_were(store):
    mdp = river()
    teams = put(store, cede.recommended(mdp.task), {"a": 0, "b": 1})
    seen = [episodes(mdp, 5, 0), episodes(mdp, 5, 1)]
    batches, _ = in_any_order(teams, seen, np.random.default_rng(0))
    take(store, *batches)
    planner = Planner(store)
    while planner.once():
        pass
    n = store.database.write(lambda c: erase(c, store, teams[0]))
    assert n == sum(len(one.actions) for one in seen[0])
    alone = cede.Fleet([cede.recommended(mdp.task, seed=seed) for seed in (0, 1)])
    for episode in seen[1]:
        observe(alone.learners[1], episode)
    with store.database.read() as connection:
        assert verify(connection, store) == []
        for team, learner in zip(teams, alone, strict=True):
            same(store.learner(connection, team).counts, learner.counts)
            assert store.numbers(connection, team).due is not None
        assert run(connection, "SELECT COUNT(*) FROM steps WHERE team = ?", (teams[0].id,)).scalar() == 0
    assert take(store, report(rows(teams[0], 0, seen[0][0])))[0].new == len(seen[0][0].actions)  # it may go on


def test_names_are_taken_once(store):
    mdp = river()
    put(store, cede.recommended(mdp.task), {"a": 0})
    put(store, cede.recommended(mdp.task), {"a": 0})
    with pytest.raises(Taken, match="there is a team with other settings"):
        put(store, cede.recommended(mdp.task), {"a": 1})
    with pytest.raises(Taken, match="there is an environment with other settings"):
        put(store, cede.greedy(mdp.task), {})
    with pytest.raises(Unknown, match="must be that of a team"):
        store.team("nobody")
    with pytest.raises(Unknown, match="must be that of an environment"):
        store.environment("nowhere")


REFUSED = {
    "forget": lambda task: cede.ucrl2_mc(task, forget=cede.HalfLife(10)),
    "at_most": lambda task: cede.ucrl2_mc(task, at_most={"p=0.7": 0.5}),
    "baseline": lambda task: cede.ucrl2_mc(task, baseline=0),
    "planning": lambda task: cede.ucrl2_mc(task, planning="greedy"),
    "replan": lambda task: cede.ucrl2_mc(task, replan="doubling"),
    "learner": cede.ucrl2,
    "known environment": lambda task: cede.ucrl2_mc(task, known_environment=river().environment),
    "one policy": lambda task: cede.fixed(task, 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_learners_that_keep_more_than_counts_are_refused(name):
    learner = REFUSED[name](river().task)
    with pytest.raises(ValueError, match=rf"environment: .*{name}|environment: {name}"):
        checked("environment", learner.task, learner.settings)


def test_two_servers_that_report_the_same_at_once_count_it_once(store):
    """Both send all of it, in orders of their own: nothing is counted twice, and nobody waits for the other for ever."""
    mdp, rng = river(), np.random.default_rng(2)
    teams = put(store, cede.recommended(mdp.task), {f"team-{i}": i for i in range(8)})
    seen = [episodes(mdp, 3, seed) for seed in range(8)]
    other = Store(Database(store.database.engine.url.render_as_string(hide_password=False)))
    results = []

    def send(which, batches):
        writer = Writer(which)
        results.extend([one.result() for one in [writer.submit(batch) for batch in batches]])
        writer.close()

    orders = [in_any_order(teams, seen, rng)[0] for _ in range(2)]
    threads = [threading.Thread(target=send, args=pair) for pair in zip((store, other), orders, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one.counted for one in results) == 24
    assert sum(one.new for one in results) == sum(len(one.actions) for own in seen for one in own)
    with store.database.read() as connection:
        assert verify(connection, store) == []
    other.database.close()


def test_a_writer_goes_on_after_failures_and_takes_no_more_than_may_wait(store):
    mdp = river()
    (team,) = put(store, cede.recommended(mdp.task), {"a": 0})
    steps = rows(team, 0, episodes(mdp, 1, 0)[0])
    writer = Writer(store, most=10)
    with pytest.raises(Unavailable, match="the database cannot be written now"):
        writer.call(lambda connection: run(connection, "SELECT nonsense FROM nowhere")).result()
    go_on, begun = threading.Event(), threading.Event()
    slow = writer.call(lambda connection: (begun.set(), go_on.wait()))
    begun.wait()
    with pytest.raises(Busy):
        writer.submit(report(steps))
    go_on.set()
    slow.result()
    assert writer.submit(report(steps)).result().new == len(steps)  # alone, it may be larger
    assert writer.failures == 1
    writer.close()
    assert not writer.alive
    with pytest.raises(Unavailable, match="being stopped"):
        writer.submit(report(steps))


def test_who_no_longer_waits_is_not_answered_and_the_writer_goes_on(store):
    """As when a connection breaks, and its request is cancelled while it waits."""
    mdp = river()
    (team,) = put(store, cede.recommended(mdp.task), {"a": 0})
    first, second = (rows(team, i, one) for i, one in enumerate(episodes(mdp, 2, 0)))
    writer = Writer(store)
    go_on, begun, done = threading.Event(), threading.Event(), []
    slow = writer.call(lambda connection: (begun.set(), go_on.wait()))
    begun.wait()
    gone, work = writer.submit(report(first)), writer.call(lambda connection: done.append(1))
    assert gone.cancel()
    assert work.cancel()
    stays = writer.submit(report(second))
    go_on.set()
    slow.result()
    assert stays.result().new == len(second)
    assert writer.alive
    assert writer.waiting == 0
    assert done == []
    writer.close()


def begun_at_once(stores, team, keys):
    """Begin one episode for each key, from several threads of several servers; return what each was given."""
    writers = [Writer(store) for store in stores]
    places = [i % len(stores) for i in range(len(keys))]
    works = [lambda c, s=stores[place], k=key: begin_episode(c, team, s.team, k) for place, key in zip(places, keys, strict=True)]
    futures = [writers[place].call(work) for place, work in zip(places, works, strict=True)]
    results = [future.result() for future in futures]
    for writer in writers:
        writer.close()
    return results


def test_an_episode_begun_again_under_its_key_is_the_same_one(store):
    team, other = put(store, cede.recommended(river().task), {"a": 0, "b": 0})
    url = store.database.engine.url.render_as_string(hide_password=False)
    second = Store(Database(url))  # as of a second server
    keys = [f"key {i // 6}" for i in range(60)]
    found = begun_at_once([store, second], team, keys)
    numbers = {key: {number for one, (number, _) in zip(keys, found, strict=True) if one == key} for key in keys}
    assert all(len(one) == 1 for one in numbers.values())
    assert len(set.union(*numbers.values())) == 10
    assert sum(new for _, new in found) == 10
    second.database.close()
    again = Store(Database(url))  # after a restart
    assert again.database.write(lambda c: begin_episode(c, team, again.team, "key 3")) == (*numbers["key 3"], False)
    assert again.database.write(lambda c: begin_episode(c, other, again.team, "key 3")) == (0, True)  # of another team
    assert again.database.write(lambda c: erase(c, again, team)) == 0
    assert again.database.write(lambda c: begin_episode(c, team, again.team, "key 3")) == (0, True)
    again.database.close()


def test_episodes_begun_at_once_without_a_key_have_numbers_of_their_own(store):
    (team,) = put(store, cede.recommended(river().task), {"a": 0})
    second = Store(Database(store.database.engine.url.render_as_string(hide_password=False)))
    found = begun_at_once([store, second], team, [None] * 60)
    assert sorted(found) == [(number, True) for number in range(60)]
    second.database.close()


def test_numbers_that_the_service_gives_stay_where_it_takes_them(store):
    """However large a number somebody has chosen."""
    (team,) = put(store, cede.recommended(river().task), {"a": 0})
    for number in (3, 2**53 - 1):
        store.database.write(lambda c, n=number: take_in(c, store.team, [StepReport((), (), ((team.id, n),))]))
    assert store.database.write(lambda c: begin_episode(c, team, store.team)) == (4, True)
    store.database.write(lambda c: take_in(c, store.team, [StepReport((), (), ((team.id, 2**52 - 1),))]))
    with pytest.raises(ValueError, match="begin: episode is missing, must be given"):
        store.database.write(lambda c: begin_episode(c, team, store.team))
