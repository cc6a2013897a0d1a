"""Costs that arrive later: counted once, in any order, as if they had been known at once; never taken for zero."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cede
from cede.learners import awaited
from problems import random_mdp

MDP = random_mdp(3, n_states=4, n_agents=3, horizon=4, kinds=[None, "time", "prev_agent"])
TASK = MDP.task.with_unknown_costs((0.0, 1.0))
ENTERING = cede.Task(
    env_cost=None, cost_range=(0, 2), n_states=3, n_actions=2, agents=["a", "b"], horizon=3,
    enter_cost=[np.nan, 0.0, np.nan], enter_cost_range=(0, 1),
)  # fmt: skip
ENDLESS = cede.Task(n_states=3, n_actions=2, cost_range=(0, 1), agents=["a", "b"], horizon=None, discount=0.9)
PAID = cede.Task(
    n_states=3, n_actions=2, cost_range=(0, 1), agents=["a", "b"], horizon=3,
    control_cost={"b": np.nan}, control_cost_range=(0, 1),
)  # fmt: skip
SINGLE = cede.Task(n_states=1, n_actions=1, cost_range=(0, 1), agents=["a"], horizon=1)
MAKERS = {
    "ucrl2_mc": lambda: cede.ucrl2_mc(TASK, scale=0.1, seed=4),
    "ucrl2": lambda: cede.ucrl2(TASK, seed=4),
    "recommended": lambda: cede.recommended(TASK, seed=4),
    "arriving": lambda: cede.recommended(ENTERING, seed=4),
    "no horizon": lambda: cede.ucrl2_mc(ENDLESS, scale=0.1, seed=4),
}


def same(one, two):
    """Check that two learners have the same counts, bit for bit."""
    a, b = one.counts, two.counts
    assert a.episodes == b.episodes
    for name, layer in a.layers.items():
        np.testing.assert_array_equal(layer.key, b.layers[name].key, err_msg=name)
        np.testing.assert_array_equal(layer.number, b.layers[name].number, err_msg=name)


def scripts(task, rng, n):
    """Steps of n sessions: (state, agent, action, next_state, costs) each."""
    result = []
    for _ in range(n):
        state, steps = int(rng.integers(task.n_states)), []
        for _ in range(int(rng.integers(1, (task.horizon or 4) + 1))):
            agent, action, to = (int(rng.integers(size)) for size in (task.n_agents, task.n_actions, task.n_states))
            costs = {"cost": float(rng.random())}
            if task.enter_cost is not None and np.isnan(task.enter_cost[to]):
                costs["enter_cost"] = float(rng.random())
            steps.append((state, agent, action, to, costs))
            state = to
        result.append(steps)
    return result


def play(learner, script, late, *, key=None):
    """Play sessions one after another; the costs of which `late(session, t, name)` is true are not told."""
    for i, steps in enumerate(script):
        session = learner.session(key or f"s{i}")
        for t, (state, agent, action, to, costs) in enumerate(steps):
            session.choose(state)
            told = {name: None if late(i, t, name) else cost for name, cost in costs.items()}
            session.observe(action, to, **told, agent=agent)
        session.end(replan=False)


def all_costs(script):
    return [(i, t, name) for i, steps in enumerate(script) for t, step in enumerate(steps) for name in step[4]]


def tell(learner, script, costs):
    for i, t, name in costs:
        learner.amend(f"s{i}", t, **{name: script[i][t][4][name]})


@pytest.mark.parametrize("kind", MAKERS)
def test_costs_in_any_order_give_the_counts_of_costs_known_at_once(kind):
    rng = np.random.default_rng(1)
    at_once, later = MAKERS[kind](), MAKERS[kind]()
    script = scripts(at_once.task, rng, 12)
    play(at_once, script, lambda *_: False)
    waits = [cost for cost in all_costs(script) if rng.random() < 0.6]
    play(later, script, lambda *cost: cost in waits)
    assert {(int(key[1:]), t) for key, ts in later.awaited.items() for t in ts} == {cost[:2] for cost in waits}
    tell(later, script, [waits[i] for i in rng.permutation(len(waits))])
    assert later.awaited == {}
    same(at_once, later)
    at_once.replan()
    later.replan()
    np.testing.assert_array_equal(at_once.plan.value, later.plan.value)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_any_order_of_news_gives_the_same_counts(data):
    script = scripts(ENTERING, np.random.default_rng(data.draw(st.integers(0, 99))), 3)
    costs = all_costs(script)
    order = data.draw(st.permutations(costs))
    at_once, later = MAKERS["arriving"](), MAKERS["arriving"]()
    play(at_once, script, lambda *_: False)
    play(later, script, lambda *_: True)
    tell(later, script, order)
    same(at_once, later)


@pytest.mark.parametrize("kind", ["ucrl2_mc", "no horizon"])
def test_a_cost_that_never_comes_is_not_counted_and_is_not_zero(kind):
    learner, script = MAKERS[kind](), scripts(MAKERS[kind]().task, np.random.default_rng(2), 6)
    play(learner, script, lambda i, t, name: i % 2 == 0)
    told = [step[4]["cost"] for i, steps in enumerate(script) for step in steps if i % 2]
    kinds = {name: layer for name, layer in learner.counts.layers.items() if "cost" in name}
    (layer,) = kinds.values()
    assert layer.matrix[:, 0].sum() == len(told)
    assert abs(layer.matrix[:, 1:3].sum() - sum(told)) < 1e-9
    assert learner.counts.layers["environment"].total == sum(map(len, script))


def test_while_the_session_is_open_and_over_files_and_copies():
    at_once, later = MAKERS["ucrl2_mc"](), MAKERS["ucrl2_mc"]()
    for learner, cost in ((at_once, 0.25), (later, None)):
        session = learner.session("x")
        session.choose(0)
        session.observe(1, 2, cost=cost)
        session.choose(2)
        session.observe(1, 1, cost=cost)
    assert later.awaited == {"x": (0, 1)}
    later.amend("x", 1, cost=0.25)
    copies = [copy.deepcopy(later), pickle.loads(pickle.dumps(later)), later]
    for each in copies:
        assert each.awaited == {"x": (0,)}
        each.session("x").end()
        each.amend("x", 0, cost=0.25)
    at_once.session("x").end()
    for each in copies:
        same(at_once, each)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("ended", [True, False])
def test_files_hold_what_is_awaited(kind, ended, tmp_path):
    at_once, later = MAKERS[kind](), MAKERS[kind]()
    script = scripts(later.task, np.random.default_rng(5), 5)
    play(at_once, script, lambda *_: False)
    play(later, script[:-1] if not ended else script, lambda i, t, name: t != 1)
    if not ended:
        session = later.session("s4")
        for state, agent, action, to, costs in script[4]:
            session.choose(state)
            session.observe(action, to, **dict.fromkeys(costs), agent=agent)
    later.save(tmp_path / "late.cede")
    loaded = cede.load(tmp_path / "late.cede")
    assert loaded.awaited == later.awaited
    waits = [(i, t, name) for i, t, name in all_costs(script) if t != 1 or (i == 4 and not ended)]
    tell(loaded, script, waits)
    if not ended:
        loaded.session("s4").end()
    same(at_once, loaded)


def test_a_name_means_the_latest_session():
    learner = MAKERS["ucrl2_mc"]()
    for _ in range(2):
        session = learner.session("x")
        session.choose(0)
        session.observe(0, 1, cost=None)
        session.choose(1)
        session.observe(0, 1, cost=None)
        session.end()
    session = learner.session("x")
    assert learner.awaited == {"x": (0, 1)}  # of the second: the third has observed nothing
    session.choose(2)
    session.observe(1, 2, cost=None)
    assert learner.awaited == {"x": (0,)}
    learner.amend("x", 0, cost=0.5)
    session.end()
    layer = next(layer for name, layer in learner.counts.layers.items() if "cost" in name)
    assert layer.matrix[:, 0].sum() == 1


def test_own_calls_and_dropped_sessions():
    learner = MAKERS["ucrl2_mc"]()
    learner.observe(0, 0, 0, 1, 1, 2, cost=None)
    assert learner.awaited == {None: (0,)}
    learner.drop_episode()
    assert learner.awaited == {}
    learner.observe(0, 0, 0, 1, 1, 2, cost=None)
    learner.end_episode()
    learner.amend(None, 0, cost=0.5)
    at_once = MAKERS["ucrl2_mc"]()
    at_once.observe(0, 0, 0, 1, 1, 2, cost=0.5)
    at_once.end_episode()
    same(at_once, learner)


def test_the_number_of_awaited_steps_is_limited(monkeypatch):
    monkeypatch.setattr(awaited, "MOST", 3)
    learner = MAKERS["ucrl2_mc"]()
    for i in range(5):
        session = learner.session(f"s{i}")
        session.choose(0)
        session.observe(0, 1, cost=None)
        session.end()
    assert list(learner.awaited) == ["s2", "s3", "s4"]


@pytest.mark.parametrize("file", [True, False])
def test_a_learned_cost_of_control_counts_once_beside_a_late_cost(file, tmp_path):
    learners = [cede.recommended(PAID, seed=4) for _ in range(2)]
    for learner, cost in zip(learners, (0.25, None), strict=True):
        learner.observe(0, 0, 0, 1, 1, 2, cost=cost, control_cost=0.5)
        learner.end_episode()
    if file:
        learners[1].save(tmp_path / "late.cede")
        learners[1] = cede.load(tmp_path / "late.cede")
    learners[1].amend(None, 0, cost=0.25)
    same(*learners)


def waiting(learner=None, key="x"):
    learner = learner or MAKERS["ucrl2_mc"]()
    session = learner.session(key)
    session.choose(0)
    session.observe(0, 1, cost=None)
    return learner


@pytest.mark.parametrize(
    ("key", "t", "costs", "error"),
    [
        ("y", 0, {"cost": 0.5}, r"amend: t of session 'y' is 0, must be that of an awaited cost: 1 step of others wait"),
        ("x", 1, {"cost": 0.5}, r"amend: t of session 'x' is 1, must be one of \[0\]"),
        (None, 0, {"cost": 0.5}, r"amend: t of the learner's own calls is 0"),
        ("x", 0, {"cost": 1.5}, r"amend: cost is 1.5, must be from 0 to 1, the cost_range of the task"),
        ("x", 0, {"enter_cost": 0.5}, r"amend: enter_cost is 0.5, must be left out: that of step 0 of session 'x' is not awaited"),
        ("x", 0, {}, r"amend: cost is missing, must be given"),
        ("x", 0, {"cost": np.nan}, r"amend: cost is nan, must be a finite number"),
    ],
)
def test_what_cannot_be_amended_changes_nothing(key, t, costs, error):
    learner = waiting()
    before = learner.packed()[0]
    with pytest.raises(ValueError, match=error):
        learner.amend(key, t, **costs)
    assert learner.packed()[0] == before


def test_a_second_amendment_is_refused():
    learner = waiting()
    learner.session("x").end()
    learner.amend("x", 0, cost=0.5)
    with pytest.raises(ValueError, match="amend: t of session 'x' is 0"):
        learner.amend("x", 0, cost=0.5)


def test_where_costs_cannot_be_awaited(tmp_path):
    session = MAKERS["ucrl2_mc"]().session("x")
    session.choose(0)
    with pytest.raises(ValueError, match="cost is missing, must be given"):
        session.observe(0, 1)
    window = cede.recommended(TASK, forget=cede.Window(5), forget_environment=cede.Window(5))
    with pytest.raises(ValueError, match=r"cost is None, must be given when it is observed: a window"):
        waiting(window)
    baseline = cede.ucrl2_mc(ENTERING, baseline="a")
    with pytest.raises(ValueError, match=r"observe: cost is None, must be given when it is observed: with a baseline"):
        baseline.observe(0, 0, 0, 0, 0, 1, cost=None)
    recorded = MAKERS["ucrl2_mc"]()
    with recorded.record_to(tmp_path / "steps.jsonl"), pytest.raises(ValueError, match="while the learner is recorded"):
        waiting(recorded)
    late = waiting()
    with pytest.raises(ValueError, match="record_to: the costs of a running session is awaited"):
        late.record_to(tmp_path / "other.jsonl")
    late.session("x").end()
    with late.record_to(tmp_path / "third.jsonl"), pytest.raises(ValueError, match="amend: the learner is recorded"):
        late.amend("x", 0, cost=0.5)
    late.amend("x", 0, cost=0.5)


def test_teams_that_share_the_environment_await_each_its_own():
    fleets = [cede.Fleet([cede.ucrl2_mc(TASK, seed=seed) for seed in (1, 2)]) for _ in range(2)]
    for fleet, cost in zip(fleets, (0.25, None), strict=True):
        for learner in fleet.learners:
            session = learner.session("x")
            session.choose(0)
            session.observe(0, 1, cost=cost)
            session.end()
    for learner in fleets[1].learners:
        learner.amend("x", 0, cost=0.25)
    same(fleets[0].learners[0], fleets[1].learners[0])


def coverage(informative, seed):
    """Whether the interval of a mean cost of 0.5 holds it, where complaints, costs of 1, come always and praise often never."""
    rng, learner = np.random.default_rng(seed), cede.ucrl2_mc(SINGLE)
    late = []
    for i in range(500):
        cost, session = float(rng.random() < 0.5), learner.session(f"s{i}")
        session.choose(0)
        session.observe(0, 0, cost=None)
        session.end(replan=False)
        if rng.random() < (1.0 if informative and cost else 0.02 if informative else 0.6):
            late.append((rng.exponential(50), i, cost))
    for _, i, cost in sorted(late):
        learner.amend(f"s{i}", 0, cost=cost)
    costs = learner.costs
    return bool(costs.low[0, 0] <= 0.5 <= costs.high[0, 0])


def test_intervals_hold_under_random_delays_but_not_if_only_complaints_come_back():
    assert np.mean([coverage(False, seed) for seed in range(20)]) >= 0.95
    assert np.mean([coverage(True, seed) for seed in range(20)]) <= 0.05


def test_costs_are_awaited_beyond_a_change_of_the_team():
    """An agent who joins changes no row of the environment's costs; the steps of one who leaves are given up."""
    plain, late = (cede.recommended(ENTERING, seed=4) for _ in range(2))
    for learner, told in ((plain, (0.5, 1.25)), (late, (None, None))):
        session = learner.session("s")
        session.choose(0)
        for agent, cost in zip((0, 1), told, strict=True):
            session.observe(1, 1, cost=cost, agent=agent)
        session.end()
        learner.add_agent("c", takeover_delay=1)
    assert late.awaited == {"s": (0, 1)}
    late.amend("s", 1, cost=1.25)
    late.amend("s", 0, cost=0.5)
    same(plain, late)
    session = late.session("t")
    session.choose(0)
    session.observe(1, 1, cost=None, agent=1)
    session.end()
    late.remove_agent("b")
    assert late.awaited == {}
