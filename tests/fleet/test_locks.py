"""Fleets that several threads change at once, and changes that are interrupted: all happened or nothing, and nobody hangs."""

import copy
import pickle
import signal
import threading

import numpy as np
import pytest

import cede
from cede._base.turns import Change
from problems import random_mdp

LAST_RESORT = 300.0  # seconds after which something hangs for good
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in the garbage collector


class Stop(BaseException):
    """What a signal handler raises."""


@pytest.fixture
def mdp():
    return random_mdp(3, n_states=3, n_actions=2, n_agents=2, horizon=4, kinds=[None, None])


def learned(mdp, n, episodes=5):
    learners = [cede.ucrl2_mc(mdp.task, seed=i) for i in range(n)]
    for learner in learners:
        cede.simulate(mdp, learner, episodes, progress=False)
    return learners


def all_end(*functions):
    """Call functions in threads of their own; fails if one fails or hangs."""
    wrong = []

    def call(function):
        try:
            function()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=call, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LAST_RESORT)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    assert wrong == []


@pytest.mark.parametrize("where", ["claim", "finish"])
@pytest.mark.parametrize("call", ["make", "add", "remove", "merge"])
def test_an_interrupted_change_happened_or_did_not(mdp, monkeypatch, call, where):
    """An interrupt left learners in a fleet that nobody had: they could neither be saved nor added."""
    one, *others = learned(mdp, 4)
    fleet = cede.Fleet(others[:2])
    theirs = cede.Fleet(others[2:])
    do = {
        "make": lambda: cede.Fleet([one]),
        "add": lambda: fleet.add(one),
        "remove": lambda: fleet.remove(0),
        "merge": lambda: fleet.merge(theirs),
    }[call]
    method = getattr(Change, where)
    _ = one.counts, fleet.environment, theirs.environment  # what was changed before is over

    def interrupted(self, *arguments):
        method(self, *arguments)
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Change, where, interrupted)
        with pytest.raises(Stop):
            do()
    done = where == "finish"
    n = {"add": 3, "remove": 1, "merge": 3}.get(call, 2) if done else 2
    assert len(fleet) == n
    assert fleet.environment_episodes == 5 * (3 if done and call in ("add", "merge") else 2)
    assert fleet.environment.sum() == 4 * fleet.environment_episodes
    if not done:
        do()
    assert one.counts.environment.sum() == 4 * one.environment_episodes
    cede.simulate_fleet([mdp] * len(fleet), fleet, 2, progress=False)
    assert fleet.environment.sum() == 4 * fleet.environment_episodes


def test_a_fleet_can_be_made_again_after_any_interrupt(mdp):
    learners, rng, came = learned(mdp, 6), np.random.default_rng(0), 0

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00005 + rng.random() * 0.01)
                fleet = None
                fleet = cede.Fleet(learners)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Stop:
                came += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert all(one.counts.environment_episodes in (5, 30) for one in learners)
            if learners[0].in_fleet and fleet is None:  # it was just made when the interrupt came
                assert len({one.shared_environment for one in learners}) == 1
                assert learners[0].environment_episodes == 30
                learners = learned(mdp, 6)
            elif fleet is not None:
                assert fleet.environment.sum() == 4 * 30
                learners = learned(mdp, 6)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert came > 10


def test_joining_and_merging_do_not_wait_for_each_other(mdp):
    """One thread added and removed a learner, another merged a fleet: each had a lock that the other one wanted."""
    one, *others = learned(mdp, 4)
    fleet, lone = cede.Fleet(others[:1]), cede.Fleet(others[1:2])
    flat = cede.ucrl2(mdp.task)

    def come_and_go():
        for _ in range(8):
            fleet.add(one)
            fleet.remove(one)

    def merge():
        for _ in range(8):
            fleet.merge(lone)
            lone.add(fleet.remove(others[1]))

    def beside():
        for _ in range(40):
            fleet.add(flat)
            flat.choose(0, 0, 0)
            fleet.remove(flat)

    def work():
        for _ in range(40):
            one.choose(0, 0, 0)
            others[1].choose(0, 0, 0)
            _ = fleet.environment

    all_end(come_and_go, merge, beside, work, work)
    assert (len(fleet), len(lone)) == (1, 1)
    assert not one.in_fleet
    assert not flat.in_fleet


def test_merging_in_both_directions_at_once(mdp):
    one, two = (cede.Fleet(learned(mdp, 2)) for _ in range(2))
    all_end(lambda: one.merge(two), lambda: two.merge(one))
    assert sorted((len(one), len(two))) == [0, 4]


def test_a_learner_that_does_not_share_is_in_one_fleet(mdp):
    flat = cede.ucrl2(mdp.task)
    one = cede.Fleet([flat])
    for refused in (lambda: cede.Fleet([cede.ucrl2(mdp.task), flat]), lambda: cede.Fleet([cede.ucrl2(mdp.task)]).add(flat)):
        with pytest.raises(ValueError, match="is in another fleet, must be a learner that was removed from it"):
            refused()
    assert cede.Fleet([one.remove(flat)]).learners == (flat,)


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda learner: pickle.loads(pickle.dumps(learner))])
def test_a_copy_of_a_learner_of_a_fleet_belongs_to_none(mdp, twin, tmp_path):
    """It was refused everywhere: it could not be saved, and joined nothing."""
    learners = learned(mdp, 3)
    fleet = cede.Fleet(learners)
    one = twin(learners[0])
    assert one.shared_environment is None
    assert (one.counts.environment != fleet.environment).nnz == 0
    assert one.environment_episodes == 15
    one.save(tmp_path / "one.cede")
    cede.simulate(mdp, one, 3, progress=False)
    assert fleet.environment_episodes == 15
    assert len(cede.Fleet([one])) == 1
    np.testing.assert_array_equal(fleet.remove(learners[0]).plan.value, twin(learners[0]).plan.value)


def test_a_copy_of_a_fleet_shares_among_its_own(mdp):
    learners = [*learned(mdp, 2), cede.ucrl2(mdp.task)]
    fleet = cede.Fleet(learners)
    for twin in (copy.deepcopy(fleet), pickle.loads(pickle.dumps(fleet))):
        assert twin.learners[0].shared_environment is twin.learners[1].shared_environment is twin.shared_environment
        assert twin.learners[2].shared_environment is None
        one, two = (cede.simulate_fleet([mdp] * 3, copy.deepcopy(f), 4, progress=False).regret for f in (fleet, twin))
        np.testing.assert_array_equal(one, two)
        cede.simulate_fleet([mdp] * 3, twin, 4, progress=False)
        assert (twin.environment_episodes, fleet.environment_episodes) == (18, 10)
        with pytest.raises(ValueError, match="in another fleet"):
            cede.Fleet([twin.learners[2]])


def test_copies_of_a_fleet_beside_threads_are_whole(mdp):
    learners = [cede.ucrl2_mc(mdp.task, seed=i, replan="doubling") for i in range(2)]
    fleet, stop = cede.Fleet(learners), threading.Event()
    episode = cede.rollout(mdp, mdp.task.always(0), 1)

    def play():
        while not stop.is_set():
            for one in learners:
                one.observe_episode(episode)
                one.end_episode()

    def look():
        try:
            for i in range(60):
                twin = copy.deepcopy(fleet) if i % 2 else pickle.loads(pickle.dumps(fleet))
                assert twin.environment.sum() == 4 * twin.environment_episodes == 4 * sum(one.episode - 1 for one in twin)
                lone = copy.deepcopy(learners[0])
                assert lone.counts.environment.sum() == 4 * lone.environment_episodes
        finally:
            stop.set()

    all_end(play, look)
