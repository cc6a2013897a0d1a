"""Many sessions at once: what is counted does not depend on how they interleave; their plans, limits, files and threads."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cede
from cede.learners import session as sessions
from problems import random_mdp

MDP = random_mdp(3, n_states=4, n_agents=3, horizon=4, kinds=[None, "time", "prev_agent"])
ENDLESS = cede.TwoLayerMDP(
    MDP.environment, cede.Team([cede.Agent("a", [[1, 0, 0]] * 4), cede.Agent("b", [[0, 1, 0]] * 4)]), None, discount=0.9
)
MAKERS = {
    "ucrl2_mc": lambda: cede.ucrl2_mc(MDP.task, scale=0.1, seed=4),
    "learned costs": lambda: cede.ucrl2_mc(MDP.task.with_unknown_costs((0.0, 1.0)), scale=0.1, seed=4),
    "ucrl2": lambda: cede.ucrl2(MDP.task.with_unknown_costs((0.0, 1.0)), seed=4),
    "greedy planning": lambda: cede.ucrl2_mc(MDP.task, scale=0.1, planning="greedy", seed=4),
    "limits": lambda: cede.ucrl2_mc(MDP.task, at_most={MDP.task.agents[1]: 0.5}, seed=4),
    "no horizon": lambda: cede.ucrl2_mc(ENDLESS.task, scale=0.1, replan=1000, seed=4),
}


def same(one, two):
    """Check that two learners have the same counts, bit for bit."""
    a, b = one.counts, two.counts
    assert (a.episodes, a.environment_episodes, a.layers.keys()) == (b.episodes, b.environment_episodes, b.layers.keys())
    for name, layer in a.layers.items():
        np.testing.assert_array_equal(layer.key, b.layers[name].key, err_msg=name)
        np.testing.assert_array_equal(layer.number, b.layers[name].number, err_msg=name)


def scripts(task, rng, n):
    """Steps of n sessions: (state, agent, action, next_state, cost) each; the agents are those of an outside controller."""
    result = []
    for _ in range(n):
        state, steps = int(rng.integers(task.n_states)), []
        for _ in range(int(rng.integers(1, (task.horizon or 4) + 1))):
            agent, action, to = (int(rng.integers(n)) for n in (task.n_agents, task.n_actions, task.n_states))
            steps.append((state, agent, action, to, float(rng.random()) if task.learns_costs else None))
            state = to
        result.append(steps)
    return result


def play(learner, script, order):
    """Play the steps of sessions in an order, the numbers of sessions; each ends with its last step."""
    done = [0] * len(script)
    for i in order:
        if done[i] == len(script[i]):
            continue
        state, agent, action, to, cost = script[i][done[i]]
        session = learner.session(f"s{i}")
        assert session.t == done[i]
        session.choose(state)
        session.observe(action, to, cost, agent=agent)
        done[i] += 1
        if done[i] == len(script[i]):
            session.end()
    assert done == [len(steps) for steps in script]


@pytest.mark.parametrize("name", MAKERS)
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_what_is_counted_does_not_depend_on_the_order(name, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    together, apart = MAKERS[name](), MAKERS[name]()
    script = scripts(together.task, rng, 5)
    steps = [i for i, each in enumerate(script) for _ in each]
    play(together, script, data.draw(st.permutations(steps)))
    play(apart, script, steps)
    same(together, apart)
    assert together.sessions == {}
    by_hand = MAKERS[name]()  # the calls of one episode
    for each in script:
        prev = int(by_hand.task.start_agent)
        for t, (state, agent, action, to, cost) in enumerate(each):
            by_hand.observe(*([t] if by_hand.task.horizon else []), state, prev, agent, action, to, cost)
            prev = agent
        by_hand.end_episode()
    same(together, by_hand)


def test_a_session_has_its_own_clock_and_agents():
    task = cede.Task(np.zeros((2, 1)), ["robot", "operator"], 3, state_names=["ok", "bad"], start_agent="operator")
    learner = cede.greedy(task)
    one, two = learner.session("one"), learner.session("two")
    assert learner.session("one") is one
    assert (one.key, one.t, one.prev_agent, one.state, one.reason) == ("one", 0, 1, None, "")
    first = one.choose("ok", "robot")
    assert first in task.agents
    assert (one.prev_agent, one.state, one.reason, one.t) == ("robot", 0, "plan", 0)
    assert two.choose(1) in (0, 1)
    one.observe(0, "bad", agent="operator")
    assert (one.t, one.prev_agent, one.state, two.t) == (1, "operator", 1, 0)
    assert one.choose(1) in task.agents  # by name again
    one.observe(0, 0)
    one.choose(0)
    one.observe(0, 0)
    with pytest.raises(ValueError, match=r"session 'one', choose: t is 3, must be below 3, the horizon: the session must be ended"):
        one.choose(0)
    assert set(learner.sessions) == {"one", "two"}
    one.end()
    for call in (lambda: one.choose(0), lambda: one.observe(0, 0), one.end, one.drop):
        with pytest.raises(ValueError, match=r"the session is over, must be open: Learner.session opens another one"):
            call()
    assert learner.session("one") is not one
    assert learner.counts.agents.sum() == 3
    two.drop()
    assert (learner.counts.agents.sum(), set(learner.sessions)) == (3, {"one"})


def test_wrong_calls_are_named_and_change_nothing():
    learner = cede.ucrl2_mc(MDP.task)
    session = learner.session("s")
    for call, text in (
        (lambda: learner.session(""), "session: key is '', must be a non-empty string"),
        (lambda: learner.session(3), "session: key is 3, must be a non-empty string"),
        (
            lambda: session.observe(0, 0),
            "session 's', observe: the state is not known, must be given to choose before the first step",
        ),
        (lambda: session.choose(9), "session 's', choose: state is 9, must be an integer from 0 to 3"),
        (session.end, "session 's', end: the number of steps of the running episode is 0, must be at least 1"),
        (lambda: learner.limit_sessions(0), "limit_sessions: most is 0, must be an integer of at least 1"),
        (lambda: learner.limit_sessions(seconds=-1), "limit_sessions: seconds is -1"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    session.choose(0)
    session.observe(0, 1)
    with pytest.raises(ValueError, match="session 's', observe: agent is missing, must be given, or chosen before"):
        session.observe(0, 1)
    session.choose(2)  # not where the step before led
    with pytest.raises(ValueError, match="session 's', observe: state is 2, must be 1, where the step before led; moved=True"):
        session.observe(0, 1)
    session.observe(0, 1, moved=True)
    assert (session.t, learner.counts.agents.sum()) == (2, 0)
    for other in (lambda: cede.simulate(MDP, learner, 1, progress=False), lambda: cede.Fleet([learner])):
        with pytest.raises(ValueError, match=r"the number of open sessions of .* is 1, must be 0: end or drop them first"):
            other()


def test_with_a_baseline_there_is_one_session():
    learner = cede.ucrl2_mc(cede.Task(np.ones((4, 3)), ["a", "b"], 4), baseline=0)
    with pytest.raises(ValueError, match="session: the learner is one with a baseline"):
        learner.session("s")
    learner.session(None).choose(0)


def test_a_trial_episode_is_that_of_one_session():
    """Episodes are numbered as they begin: of n sessions at once each agent's trial is given to one."""
    learner = cede.recommended(MDP.task, seed=1)
    members = MDP.task.members
    opened = [learner.session(f"s{i}") for i in range(50)]
    for session in opened:
        session.choose(0)
    trials = [i for i, session in enumerate(opened) if session.reason == "audition"]
    assert trials == [0, 1, 2, 24, 25, 26]
    assert {session.reason for session in opened} == {"audition", "plan"}
    for member, session in zip(range(len(members)), opened, strict=False):
        assert session.choose(1) == member
    alone = cede.recommended(MDP.task, seed=1)
    found = []
    for k in range(1, 40):
        session = alone.session("s")
        session.choose(0)
        found += [k] * (session.reason == "audition")
        session.observe(0, 1)
        session.end()
    assert found == [1, 2, 3, 25, 26, 27]
    for session in opened:
        session.observe(0, 1)
        session.end()
    assert learner.episode == 51


@pytest.mark.parametrize("keeps", [False, True])
def test_the_plan_that_sessions_follow(keeps, tmp_path):
    """The current one, replaced between steps; with posterior sampling the one with which they began."""
    learner = cede.posterior_sampling(MDP.task, seed=1) if keeps else cede.ucrl2_mc(MDP.task, scale=0.1, seed=1)
    old = learner.session("old")
    old.choose(0)
    old.observe(0, 1)
    first = learner.plan.policy
    for seed in range(30):
        learner.observe_episode(cede.rollout(MDP, MDP.task.always(seed % 3), seed))
        learner.end_episode()
    now = learner.plan.policy
    assert (first != now).any()
    learner.save(tmp_path / "a.cede")
    for each in (learner, cede.load(tmp_path / "a.cede")):
        old = each.session("old")
        places = np.argwhere(first[1] != now[1])
        for state, prev in places.tolist():
            assert old.choose(state, prev) == (first if keeps else now)[1, state, prev]
        for state, prev in np.argwhere(first[0] != now[0]).tolist():
            assert each.session("new").choose(state, prev) == now[0, state, prev]
        each.replan()
        for state, prev in places.tolist():
            assert old.choose(state, prev) == each.plan.policy[1, state, prev]


def test_a_trial_episode_keeps_its_agent():
    learner = cede.recommended(MDP.task, seed=1)
    trial = learner.session("trial")
    agent = trial.choose(0)
    trial.observe(0, 1)
    for seed in range(5):
        learner.observe_episode(cede.rollout(MDP, MDP.task.always(seed % 3), seed))
        learner.end_episode()
    assert (trial.choose(1), trial.reason) == (agent, "audition")


def test_sessions_without_a_horizon_use_the_current_plan():
    learner = cede.ucrl2_mc(ENDLESS.task, scale=0.1, replan=1, seed=1)
    one, two = learner.session("one"), learner.session("two")
    for k in range(6):
        for session in (one, two):
            agent = session.choose(k % 4, 0) if session.t == 0 else session.choose(session.state)
            assert agent == learner.plan.policy[session.state, session.prev_agent]
            session.observe(k % 2, (k + 1) % 4)
    assert (one.t, two.t, learner.steps) == (6, 6, 12)
    one.end()
    two.drop()
    assert (learner.steps, learner.sessions) == (12, {})


def test_limits_of_number_and_age(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(sessions.time, "time", lambda: now[0])
    learner = cede.ucrl2_mc(MDP.task)
    learner.limit_sessions(most=2, seconds=60)
    one, two = learner.session("one"), learner.session("two")
    one.choose(0)
    one.observe(0, 1)
    with pytest.raises(ValueError, match="session: the number of open sessions is 2, must be below 2"):
        learner.session("three")
    now[0] += 50
    learner.session("two").choose(0)
    now[0] += 20
    learner.session("three")  # the first one has been unused for 70 seconds: what was observed is counted
    assert (set(learner.sessions), learner.episode, learner.counts.agents.sum()) == ({"two", "three"}, 2, 1)
    assert not one.is_open
    now[0] += 100
    learner.session("four")  # without steps: dropped
    assert (set(learner.sessions), learner.episode) == ({"four"}, 2)
    assert not two.is_open


@pytest.mark.parametrize("way", ["file", "deepcopy", "pickle"])
@pytest.mark.parametrize("name", MAKERS)
def test_open_sessions_are_part_of_a_copy_and_a_file(name, way, tmp_path):
    """A learner that was saved within sessions goes on as the one that was not, bit for bit."""
    learner = MAKERS[name]()
    script = scripts(learner.task, np.random.default_rng(5), 6)
    one_by_one = [(i, *step) for t in range(4) for i, steps in enumerate(script) for step in steps[t : t + 1]]
    half = len(one_by_one) // 2

    def go_on(learner, part):
        for i, state, agent, action, to, cost in part:
            session = learner.session(f"s{i}")
            chosen.append((i, session.choose(state), session.reason))
            session.observe(action, to, cost, agent=agent)
            if session.t == len(script[i]):
                session.end()

    chosen: list = []
    go_on(learner, one_by_one[:half])
    waiting = learner.session("waiting")
    waiting.choose(1, learner.task.agents[0])
    learner.save(tmp_path / "a.cede")
    twin = (
        cede.load(tmp_path / "a.cede")
        if way == "file"
        else copy.deepcopy(learner)
        if way == "deepcopy"
        else pickle.loads(pickle.dumps(learner))
    )
    assert set(twin.sessions) == set(learner.sessions)
    results = []
    for each in (learner, twin):
        chosen = []
        go_on(each, one_by_one[half:])
        session = each.session("waiting")
        assert (session.t, session.state, session.prev_agent) == (0, 1, learner.task.agents[0])
        session.observe(0, 2, 0.5 if learner.task.learns_costs else None)
        results.append((chosen, session.choose(2), session.prev_agent))
        session.end()
    assert results[0] == results[1]
    same(learner, twin)
    np.testing.assert_array_equal(learner.plan.policy, twin.plan.policy)


def test_a_copy_of_a_session_is_that_of_the_copied_learner():
    learner = cede.ucrl2_mc(MDP.task)
    session = learner.session("s")
    session.choose(0)
    twin = copy.deepcopy({"learner": learner, "session": session})
    assert twin["session"] is twin["learner"].session("s")
    session.observe(0, 1)
    assert (session.t, twin["session"].t) == (1, 0)
    session.end()
    assert not pickle.loads(pickle.dumps(session)).is_open


def test_sessions_in_a_fleet():
    learners = [cede.ucrl2_mc(MDP.task, seed=i) for i in range(2)]
    fleet = cede.Fleet(learners)
    for i, learner in enumerate(learners):
        learner.session("s").choose(0)
        learner.session("s").observe(i, 1)
    twin = copy.deepcopy(fleet)
    for each in (fleet, twin):
        for learner in each.learners:
            learner.session("s").end()
        assert each.environment.sum() == 2
    learners[0].session("s")
    with pytest.raises(ValueError, match="the number of open sessions"):
        fleet.remove(learners[0])


def test_threads():
    """Sessions of eight threads, all open at once: nothing is lost, nothing is counted twice."""
    many, threads = 400, 8
    learner = cede.ucrl2_mc(MDP.task, replan="doubling", scale=0.1)
    barrier = threading.Barrier(threads)

    def work(thread):
        rng = np.random.default_rng(thread)
        keys = [f"{thread}/{i}" for i in range(many // threads)]
        for key in keys:
            learner.session(key).choose(0)
        barrier.wait()
        assert len(learner.sessions) == many
        for _ in range(4):
            for key in keys:
                session = learner.session(key)
                session.choose(session.state)
                session.observe(int(rng.integers(2)), int(rng.integers(4)))
        barrier.wait()
        for key in keys:
            learner.session(key).end()

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    counts = learner.counts
    assert (counts.agents.sum(), counts.environment.sum(), counts.starts.sum()) == (4 * many, 4 * many, many)
    assert (learner.episode, learner.sessions) == (many + 1, {})
