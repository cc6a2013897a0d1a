"""Runs without a horizon: every step is counted in the transaction that writes it, in any order; plans follow from counts alone."""

import threading
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import cede
from cede.learners.learner import Learner
from cede.serve.http.setup import checked, environment_from, environment_from_file, team_from
from cede.serve.names import BIG, OF_ENVIRONMENT, OF_TEAM
from cede.serve.planner.plans import Planner
from cede.serve.served import unpacked_policy
from cede.serve.store import audit, history
from cede.serve.store.audit import erase, rebuild, verify
from cede.serve.store.database import Database, Refused
from cede.serve.store.history import SIZES, HistorySums, Owner, history_of
from cede.serve.store.log import COLUMNS, Accepted, take_in
from cede.serve.store.schema import PIECE
from cede.serve.store.store import Store
from cede.serve.store.writer import Writer
from traffic import episodes, observe, put, report, river, rows, run, without_horizon


def long_river():
    """A river whose episodes are as long as the runs of the tests."""
    return river(horizon=170)


def desk():
    """Ends, and costs that are random and must be learned: of actions, and of arriving."""
    mdp = cede.worlds.support_desk()
    enter = np.where(np.arange(mdp.task.n_states) == mdp.task.terminal[1], np.nan, 0.0)
    task = replace(mdp.task.with_unknown_costs((0.0, 0.3)), horizon=None, discount=0.9, enter_cost=enter, enter_cost_range=(0, 5))
    return mdp, task


PROBLEMS = {
    "average": (lambda: (long_river(), without_horizon(long_river(), None)), cede.recommended),
    "discount": (lambda: (long_river(), without_horizon(long_river(), 0.95)), cede.ucrl2_mc),
    "structure": (
        lambda: (long_river(), without_horizon(long_river(), 0.95)),
        lambda task: cede.ucrl2_mc(task, belief="kl", structure=long_river().structure, replan=17),
    ),
    "sampling": (lambda: (long_river(), without_horizon(long_river(), 0.9)), cede.posterior_sampling),
    "costs and ends": (desk, cede.recommended),
}


def in_any_order(teams, seen, rng):
    """Batches of all steps, one fifth of them twice, in any order, and of ends of all runs but the first of each team."""
    steps, ends = [], []
    for team, own in zip(teams, seen, strict=True):
        for number, episode in enumerate(own):
            steps += rows(team, number, episode)
            ends += [(team.id, number, len(episode.actions))] if number else []
    steps += [steps[i] for i in rng.choice(len(steps), len(steps) // 5)]
    parts = np.array_split(rng.permutation(len(steps)), max(1, len(steps) // 37))
    batches = [report([steps[i] for i in part]) for part in parts] + [report((), ends)]
    return [batches[i] for i in rng.permutation(len(batches))], len(steps)


def same(counts, other):
    for name in ("agents", "environment", "costs"):
        np.testing.assert_array_equal(getattr(counts, name).toarray(), getattr(other, name).toarray())
    assert (counts.episodes, counts.environment_episodes) == (other.episodes, other.environment_episodes)


def take(store, *reports):
    return store.database.write(lambda connection: take_in(connection, store.team, reports))[0]


def plan_all(store):
    planner = Planner(store)
    while planner.once():
        pass


def policy_of(store, team):
    with store.database.read() as connection:
        return unpacked_policy(team, bytes(run(connection, "SELECT policy FROM policies WHERE team = ?", (team.id,)).scalar()))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_served_learner_equals_a_fleet_that_counted_the_same_steps(store, problem):
    make, algorithm = PROBLEMS[problem]
    (mdp, task), rng = make(), np.random.default_rng(5)
    teams = put(store, algorithm(task), {"a": 3, "b": 4, "c": 5})
    seen = [episodes(mdp, 1 + 2 * seed, seed) for seed in range(3)]
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
    steps = [sum(len(one.actions) for one in own) for own in seen]
    assert sum(one.new + one.duplicates for one in results) == n
    assert sum(one.counted for one in results) == sum(one.new for one in results) == sum(steps)

    told = algorithm(task).settings
    fleet = cede.Fleet([Learner(task, told, seed=seed) for seed in (3, 4, 5)])
    for learner, own in zip(fleet, seen, strict=True):
        for episode in own:
            observe(learner, episode)
    plan_all(store)
    with store.database.read() as connection:
        assert verify(connection, store) == []
        for team, learner, n_steps in zip(teams, fleet, steps, strict=True):
            served, version = store.learner(connection, team), store.numbers(connection, team).version
            assert (version, served.episode - 1, served.steps) == (1, n_steps, n_steps)
            same(served.counts, learner.counts)
            learner.replan()
            assert served.plan.policy.tobytes() == learner.plan.policy.tobytes() == policy_of(store, team).tobytes()
            assert served.plan.value.tobytes() == learner.plan.value.tobytes()
            assert served.plan.policy.shape == (task.n_states, task.n_agents)


@pytest.mark.parametrize("discount", [None, 0.95])
def test_a_plan_is_that_of_a_learner_that_plans_afresh(store, discount):
    """One that has planned before begins its search where that plan ended: as good, but not the same bits."""
    mdp, task = long_river(), without_horizon(long_river(), discount)
    (team,) = put(store, cede.ucrl2_mc(task), {"a": 3})
    seen = episodes(mdp, 3, 1)
    warm, fresh = cede.ucrl2_mc(task, seed=3), cede.ucrl2_mc(task, seed=3)
    for number, episode in enumerate(seen):
        take(store, report(rows(team, number, episode)))
        observe(warm, episode)
        warm.replan()
        observe(fresh, episode)
    plan_all(store)
    with store.database.read() as connection:
        served = store.learner(connection, team)
    again = Learner(task, warm.settings, seed=3, counts=warm.counts)  # what to compare a learner with that has planned before
    for learner in (fresh, again):
        assert served.plan.value.tobytes() == learner.plan.value.tobytes()
        assert policy_of(store, team).tobytes() == learner.plan.policy.tobytes()
    assert served.plan.value.tobytes() != warm.plan.value.tobytes()
    apart = abs(served.plan.gain - warm.plan.gain) if discount is None else np.abs(served.plan.value - warm.plan.value).max()
    assert apart <= served.plan.error + warm.plan.error


def changed(row, **values):
    return tuple(values.get(name, one) for name, one in zip(COLUMNS, row, strict=True))


def test_neighbours_duplicates_and_ends(store):
    mdp = long_river()
    (team,) = put(store, cede.recommended(without_horizon(mdp, None)), {"a": 0})
    steps = rows(team, 0, next(one for one in episodes(mdp, 5, 3) if len(one.actions) == 170))
    assert take(store, report(steps[50:60])) == [Accepted(10, 0, 10)]  # a run need not be told from its beginning
    assert take(store, report(steps[55:65]), report(steps[:5])) == [Accepted(5, 5, 5), Accepted(5, 0, 5)]
    for row, names in ((steps[65], ("state", "prev_agent")), (steps[49], ("next_state", "agent"))):
        for name in names:
            (error,) = take(store, report([changed(row, **{name: 1 - min(1, row[COLUMNS.index(name)])})]))
            assert isinstance(error, Refused)
            assert f"{name} of step {row[2]} of episode 0 is" in str(error)
    (error,) = take(store, report([steps[70], changed(steps[52], action=1 - steps[52][6])]))
    assert "must be" in str(error)
    assert "a step is never changed" in str(error)
    (error,) = take(store, report((), [(team.id, 0, 60)]))
    assert "t of the last step of episode 0 is 64, must be at most 59" in str(error)
    assert take(store, report((), [(team.id, 0, 100)])) == [Accepted(0, 0, 0)]
    (error,) = take(store, report([steps[100]]))
    assert "must be at most 99: there it ends" in str(error)
    assert take(store, report([steps[99]])) == [Accepted(1, 0, 1)]  # what came before the end may come later
    far = changed(steps[0], episode=1, t=BIG - 2)
    assert take(store, report([far])) == [Accepted(1, 0, 1)]
    with store.database.read() as connection:
        assert verify(connection, store) == []
        assert store.numbers(connection, team).episodes == 22


def test_a_terminal_state_ends_a_run(store):
    mdp, task = desk()
    (team,) = put(store, cede.recommended(task), {"a": 0})
    ended = next(e for e in episodes(mdp, 400, 0) if task.is_terminal[e.states[-1]] and len(e.actions) > 1)
    steps = rows(team, 0, ended)
    assert take(store, report(steps[-1:])) == [Accepted(1, 0, 1)]
    (error,) = take(store, report([changed(steps[0], t=len(steps) + 1)]))
    assert f"must be at most {len(steps) - 1}: there it ends" in str(error)
    assert take(store, report(steps[:-1])) == [Accepted(len(steps) - 1, 0, len(steps) - 1)]
    with store.database.read() as connection:
        assert verify(connection, store) == []


SPOIL = [
    "UPDATE counts SET n = n + 1 WHERE kind = 1 AND owner = 1",
    'DELETE FROM counts WHERE kind = 0 AND "key" % 6 = 0',
    "UPDATE teams SET episodes = 3 WHERE id = 2",
    "UPDATE environments SET episodes = 99",
    "UPDATE episodes SET received = received + 1 WHERE episode = 1",
    "UPDATE pieces SET received = received - 1 WHERE piece = 1",
    "DELETE FROM pieces WHERE team = 2",
]


def test_verify_rebuild_and_erase_go_through_long_runs_in_parts(store, monkeypatch):
    monkeypatch.setattr(audit, "CHUNK", 61)  # runs are in several parts, parts have several runs
    monkeypatch.setattr(history, "ERASED_AT_ONCE", 2)
    mdp = long_river()
    task = without_horizon(mdp, None)
    teams = put(store, cede.recommended(task), {"a": 0, "b": 1})
    seen = [episodes(mdp, 5, 0), episodes(mdp, 4, 1)]
    batches, _ = in_any_order(teams, seen, np.random.default_rng(0))
    take(store, *batches)
    store.database.write(lambda c: take_in(c, store.team, [replace(report(), begins=((teams[0].id, 77),))]))  # one without steps
    historian = HistorySums(store, store.database.write)
    assert historian.catch_up() == 0
    with store.database.read() as connection:
        before = [store.learner(connection, team).counts for team in teams]
        assert verify(connection, store) == []
    for sql in SPOIL:
        store.database.write(lambda c, s=sql: run(c, s))
        with store.database.read() as connection:
            assert verify(connection, store), sql
        store.database.write(lambda c: rebuild(c, store))
        with store.database.read() as connection:
            assert verify(connection, store) == [], sql
            for counts, team in zip(before, teams, strict=True):
                same(store.learner(connection, team).counts, counts)
    assert historian.catch_up() == 0
    n = store.database.write(lambda c: erase(c, store, teams[0]))
    assert n == sum(len(one.actions) for one in seen[0])
    alone = cede.Fleet([cede.recommended(task, seed=seed) for seed in (0, 1)])
    for episode in seen[1]:
        observe(alone.learners[1], episode)
    with store.database.read() as connection:
        assert verify(connection, store) == []
        for team, learner in zip(teams, alone, strict=True):
            same(store.learner(connection, team).counts, learner.counts)
        for table in ("steps", "episodes", "pieces"):
            assert run(connection, f"SELECT COUNT(*) FROM {table} WHERE team = ?", (teams[0].id,)).scalar() == 0
        assert run(connection, "SELECT COUNT(*) FROM counts WHERE kind = 1 AND owner = ?", (teams[0].id,)).scalar() == 0
    whole = history_of_environment(store, teams[0])
    assert whole["total"] == sum(one["steps"] for one in whole["buckets"]) == sum(len(one.actions) for one in seen[1])
    assert take(store, report(rows(teams[0], 0, seen[0][0])))[0].new == len(seen[0][0].actions)  # it may go on


def test_a_long_run_is_never_in_memory_as_a_whole(tmp_path, monkeypatch):
    """Ten times as many steps take about as much memory, not ten times as much. Caches may be warm or not: hence a factor of 3."""
    monkeypatch.setattr(audit, "CHUNK", 1000)
    store = Store(Database(f"sqlite:///{tmp_path}/cede.db"))
    (team,) = put(store, cede.recommended(without_horizon(river(), None)), {"a": 0})
    peaks, t = [], 0
    for n in (2_000, 18_000):
        store.database.write(lambda c, t=t, n=n: take_in(c, store.team, [report(circle(team, t, n))]))
        t += n
        tracemalloc.start()
        with store.database.read() as connection:
            assert verify(connection, store) == []
        store.database.write(lambda c: rebuild(c, store))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 3 * peaks[0]
    store.database.close()


def circle(team, first, n):
    """Steps of a run that goes round and round."""
    more = (None,) * (len(COLUMNS) - 8)
    return [(team.id, 0, t, t % 6, t % 2, (t + 1) % 2, 0, (t + 1) % 6, *more) for t in range(first, first + n)]


def history_of_environment(store, team, **more):
    with store.database.read() as connection:
        return history_of(connection, store, Owner(OF_ENVIRONMENT, team.environment), more.get("size"), more.get("before"), 100)


def history_of_team(store, team, **more):
    with store.database.read() as connection:
        return history_of(connection, store, Owner(OF_TEAM, team.id), more.get("size"), more.get("before"), more.get("most", 100))


def slow_sums(task, steps):
    """The obvious twin: add up steps of the log, one by one."""
    sums = {"steps": 0, "cost": 0.0, "control": [0] * len(task.members), "switches": 0}
    for row in steps:
        state, prev, agent, action, _ = row[3:8]
        sums["steps"] += 1
        sums["cost"] += float(task.env_cost[state, action] + task.control_cost[agent] + task.switch_cost[prev, agent])
        sums["control"][agent] += 1
        sums["switches"] += prev != agent
    return sums


def equal_sums(bucket, sums):
    assert bucket["cost"] == pytest.approx(sums["cost"], abs=1e-9)
    assert {name: bucket[name] for name in sums if name != "cost"} == {name: one for name, one in sums.items() if name != "cost"}
    assert bucket["episodes"] == bucket["steps"]


def test_histories_are_sums_over_pieces_that_may_grow(store):
    mdp = long_river()
    task = without_horizon(mdp, None)
    one, two = put(store, cede.recommended(task), {"a": 0, "b": 1})
    run_0, run_1, other = (
        rows(team, i, e) for (team, i), e in zip([(one, 0), (one, 1), (two, 0)], whole_runs(mdp, 3), strict=True)
    )
    historian = HistorySums(store, store.database.write)
    take(store, report(run_0[:30]))
    assert historian.waiting("steps") == 30
    assert historian.catch_up() == 0
    (bucket,) = history_of_team(store, one)["buckets"]
    equal_sums(bucket, slow_sums(task, run_0[:30]))
    take(store, report(run_0[120:130]), report(other[:7]))
    assert historian.catch_up() == 0
    take(store, report(run_0[30:120]), report(run_0[130:]), report(run_1))
    assert historian.waiting("steps") == 90 + 40 + 170
    assert historian.catch_up(1) > 0
    assert historian.catch_up() == 0
    found = history_of_team(store, one)
    assert (found["unit"], found["total"], found["size"]) == ("steps", 340, PIECE)
    parts = [run_0[:100], run_0[100:], run_1[:100], run_1[100:]]
    assert [(b["episode"], b["episodes"]) for b in found["buckets"]] == [(0, 100), (100, 70), (170, 100), (270, 70)]
    for bucket, part in zip(found["buckets"], parts, strict=True):
        equal_sums(bucket, slow_sums(task, part))
    halves = history_of_team(store, one, size=2 * PIECE, before=2, most=1)
    assert (halves["earlier"], [b["episode"] for b in halves["buckets"]]) == (True, [170])
    equal_sums(halves["buckets"][0], slow_sums(task, run_1))
    whole = history_of_environment(store, one, size=1000)
    assert (whole["total"], len(whole["buckets"])) == (347, 1)
    equal_sums(whole["buckets"][0], slow_sums(task, run_0 + run_1 + other[:7]))
    with pytest.raises(ValueError, match="request: size is 150, must be a multiple of 100"):
        history_of_team(store, one, size=150)
    with store.database.read() as connection:
        for size in SIZES:
            sql = f"SELECT SUM(steps) FROM history WHERE kind = 0 AND prev_agent >= 0 AND size = {size}"
            assert run(connection, sql).scalar() == 347


def whole_runs(mdp, n):
    """Runs that were not cut short."""
    return [one for one in episodes(mdp, 20, 3) if len(one.actions) == 170][:n]


def test_a_long_run_has_few_rows_of_history(store):
    (team,) = put(store, cede.recommended(without_horizon(river(), None)), {"a": 0})
    take(store, report(circle(team, 0, 12_000)))
    historian = HistorySums(store, store.database.write)
    while historian.catch_up(50):
        pass
    with store.database.read() as connection:
        assert run(connection, "SELECT COUNT(*) FROM history").scalar() + 120 < 0.1 * 12_000
    found = history_of_team(store, team)
    assert (found["total"], found["size"], len(found["buckets"])) == (12_000, 200, 60)
    last = history_of_team(store, team, size=PIECE, most=3)
    assert [b["episode"] for b in last["buckets"]] == [11_700, 11_800, 11_900]


def test_several_who_sum_up_growing_pieces_at_once_count_nothing_twice(store):
    (team,) = put(store, cede.recommended(without_horizon(river(), None)), {"a": 0})
    historians = [HistorySums(store, store.database.write) for _ in range(3)]
    done = threading.Event()

    def work(one):
        while not done.is_set():
            one.catch_up(2)

    threads = [threading.Thread(target=work, args=(one,)) for one in historians]
    for thread in threads:
        thread.start()
    for t in range(0, 600, 40):
        take(store, report(circle(team, t, 40)))
    done.set()
    for thread in threads:
        thread.join()
    while historians[0].catch_up():
        pass
    found = history_of_team(store, team)
    assert [b["steps"] for b in found["buckets"]] == [100] * 6
    equal_sums(found["buckets"][2], slow_sums(team.served.task, circle(team, 200, 100)))
    with store.database.read() as connection:
        for size in SIZES:
            sql = f"SELECT SUM(steps) FROM history WHERE kind = 0 AND prev_agent >= 0 AND size = {size}"
            assert run(connection, sql).scalar() == 600


def test_any_rule_when_to_plan_is_taken_and_teams_have_agents_of_their_own():
    costs = river().task.env_cost.tolist()
    for told in ({}, {"algorithm": "ucrl2_mc", "replan": "doubling"}, {"algorithm": "greedy", "replan": 50}):
        task = {"env_cost": costs, "agents": ["left", "right"], "horizon": None, "discount": 0.9}
        served = environment_from("environment", task, told)
        assert (served.endless, served.unit) == (True, "steps")
        own = team_from("team", served, {"agents": ["x", "y", "z"]})
        assert (own.endless, own.task.policy_shape) == (True, (6, 3))
    with pytest.raises(ValueError, match="'doubling' or a number of steps without a horizon"):
        environment_from("environment", task, {"replan": "every"})


REFUSED = {
    "forget": lambda task: cede.ucrl2_mc(task, forget=cede.HalfLife(10), replan=5),
    "at_most or at_least": lambda task: cede.ucrl2_mc(task, at_least={"p=0.7": 0.5}),
    "learner": cede.ucrl2,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_the_order_of_steps_is_refused(name):
    learner = REFUSED[name](without_horizon(river(), None))
    with pytest.raises(ValueError, match=f"environment: {name} is .*, must be (left out: .* the order of steps|one that learns)"):
        checked("environment", learner.task, learner.settings)


def test_an_environment_comes_from_the_file_of_a_learner(tmp_path):
    learner = cede.ucrl2_mc(without_horizon(river(), 0.9), structure=river().structure)
    learner.save(tmp_path / "new.cede")
    served = environment_from_file("environment", (tmp_path / "new.cede").read_bytes())
    assert served.endless
    assert served.settings.structure is not None
    learner.observe(0, 0, 0, 0, 0)
    learner.save(tmp_path / "used.cede")
    with pytest.raises(ValueError, match="a served learner knows only the steps in the log"):
        environment_from_file("environment", (tmp_path / "used.cede").read_bytes())
