"""Engines: the same bits everywhere, and a lost worker changes nothing."""

import copy
import importlib.util
import multiprocessing
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import cede
from cede._base.processes import spawn_context
from cede.fleet import engines, workers
from cede.worlds import riverswim
from cede.worlds.riverswim import riverswim_teams
from forked import context
from ray_turns import local_cluster

FIELDS = ("regret", "team_regret", "expected_cost", "cost", "control", "switches", "optimum")


@pytest.fixture(autouse=True)
def every_round(monkeypatch):
    """Progress is told after every round, not only now and then."""
    monkeypatch.setattr("cede._base.progress.INTERVAL", 0.0)


@pytest.fixture(autouse=True)
def forked_workers(monkeypatch):
    """Fork workers from a process that has loaded their modules; `test_processes_change_nothing` starts them as users do."""
    monkeypatch.setattr(workers, "spawn_context", lambda owner: context)


def mixed_fleet():
    """Every kind of team in one fleet: algorithms, ways to plan, numbers of agents, costs, known policies."""
    mdps = [
        *riverswim_teams(4, seed=1),
        riverswim([0.2, 0.5, 0.9], switch_cost=0.1),
        riverswim([0.1, 0.8], switch_cost=0.2),
        *riverswim_teams(3, seed=2),
    ]
    t = [mdp.task for mdp in mdps]
    learners = [
        cede.ucrl2_mc(t[0], seed=3),
        cede.ucrl2_mc(t[1], seed=4),
        cede.ucrl2_mc(t[2], replan="doubling"),
        cede.ucrl2_mc(t[3], replan=3),
        cede.ucrl2_mc(t[4], scale=cede.Scale(agents=lambda k: 1 / k, environment=0.5)),  # cannot be pickled
        cede.ucrl2_mc(t[5], known_agents={"p=0.1": mdps[5].team.agents[0].policy}),
        cede.ucrl2_mc(t[6], planning="greedy", scale=0.3),
        cede.ucrl2(t[7]),
        cede.fixed(t[8], 1),
    ]
    return mdps, cede.Fleet(learners)


def run(episodes=12, **options):
    mdps, fleet = mixed_fleet()
    return cede.simulate_fleet(mdps, fleet, episodes, seed=5, **{"progress": False, **options}), fleet


def same(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one[0], name), getattr(other[0], name), err_msg=name)
    for a, b in zip(one[1], other[1], strict=True):
        assert (a.counts.agents != b.counts.agents).nnz == 0
        assert (a.counts.environment != b.counts.environment).nnz == 0
        assert a.counts.environment_episodes == b.counts.environment_episodes
        np.testing.assert_array_equal(a.plan.policy, b.plan.policy)
        np.testing.assert_array_equal(a.plan.value, b.plan.value)


@pytest.fixture(scope="module")
def expected():
    return run(jobs=1)


@pytest.mark.parametrize("jobs", [2, 3, 5, 40])
def test_threads_change_nothing(expected, jobs):
    same(run(jobs=jobs), expected)


def test_processes_change_nothing(expected, monkeypatch):
    monkeypatch.setattr(workers, "spawn_context", spawn_context)
    same(run(engine="processes", jobs=2), expected)


def test_sync_every_is_the_same_on_all_engines():
    one = run(sync_every=5, jobs=1)
    same(run(sync_every=5, engine="processes", jobs=3), one)
    assert one[0].regret[-1] != run(jobs=1)[0].regret[-1]


def killer(at, find):
    """A progress function that kills a worker once, when so many episodes are done."""
    killed = []

    def progress(done):
        if done >= at and not killed:
            killed.append(find())
            os.kill(killed[0], signal.SIGKILL)

    return progress, killed


def shard_processes():
    return [child.pid for child in multiprocessing.active_children() if child.name.startswith("cede-shard-")]


@pytest.mark.parametrize("kept_every", [1, 4, 1000])
def test_a_killed_process_changes_nothing(expected, monkeypatch, kept_every):
    """Whether its state was kept just before or long ago: what it had played is played again, and counts once."""
    monkeypatch.setattr(workers, "MOST_ORDERS", kept_every)
    progress, killed = killer(7, lambda: shard_processes()[-1])
    same(run(engine="processes", jobs=2, progress=progress), expected)
    assert killed


class Mortal(workers.Processes):
    """Its first shard dies of every order."""

    def launch(self, index):
        worker = super().launch(index)
        send = worker.send

        def deadly(message):
            send(message)
            if index == 0 and b"Order" in message:
                os.kill(worker.process.pid, signal.SIGKILL)

        worker.send = deadly
        return worker


def test_a_worker_that_dies_again_and_again_ends_the_run_with_a_clear_word():
    mdps, fleet = mixed_fleet()
    with pytest.raises(OSError, match=r"worker of shard 0 was lost 4 times in round 1: it was killed by signal 9; a machine"):
        cede.simulate_fleet(mdps, fleet, 5, engine=Mortal(2), progress=False)
    assert all(learner.episode == 1 for learner in fleet)
    assert not shard_processes()


def test_an_error_in_a_worker_is_raised_here(monkeypatch):
    monkeypatch.setattr(workers, "__version__", "0.0.0")
    with pytest.raises(RuntimeError, match=f"the worker has cede {cede.__version__}, must be 0.0.0, as here"):
        run(engine="processes", jobs=2)


class Short(workers.Processes):
    """Its first shard runs out of memory in the third round."""

    def launch(self, index):
        worker, rounds = super().launch(index), []
        receive = worker.receive

        def full():
            answer = receive()
            rounds.append(answer)
            if index == 0 and len(rounds) == 5:
                raise workers.clear_error(MemoryError("Unable to allocate 9 GiB"))
            return answer

        worker.receive = full
        return worker


def test_a_worker_out_of_memory_ends_the_run_and_what_was_kept_is_there():
    mdps, fleet = mixed_fleet()
    with pytest.raises(MemoryError, match=r"a worker ran out of memory \(Unable to allocate 9 GiB\): use fewer teams"):
        cede.simulate_fleet(mdps, fleet, 20, engine=Short(2), progress=False)
    assert all(learner.episode == 1 for learner in fleet)  # nothing was kept yet: as before the run
    assert workers.clear_error(ValueError("x")).args == ("x",)


def test_an_interrupt_while_workers_are_busy_leaves_the_learners_as_last_kept(monkeypatch):
    monkeypatch.setattr(workers, "MOST_ORDERS", 4)
    mdps, fleet = mixed_fleet()
    receive, calls = workers.ProcessWorker.receive, []

    def interrupted(self):
        calls.append(self)
        if len(calls) == 24:
            raise KeyboardInterrupt
        return receive(self)

    monkeypatch.setattr(workers.ProcessWorker, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cede.simulate_fleet(mdps, fleet, 100, seed=5, engine="processes", jobs=2, progress=False)
    after = fleet.learners[0].episode - 1
    assert after > 0
    assert after % 4 == 0
    same((run(after, jobs=1)[0], run(after, jobs=1)[1]), (run(after, jobs=1)[0], fleet))


class Forgetful(engines.Threads):
    """An engine of one's own: it keeps the states of every third round, loses its shards in the ninth, and can recover."""

    def __init__(self, jobs):
        super().__init__(jobs)
        self.kept, self.at = None, 0

    @property
    def kept_number(self):
        return self.at

    def play(self, order):
        if order.number == 9:
            self.failed = True
            raise ConnectionError("all shards are gone")
        reports = super().play(order)
        if order.number % 3 == 0:
            self.kept, self.at = [[dict(state) for state in states] for states in self.states()], order.number
            self.kept = copy.deepcopy(self.kept)
        return reports

    def recover(self):
        return self.kept


def test_an_engine_of_ones_own_can_survive_a_loss():
    """The loop asks no engine what it is: whoever recovers gives the learners back what was kept."""
    Forgetful.here = False
    mdps, fleet = mixed_fleet()
    with pytest.raises(ConnectionError):
        cede.simulate_fleet(mdps, fleet, 20, seed=5, engine=Forgetful(2), progress=False)
    assert all(learner.episode == 7 for learner in fleet)
    same((run(6, jobs=1)[0], run(6, jobs=1)[1]), (run(6, jobs=1)[0], fleet))


def test_a_shard_answers_the_same_order_once():
    from cede.fleet.grouping import streams_of
    from cede.fleet.run import Run

    mdps, fleet = mixed_fleet()
    engine = engines.Threads(2)
    started = Run(mdps, fleet.learners, 4, streams_of(0, len(mdps)), engine=engine)
    started.start(None)
    order = started.next_order()
    first = engine.play(order)
    states = engine.states()
    again = engine.play(order)
    assert all(a is b for a, b in zip(first, again, strict=True))
    for before, after in zip(states, engine.states(), strict=True):
        for one, other in zip(before, after, strict=True):
            assert all((one[name] == other[name]).all() for name in one)
    engine.made[0].number, engine.made[0].report = 5, None
    with pytest.raises(RuntimeError, match="round 1 came after round 5"):
        engine.made[0].play(order)
    engine.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "cloud"}, "simulate_fleet: engine is 'cloud', must be one of 'threads', 'processes', 'ray'"),
        ({"engine": 7}, "simulate_fleet: engine is 7, must be one of 'threads', 'processes', 'ray', or an engine"),
        ({"jobs": 0}, "engine: jobs is 0, must be an integer from 1 to 10000"),
        ({"sync_every": 0}, "simulate_fleet: sync_every is 0, must be an integer from 1"),
        ({"engine": engines.Threads(2), "jobs": 2}, "simulate_fleet: jobs is 2, must be left out where an engine is given"),
    ],
)
def test_mistakes_are_found_before_anything_runs(options, message):
    with pytest.raises(ValueError, match=message):
        run(**options)


def test_without_ray_the_way_to_get_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'ray is needed for this and is not installed: pip install "cede\[ray\]"'):
        run(engine="ray")


def test_no_cluster_at_the_address_is_said_at_once(monkeypatch):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    monkeypatch.setattr("ray.init", None)  # which would wait for minutes: it is not even tried
    with pytest.raises(OSError, match=r"engine 'ray': no cluster answers at address '127.0.0.1:9' \(.*refused"):
        run(engine=engines.Ray(address="127.0.0.1:9"))


@pytest.mark.parametrize("value", [0, -1.0, 1e9, float("nan"), float("inf"), "soon", None])
def test_the_time_to_start_is_a_number_of_seconds(value):
    with pytest.raises(ValueError, match=r"engine 'ray': start_timeout is .*, must be (a finite number|from 1 to 86400 seconds)"):
        engines.Ray(start_timeout=value)


# ------------------------------------------------------------------------------------------------- Ray itself


@pytest.fixture(scope="module")
def ray():
    """One cluster for all tests."""
    with local_cluster() as module:
        yield module


def actor_process():
    """A Ray worker that is a shard, by its name in the list of processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"ray::ShardServer" in path.read_bytes():
                return int(path.parent.name)
        except OSError:
            continue
    raise AssertionError("no actor of Ray was found")


@pytest.mark.slow
def test_ray_changes_nothing_and_neither_does_the_death_of_a_worker(expected, ray):
    same(run(engine="ray", jobs=2), expected)
    progress, killed = killer(7, actor_process)
    same(run(engine="ray", jobs=2, progress=progress), expected)
    assert killed
    assert ray.is_initialized()  # it was not ours to stop


@pytest.mark.slow
def test_ray_is_asked_for_no_more_than_it_has(ray):
    with pytest.raises(ValueError, match="engine 'ray': jobs is 9000, must be at most 2, the processors of the cluster"):
        run(engine="ray", jobs=9000)


@pytest.mark.slow
def test_only_who_has_the_token_may_talk_to_a_cluster_that_was_started_here(ray):
    from ray._raylet import AuthenticationMode, get_authentication_mode  # not public: there is no other way to look

    assert get_authentication_mode() == AuthenticationMode.TOKEN
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_between_the_answer_and_the_books(monkeypatch, when):
    """Workers have played the round when the interrupt comes: it is entered, or nothing of it is."""
    from cede.fleet.run import Run

    mdps, fleet = mixed_fleet()
    enter, calls = Run.enter, []

    def interrupted(self, order, reports):
        calls.append(order)
        if len(calls) == 6 and when == "before":
            signal.raise_signal(signal.SIGINT)
        enter(self, order, reports)
        if len(calls) == 6 and when == "after":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Run, "enter", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cede.simulate_fleet(mdps, fleet, 100, seed=5, engine="processes", jobs=2, progress=False)
    monkeypatch.setattr(Run, "enter", enter)
    assert all(learner.episode == 7 for learner in fleet)
    for one, other in zip(run(6, jobs=1)[1], fleet, strict=True):
        assert (one.counts.agents != other.counts.agents).nnz == 0
        assert (one.counts.environment != other.counts.environment).nnz == 0


@pytest.mark.slow
def test_a_program_keeps_its_own_connection_to_ray(ray, expected):
    there = ray.get_runtime_context().gcs_address
    kept = ray.put("mine")
    same(run(engine=engines.Ray(2, there)), expected)
    assert ray.get(kept) == "mine"
    with pytest.raises(ValueError, match=r"address is '1.2.3.4:5', must be '.*' or left out: the program is connected"):
        run(engine=engines.Ray(2, "1.2.3.4:5"))


@pytest.mark.slow
def test_a_busy_cluster_is_said_to_be_busy(ray):
    holder = ray.remote(num_cpus=2)(workers.ShardServer).remote()
    ray.get(holder.__ray_ready__.remote())
    expected = "no worker could be started within start_timeout=5 seconds; are the processors of the cluster busy"
    with pytest.raises(OSError, match=expected):
        run(engine=engines.Ray(1, start_timeout=5))
    ray.kill(holder)
