"""Learners that are interrupted, forked and copied at any moment: their state is the old or the new one, and no lock is lost."""

import copy
import os
import pickle
import signal
import threading

import numpy as np
import pytest

import cede
from cede._base.turns import Change
from cede.learners.log import count_logged
from problems import random_mdp

LAST_RESORT = 300.0  # seconds after which something hangs for good; nothing that works comes near


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in the garbage collector


class Stop(BaseException):
    """What a signal handler raises."""


@pytest.fixture(autouse=True)
def handler():
    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def interrupted(seconds, function, *arguments, **named):
    """Call a function, and interrupt it after some seconds, wherever it is. Return whether that happened."""
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        function(*arguments, **named)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return False
    except Stop:
        return True


def elsewhere(function, *arguments):
    """Call a function in another thread, and return what it returned; fails if it hangs."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function(*arguments)), daemon=True)
    thread.start()
    thread.join(LAST_RESORT)
    assert found, "another thread hangs, or failed"
    return found[0]


def one_episode(learner, horizon):
    state = prev = 0
    for t in range(horizon):
        agent = learner.choose(t, state, prev)
        learner.observe(t, state, prev, agent, 1, (state + 1) % 3)
        state, prev = (state + 1) % 3, agent
    learner.end_episode()


@pytest.fixture
def mdp():
    return random_mdp(3, n_states=3, n_actions=2, n_agents=2, horizon=4, kinds=[None, None])


@pytest.mark.parametrize("told", [{}, {"planning": "greedy"}, {"replan": "doubling"}, {"forget_environment": cede.Window(5)}])
def test_no_interrupt_keeps_a_lock(mdp, told):
    """An interrupt between two lines of a lock's own code left it owned: calls of other threads waited for ever."""
    learner, rng = cede.ucrl2_mc(mdp.task, **told), np.random.default_rng(1)
    one_episode(learner, 4)  # compiled

    def play():
        while True:
            one_episode(learner, 4)

    for i in range(600):
        assert interrupted(0.00005 + rng.random() * 0.0005, play)
        if i % 20 == 0:
            elsewhere(learner.choose, 0, 0, 0)
        learner.drop_episode()
    elsewhere(learner.choose, 0, 0, 0)
    counts = learner.counts
    steps = 4 * min(learner.episode - 1, 5) if "forget_environment" in told else 4 * (learner.episode - 1)
    assert counts.environment.sum() == steps
    assert counts.agents.sum() == 4 * (learner.episode - 1)


def test_an_interrupted_log_is_counted_as_a_whole_or_not_at_all(mdp):
    """With a signal every millisecond: RecursionError after all was counted, and who tried again counted it twice."""
    episodes = [cede.rollout(mdp, mdp.task.always(0), seed) for seed in range(30)]
    learner, quiet, came = cede.ucrl2_mc(mdp.task), cede.ucrl2_mc(mdp.task), 0
    quiet.learn_from(episodes[:1], progress=False)
    learner.learn_from(episodes[:1], progress=False)
    pause = 0.0005
    while learner.episode == 2:
        if interrupted(pause, learner.learn_from, episodes, progress=False):
            came, pause = came + 1, pause * 1.2  # until it is long enough, however busy the machine is
        assert learner.counts.environment.sum() == 4 * (learner.episode - 1)
        assert learner.episode in (2, 32)
    assert came > 0
    quiet.learn_from(episodes, progress=False)
    assert (quiet.counts.environment != learner.counts.environment).nnz == 0
    np.testing.assert_array_equal(quiet.plan.value, learner.plan.value)


@pytest.mark.parametrize("shared", [False, True])
def test_a_log_that_fails_in_the_middle_leaves_all_as_it_was(mdp, shared, monkeypatch):
    learner, other = cede.ucrl2_mc(mdp.task), cede.ucrl2_mc(mdp.task, seed=1)
    for one in (learner, other):
        cede.simulate(mdp, one, 6, progress=False)
    fleet = cede.Fleet([learner, other]) if shared else None
    before, value = learner.counts, learner.plan.value
    other_value = other.plan.value
    episodes = [cede.rollout(mdp, mdp.task.always(1), seed) for seed in range(9)]

    def fail(learner, steps):
        if learner.episode == 12:
            raise Stop
        count_logged(learner, steps)

    with monkeypatch.context() as patch:
        patch.setattr("cede.learners.log.count_logged", fail)
        with pytest.raises(Stop):
            learner.learn_from(episodes, progress=False)
    if fleet is not None:  # whoever comes first settles it
        assert fleet.environment.sum() == 12 * 4
        np.testing.assert_array_equal(other.plan.value, other_value)
    assert learner.episode == 7
    for name in ("agents", "environment"):
        assert (getattr(learner.counts, name) != getattr(before, name)).nnz == 0
    np.testing.assert_array_equal(learner.plan.value, value)
    learner.learn_from(episodes, progress=False)
    assert learner.counts.environment.sum() == before.environment.sum() + 36


def test_a_long_run_that_is_logged_can_be_interrupted():
    """Without horizon all of it was one step that signals had to wait for, thousands of them."""
    mdp = cede.TwoLayerMDP(
        cede.Environment(np.full((3, 2, 3), 1 / 3), np.ones((3, 2)), np.full(3, 1 / 3)),
        cede.Team([cede.Agent("a", [[1, 0]] * 3), cede.Agent("b", [[0, 1]] * 3)]),
        None,
        discount=0.9,
    )
    n, rng = 3000, np.random.default_rng(1)
    states = rng.integers(3, size=n + 1)
    log = {"state": states[:-1], "next_state": states[1:], "agent": rng.integers(2, size=n), "action": rng.integers(2, size=n)}
    log["episode"] = np.zeros(n)
    log["action"] = log["agent"]
    learner, came = cede.ucrl2_mc(mdp.task), []

    def note(*_):
        came.append(learner.episode)

    before = signal.signal(signal.SIGALRM, note)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        learner.learn_from(log, progress=False)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert learner.episode == n + 1
    assert learner.counts.environment.sum() == n
    assert any(1 < episode < n for episode in came)


def test_a_copy_beside_a_thread_is_whole(mdp):
    """Copies held the counts of a part of an episode."""
    learner, stop = cede.ucrl2_mc(mdp.task, replan="doubling"), threading.Event()
    one_episode(learner, 4)

    def play():
        while not stop.is_set():
            one_episode(learner, 4)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    try:
        for i in range(150):
            twin = copy.deepcopy(learner) if i % 2 else pickle.loads(pickle.dumps(learner))
            counts = twin.counts
            assert counts.environment.sum() == counts.agents.sum() == 4 * (twin.episode - 1) == 4 * counts.environment_episodes
            assert twin.session(None).t == twin.observed
    finally:
        stop.set()
        thread.join(LAST_RESORT)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("work", ["replan", "episodes", "log"])
def test_a_process_forked_beside_a_thread_can_use_its_learner(mdp, work):
    """The thread that had the lock is not there in the child: it waited for ever."""
    learner, stop = cede.ucrl2_mc(mdp.task), threading.Event()
    log = [cede.rollout(mdp, mdp.task.always(0), seed) for seed in range(3)]
    one_episode(learner, 4)
    learner.learn_from(log, progress=False)
    do = {
        "replan": learner.replan,
        "episodes": lambda: one_episode(learner, 4),
        "log": lambda: learner.learn_from(log, progress=False),
    }

    def go_on():
        while not stop.is_set():
            do[work]()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    ended = []
    try:
        for _ in range(25):
            child = os.fork()
            if child == 0:
                try:
                    signal.alarm(int(LAST_RESORT))  # kills it if it hangs
                    learner.drop_episode()
                    counts, whole = learner.counts, 4 * (learner.episode - 1)
                    right = counts.environment.sum() == counts.agents.sum() == whole
                    one_episode(learner, 4)
                    learner.learn_from(log, progress=False)
                    os._exit(0 if right and learner.counts.environment.sum() == whole + 16 else 1)
                finally:
                    os._exit(2)
            ended.append(os.waitpid(child, 0)[1])
    finally:
        stop.set()
        thread.join(LAST_RESORT)
    assert ended == [0] * 25


def test_an_interrupted_change_is_settled_by_whoever_comes_next(mdp):
    learner = cede.ucrl2_mc(mdp.task)
    change = Change()
    with change.lock:
        change.claim("test", [learner])
        change.after = ((learner, "_seed", 7),)  # and the interrupt comes before `finish`
    assert learner.turn.change is change
    learner.choose(0, 0, 0)
    assert learner.seed == 7
    assert learner.turn.change is None


def test_threads_take_turns(mdp):
    """A thread that calls again and again lets another one go first."""
    learner, stop, calls = cede.ucrl2_mc(mdp.task), threading.Event(), []
    learner.choose(0, 0, 0)

    def again_and_again():
        while not stop.is_set():
            learner.choose(0, 0, 0)
            calls.append(1)

    thread = threading.Thread(target=again_and_again, daemon=True)
    thread.start()
    try:
        for _ in range(20):
            elsewhere(learner.choose, 0, 0, 0)
    finally:
        stop.set()
        thread.join(LAST_RESORT)
    assert calls
