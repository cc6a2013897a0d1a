"""Agents join, leave and change: the learner equals one that was made for the new team and given the same counts."""

import copy
import pickle
from dataclasses import fields

import numpy as np
import pytest

import cede
from cede.learners.learner import Learner
from cede.learners.promises import trial_at
from cede.learners.team_changes import TeamChange
from cede.learners.trials import scheduled_trial
from cede.problem.team_changes import slots_after
from cede.rows.moving import faded
from cede.rows.places import Places
from cede.rows.stored import Counts, LayerCounts
from cede.rows.working import count
from cede.steps.step import Episode
from problems import random_rows

S, A, L = 4, 3, 5
NAMES = ("robot", "operator", "expert")
CASES = cede.Structure(agents={name: [0, 0, 1, 2] for name in NAMES})
WAYS = {
    "plain": {},
    "time": {"varies": {"operator": "time"}},
    "previous agent": {"varies": {"operator": "prev_agent", "expert": "prev_agent"}},
    "delays": {"delays": {"operator": 2, "expert": 1}},
    "delays with a policy": {"delays": {"operator": 2, "expert": 1}, "own": ("operator",)},
    "costs by state": {"by_state": True, "grab_cost": 0.7, "delays": {"robot": 1}},
    "learned costs": {"learned": True},
    "structure": {"make": cede.ucrl2_mc, "told": {"structure": CASES}},
    "UCRL2": {"make": cede.ucrl2, "told": {"radius": "same-form"}, "varies": {"operator": "time"}},
    "UCRL2, learned costs": {"make": cede.ucrl2, "learned": True},
    "posterior sampling": {"make": cede.posterior_sampling},
    "greedy planning": {"make": cede.ucrl2_mc, "told": {"planning": "greedy"}},
    "doubling": {"make": cede.ucrl2_mc, "told": {"replan": "doubling"}},
    "limits": {"make": cede.ucrl2_mc, "told": {"at_most": {"operator": 0.4}}},
}


def problem(names, *, varies=None, delays=None, own=(), by_state=False, learned=False, grab_cost=None, horizon=L):
    """A team of some of NAMES; each agent is the same in every team."""
    rng = np.random.default_rng(7)
    environment = cede.Environment(
        random_rows(rng, (S, A, S)), rng.random((S, A)), random_rows(rng, (1, S))[0], enter_cost=[0, 0, 1, 0]
    )
    whole, varies, delays = {}, varies or {}, delays or {}
    tables, control = random_rows(rng, (len(NAMES), max(L, 3), S, A)), rng.random((len(NAMES), S))
    switch = rng.random((S, 3, 3)) * (1 - np.eye(3))
    for i, name in enumerate(NAMES):
        kind = varies.get(name)
        policy = {None: tables[i, 0], "time": tables[i, :L], "prev_agent": tables[i, [NAMES.index(one) for one in names]]}[kind]
        taking_over = tables[i, 1] if name in own else None
        cost = control[i] if by_state else control[i, 0]
        whole[name] = cede.Agent(name, policy, cost, kind, delays.get(name, 0), taking_over)
    chosen = [NAMES.index(name) for name in names]
    costs = switch[:, chosen][:, :, chosen]
    team = cede.Team([whole[name] for name in names], costs if by_state else costs[0], grab_cost)
    mdp = cede.TwoLayerMDP(environment, team, horizon, start_agent=0)
    return mdp, mdp.task.with_unknown_costs() if learned else mdp.task


def of_way(way, names):
    """The problem, its task, and the learner of a way, for a team."""
    options = dict(WAYS[way])
    make, told = options.pop("make", cede.recommended), options.pop("told", {})
    if "structure" in told:
        told = {"structure": cede.Structure(agents={name: CASES.agents[name] for name in names})}
    mdp, task = problem(names, **options)
    return mdp, task, make(task, seed=3, **told)


def play(mdp, task, learner, n, seed=0):
    """Episodes in which everybody acts: half of the agents at random."""
    rng, result = np.random.default_rng(seed), []
    for k in range(n):
        policy = np.empty(task.policy_shape, dtype=np.int16)
        for prev in range(task.n_agents):
            policy[..., prev] = rng.choice(np.flatnonzero(task.can_hand_over[prev]), policy.shape[:-1])
        episode = cede.rollout(mdp, policy, seed=k)
        learner.observe_episode(episode)
        learner.end_episode()
        result.append(episode)
    return result


def relabelled(episode, before, after):
    """The same episode with the agents of another task, by their names."""
    to = np.array([after.agents.index(name) if name in after.agents else -1 for name in before.agents])
    prevs, agents = to[episode.prev_agents], to[episode.agents]
    return Episode(episode.states, prevs, agents, episode.actions, episode.costs, episode.env_costs, episode.enter_costs)


def costs_of(task, mdp, name):
    """What `add_agent` is told of an agent, from a problem that has it as the last member."""
    d, whole = mdp.team.n_agents - 1, mdp.team
    switch = whole.switch_cost
    pairs = {(a.name, name): switch[..., i, d] for i, a in enumerate(whole.agents[:-1])}
    pairs |= {(name, a.name): switch[..., d, i] for i, a in enumerate(whole.agents[:-1])}
    agent = whole.agents[d]
    more = {"varies_with": agent.varies_with, "takeover_delay": agent.takeover_delay}
    return {"control_cost": agent.control_cost, "switch_cost": pairs, **more}


def same_tasks(one, other, but=()):
    for field in fields(one):
        if field.name in but:
            continue
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)
        else:
            assert mine == theirs, field.name


def same_counts(one, other):
    assert {name: layer.shape for name, layer in one.layers.items()} == {name: layer.shape for name, layer in other.layers.items()}
    for name, layer in one.layers.items():
        np.testing.assert_array_equal(layer.key, other.layers[name].key, err_msg=name)
        np.testing.assert_array_equal(layer.number, other.layers[name].number, err_msg=name)


def same_plans(one, other):
    np.testing.assert_array_equal(one.plan.policy, other.plan.policy)
    np.testing.assert_array_equal(one.plan.value, other.plan.value)


@pytest.mark.parametrize("way", WAYS)
def test_who_joins_is_as_if_there_from_the_first_but_never_seen(way):
    mdp, task, learner = of_way(way, NAMES[:2])
    whole, larger, twin = of_way(way, NAMES)
    episodes = play(mdp, task, learner, 12)
    like = "operator" if way == "structure" else None
    learner.add_agent("expert", like=like, weight=0, **costs_of(task, whole, "expert"))
    same_tasks(learner.task, larger, but=["grab_cost"])
    if way == "costs by state":  # of a grab by the newcomer, or from it, nothing else was told
        np.testing.assert_array_equal(learner.task.grab_cost[:, :2, :2], task.grab_cost)
        np.testing.assert_array_equal(learner.task.grab_cost[:, 2], whole.team.switch_cost[:, 2])
        np.testing.assert_array_equal(learner.task.grab_cost[..., 2], whole.team.switch_cost[..., 2])
    slow = count(
        larger,
        [relabelled(episode, task, larger) for episode in episodes],
        flat=twin.settings.flat,
        structure=twin.settings.structure,
    )
    same_counts(learner.counts, slow)
    if way == "limits":
        assert learner.settings.limits.most.tolist() == [1.0, 0.4, 1.0]
        play(whole, learner.task, learner, 3, seed=1)  # prices of the past go on: no twin has them
        return
    twin = Learner(larger, twin.settings, seed=3, counts=slow)
    if learner.settings.trials is not None:
        assert learner.settings.trials.since == (0, 0, 12)
        assert (learner.plan.policy == np.array(larger.always("expert"))).all()  # it is tried at once
        for one in (learner, twin):
            play(whole, larger, one, 1, seed=5)
    same_plans(learner, twin)
    assert (learner.episode, learner.team_changes) == (twin.episode, (TeamChange(13, "expert", "joined"),))


@pytest.mark.parametrize("gone", ["robot", "operator", "expert"])
@pytest.mark.parametrize("way", WAYS)
def test_who_leaves_takes_only_its_own_counts(way, gone):
    mdp, task, learner = of_way(way, NAMES)
    rest = tuple(name for name in NAMES if name != gone)
    _, smaller, twin = of_way(way, rest) if way != "limits" or gone != "operator" else of_way("plain", rest)
    play(mdp, task, learner, 12)
    before = learner.counts
    if gone == "robot":
        with pytest.raises(ValueError, match=r"start_agent is missing, must be another than 'robot', who leaves"):
            learner.remove_agent(gone)
    learner.remove_agent(gone, start_agent=rest[0])
    same_tasks(learner.task, smaller)
    layers, slots = {}, slots_after(task, smaller)
    for table, name in enumerate(task.tables):
        if name in smaller.tables:
            whole = before.agent_layers[name].matrix.toarray().reshape(int(task.layout.n_slots[table]), -1, A)
            if task.table_varies[table] == "prev_agent":
                whole = np.delete(whole, NAMES.index(gone), axis=0)
            layers[name] = whole.reshape(-1, A)
    for name, expected in layers.items():
        np.testing.assert_array_equal(learner.counts.agent_layers[name].matrix.toarray(), expected)
    environment, costs = before.environment.toarray(), before.costs.toarray()
    if learner.settings.flat:
        environment = environment.reshape(S, -1, S)[:, slots >= 0].reshape(-1, S)
        old, new = (Places(one, flat=True).costs for one in (task, smaller))
        for s in range(len(new.place)):
            for slot, to in enumerate(slots):
                if to >= 0 and new.place[s, to] >= 0:
                    np.testing.assert_array_equal(learner.counts.costs.toarray()[new.place[s, to]], costs[old.place[s, slot]])
    else:
        np.testing.assert_array_equal(learner.counts.costs.toarray(), costs)
    np.testing.assert_array_equal(learner.counts.environment.toarray(), environment)
    assert learner.counts.starts.sum() == 12
    if way != "limits":
        same_plans(learner, Learner(smaller, twin.settings, seed=3, counts=learner.counts))


def test_who_changes_begins_again_or_fades():
    mdp, task, learner = of_way("delays with a policy", NAMES)
    play(mdp, task, learner, 30)
    before = {name: layer.matrix.toarray() for name, layer in learner.counts.layers.items()}
    kept, capped, again = (copy.deepcopy(learner) for _ in range(3))
    kept.agent_changed("operator", keep=0.3)
    capped.agent_changed("operator", most=3)
    again.agent_changed("operator")
    own = ("agent/operator", "agent/operator (taking over)")
    assert all(before[name].sum() > 12 for name in own)
    for name, counts in before.items():
        rows = counts.sum(axis=1, keepdims=True)
        share = np.minimum(1.0, 3 / np.maximum(rows, 1)) if name in own else 1.0
        for one, factor in ((kept, 0.3 if name in own else 1.0), (capped, share), (again, 0.0 if name in own else 1.0)):
            np.testing.assert_allclose(one.counts.layers[name].matrix.toarray(), counts * factor, atol=1 / 2048)
    assert again.team_changes == (TeamChange(31, "operator", "changed"),)
    empty = {name: layer for name, layer in again.counts.layers.items() if name not in own}
    same_plans(again, Learner(task, learner.settings, seed=3, counts=Counts(empty, 30, 30)))
    assert not np.array_equal(again.plan.value, learner.plan.value)


def test_counts_that_fade_at_once_still_add_exactly():
    rng = np.random.default_rng(0)
    key = np.flatnonzero(rng.random(20) < 0.7)
    layer = LayerCounts((5, 4), key, rng.integers(1, 50, len(key)).astype(float))
    for keep, most in ((0.3, None), (1.0, 3.0), (0.5, 7.0), (1.0, None), (0.0, None), (1.0, 0.0)):
        result = faded(layer, keep, most)
        assert (result.number > 0).all()
        assert np.array_equal(result.number * 1024, np.round(result.number * 1024))
        totals = result.matrix.toarray().sum(axis=1)
        assert most is None or (totals <= most + 4 / 2048).all()
        assert (totals <= keep * layer.matrix.toarray().sum(axis=1) + 4 / 2048).all()
    parts = [faded(layer, keep) for keep in (0.1, 0.7, 0.9)]
    one, other = parts[0] + (parts[1] + parts[2]), (parts[2] + parts[0]) + parts[1]
    np.testing.assert_array_equal(one.number, other.number)


@pytest.mark.parametrize("weight", [0.5, 3.0, 1e9])
def test_a_newcomer_begins_with_faded_counts_of_a_similar_agent(weight):
    mdp, task, learner = of_way("time", NAMES[:2])
    play(mdp, task, learner, 40)
    learner.add_agent("expert", like="operator", weight=weight)
    assert learner.task.varies_with == (None, "time", "time")
    rows = learner.counts.agent_layers["operator"].matrix.toarray()
    expected = rows * np.minimum(1.0, weight / np.maximum(rows.sum(axis=1, keepdims=True), 1))
    np.testing.assert_allclose(learner.counts.agent_layers["expert"].matrix.toarray(), expected, atol=1 / 2048)
    again = Learner(learner.task, learner.settings, seed=3, counts=learner.counts)  # such counts are accepted from outside
    same_plans(again, learner)


# ------------------------------------------------------------------------------------------------- settings follow by name


def test_settings_follow_their_agents():
    known = np.full((S, A), 1 / A)
    rules = {"operator": cede.HalfLife(9.0), "expert": cede.Window(5)}
    mdp, task = problem(NAMES, delays={"operator": 1})
    limits = {"robot": 0.9, "expert": 0.6}
    structure = cede.Structure(agents={"operator": [0, 0, 1, 1], "robot": [0, 1, 1, 2]})
    learner = cede.ucrl2_mc(task, known_agents={"expert": known}, forget=rules, at_most=limits, structure=structure)
    play(mdp, task, learner, 12)
    learner.add_agent("new", policy=known[::-1], control_cost=0.5)
    learner.remove_agent("robot", start_agent="expert")
    told = learner.settings
    assert learner.task.agents[:3] == ("operator", "expert", "new")
    assert sorted(told.knowledge.agents) == [1, 2]
    np.testing.assert_array_equal(told.knowledge.agents[2][0], known[::-1])
    assert told.forgetting.agents == rules
    assert told.limits.most.tolist() == [1.0, 0.6, 1.0]
    assert list(told.structure.agents) == ["operator"]
    assert learner.task.start_agent == 1
    play(problem(NAMES[1:])[0], learner.task, copy.deepcopy(learner), 0)
    assert set(learner.prices) == {"operator", "expert", "new"}


def test_one_rule_to_forget_is_for_newcomers_too():
    mdp, task = problem(NAMES[:2])
    for forget, like, expected in (
        (cede.HalfLife(3.0), None, cede.HalfLife(3.0)),
        ({"robot": cede.HalfLife(3.0)}, None, None),
        ({"robot": cede.HalfLife(3.0)}, "robot", cede.HalfLife(3.0)),
    ):
        learner = cede.recommended(task, forget=forget)
        play(mdp, task, learner, 2)
        learner.add_agent("expert", like=like)
        assert learner.settings.forgetting.agents.get("expert") == expected


def slow_windows(task, episodes, windows):
    """Counts of each agent in its last episodes."""
    return {name: count(task, episodes[max(0, len(episodes) - n) :]).agent_layers[name] for name, n in windows.items()}


@pytest.mark.parametrize("gone", ["operator", "expert", None])
def test_windows_go_on(gone):
    """An agent leaves, whose window may be the longest; or one changes. All others forget when they were to."""
    windows = {"robot": 4, "operator": 9, "expert": 6}
    mdp, task = problem(NAMES)
    learner = cede.ucrl2_mc(task, forget={name: cede.Window(n) for name, n in windows.items()})
    episodes = play(mdp, task, learner, 14)
    if gone is None:
        learner.agent_changed("expert")
        smaller, after = mdp, task
        first = 14
    else:
        learner.remove_agent(gone)
        del windows[gone]
        smaller, after = problem([name for name in NAMES if name != gone])
        first = 0
    for k in range(12):
        episodes += play(smaller, after, learner, 1, seed=20 + k)
        for name, n in windows.items():
            mine = episodes[max(0, len(episodes) - n, first if name == "expert" else 0) :]
            number = {mdp: task.agents.index(name), smaller: after.agents.index(name)}
            counts = np.zeros((S, A))
            for i, one in enumerate(mine, len(episodes) - len(mine)):
                who = number[mdp] if i < 14 else number[smaller]
                np.add.at(counts, (one.states[:-1][one.agents == who], one.actions[one.agents == who]), 1)
            np.testing.assert_array_equal(learner.counts.agent_layers[name].matrix.toarray(), counts)


def test_a_baseline_of_one_agent_stays():
    mdp, task = problem(NAMES[:2], delays={"operator": 1})
    learner = cede.ucrl2_mc(task, baseline="operator", belief="kl")
    play(mdp, task, learner, 6)
    learner.add_agent("expert", takeover_delay=2)
    np.testing.assert_array_equal(learner.settings.baseline.policy, learner.task.always("operator"))
    assert learner.state.record.size
    learner.agent_changed("operator")
    assert not learner.state.record.any()
    with pytest.raises(ValueError, match="name is 'operator', must be another than the learner's baseline"):
        learner.remove_agent("operator")
    other = cede.ucrl2_mc(task, baseline=cede.solve(mdp), belief="kl")
    with pytest.raises(ValueError, match="the baseline of the learner is 'a policy', must be one agent alone"):
        other.add_agent("expert")


# ------------------------------------------------------------------------------------------------- trial episodes


def slow_trials(since, episodes):
    """The member of each episode, or -1, written out: those who joined together, together."""
    whose = [-1] * (episodes + 1)
    for joined in sorted(set(since)):
        group = [i for i, one in enumerate(since) if one == joined]
        begin = 0
        while joined + begin < episodes:
            for place, member in enumerate(group):
                if joined + begin + place + 1 <= episodes:
                    whose[joined + begin + place + 1] = member
            begin = 8 * len(group) if begin == 0 else 8 * begin
    return whose[1:]


@pytest.mark.parametrize("since", [(0,), (0, 0, 0), (0, 0, 30), (0, 7, 7, 0), (0, 16, 17, 400), ()])
def test_the_schedule_of_trials_restarts_for_newcomers_alone(since):
    whose = slow_trials(since, 3000)
    assert [scheduled_trial(np.array(since, dtype=np.int64), k) for k in range(1, 3001)] == whose


def test_a_newcomer_is_tried_at_once_and_again():
    mdp, task = problem(NAMES[:2])
    learner = cede.recommended(task)
    cede.simulate(mdp, learner, 40, progress=False)
    whole, _ = problem(NAMES)
    learner.add_agent("expert", **costs_of(task, whole, "expert"))
    names = [trial_at(learner.task, learner.settings.trials, k) for k in range(1, 200)]
    assert [k for k, name in enumerate(names, 1) if name == "expert"] == [41, 49, 105]
    assert [k for k, name in enumerate(names, 1) if name in NAMES[:2]] == [1, 2, 17, 18, 129, 130]
    history = cede.simulate(whole, learner, 70, progress=False)
    for episode in (41, 49, 105):
        assert history.control[episode - 41].tolist() == [0, 0, L]


def test_who_is_tried_follows_by_name():
    _, task = problem(NAMES)
    learner = cede.recommended(task, trials={"agents": ["operator", "expert"], "steps": 2})
    learner.remove_agent("robot", start_agent="expert")
    assert (learner.settings.trials.members, learner.settings.trials.steps) == ((0, 1), 2)
    learner.add_agent("new")
    assert learner.settings.trials.members == (0, 1)
    learner.remove_agent("operator")
    learner.remove_agent("expert", start_agent="new")
    assert learner.settings.trials is None


# ------------------------------------------------------------------------------------------------- files, records, runs


def test_files_and_copies_know_from_when(tmp_path):
    mdp, task, learner = of_way("delays", NAMES[:2])
    play(mdp, task, learner, 5)
    learner.add_agent("expert", like="robot")
    learner.agent_changed("operator", most=2)
    learner.remove_agent("robot", start_agent="expert")
    changes = (TeamChange(6, "expert", "joined"), TeamChange(6, "operator", "changed"), TeamChange(6, "robot", "left"))
    learner.save(tmp_path / "team.cede")
    for again in (cede.load(tmp_path / "team.cede"), pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)):
        assert again.team_changes == changes
        same_tasks(again.task, learner.task)
        same_counts(again.counts, learner.counts)
        same_plans(again, learner)


def test_a_record_knows_when_a_member_changed_and_is_of_one_team(tmp_path):
    mdp, task, learner = of_way("plain", NAMES)
    with learner.record_to(tmp_path / "steps.jsonl"):
        play(mdp, task, learner, 3)
        learner.agent_changed("operator")
        play(mdp, task, learner, 2)
        for call in (lambda: learner.add_agent("new"), lambda: learner.remove_agent("expert")):
            with pytest.raises(ValueError, match=r"the learner is recorded to .*must be not recorded: close that recorder"):
                call()
    record = cede.read_record(tmp_path / "steps.jsonl")
    assert (record.changes, len(record.ended)) == (((4, "operator"),), 5)
    assert cede.read_record(record.save(tmp_path / "steps.parquet")).changes == record.changes
    learner.remove_agent("expert")
    with pytest.raises(ValueError, match=r"agents of the record .* take another file"):
        learner.record_to(tmp_path / "steps.jsonl")
    with learner.record_to(tmp_path / "more.jsonl"):
        assert learner.recorded.runs


def test_without_a_horizon():
    rng = np.random.default_rng(2)
    _, task = problem(NAMES[:2])
    task = cede.Task(env_cost=rng.random((S, A)), agents=NAMES[:2], horizon=None, discount=0.9)
    learner = cede.ucrl2_mc(task)
    prev, state = 0, 0
    for _ in range(50):
        agent = learner.choose(state, prev)
        action, to = int(rng.integers(A)), int(rng.integers(S))
        learner.observe(state, prev, agent, action, to)
        prev, state = agent, to
    learner.agent_changed("robot")
    learner.observe(state, prev, 0, 0, 1)  # the run goes on
    learner.add_agent("expert", control_cost=0.1)
    assert learner.plan.policy.shape == (S, 3)
    learner.observe(3, 2, 2, 0, 1)  # a new run begins anywhere
    assert learner.counts.agent_layers["expert"].total == 1
    assert [change.episode for change in learner.team_changes] == [51, 52]


def test_one_team_of_a_fleet_changes():
    mdp, task = problem(NAMES[:2])
    whole, _ = problem(NAMES)
    results = []
    for engine in ("threads", "processes"):
        fleet = cede.Fleet([cede.recommended(task, seed=i) for i in range(3)])
        cede.simulate_fleet([mdp] * 3, fleet, 8, engine=engine, jobs=2, progress=False)
        shared = fleet.shared_environment
        fleet[1].add_agent("expert", like="robot", **costs_of(task, whole, "expert"))
        fleet[2].agent_changed("operator")
        assert fleet[1].shared_environment is shared
        assert fleet.environment_episodes == 24
        cede.simulate_fleet([mdp, whole, mdp], fleet, 8, engine=engine, jobs=2, progress=False)
        results.append(fleet)
    for one, other in zip(*results, strict=True):
        same_counts(one.counts, other.counts)
    gone = results[0].remove(1)
    assert gone.task.members == NAMES
    assert gone.counts.environment_episodes == 48


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: one.add_agent("robot"), "name is 'robot', must be a new one"),
        (lambda one: one.add_agent("new", like="someone"), "like is 'someone', must be one of"),
        (
            lambda one: one.add_agent("new", like="robot", policy=np.full((S, A), 1 / A)),
            "must be left out with policy",
        ),
        (lambda one: one.add_agent("new", policy=np.ones((S, A))), "sums to 3"),
        (lambda one: one.add_agent("new", like="robot", varies_with="time"), "varies_with is 'time', must be None, as of 'robot'"),
        (lambda one: one.add_agent("new", weight=-1), "weight is -1"),
        (lambda one: one.add_agent("new", control_cost=[1, 2]), "control_cost"),
        (
            lambda one: one.add_agent("new", switch_cost={("robot", "expert"): 1.0}),
            "must be from or to 'new'",
        ),
        (lambda one: one.add_agent("new", takeover_delay=-1), "takeover_delay is -1"),
        (lambda one: one.remove_agent("nobody"), "name is 'nobody', must be one of"),
        (lambda one: one.remove_agent("robot", start_agent="robot"), "start_agent is 'robot'"),
        (lambda one: one.agent_changed("nobody"), "name is 'nobody', must be one of"),
        (lambda one: one.agent_changed("robot", keep=1.5), "keep is 1.5, must be a fraction, at most 1"),
        (lambda one: one.agent_changed("robot", most=-1), "most is -1"),
    ],
)
def test_refused_by_name_and_nothing_has_changed(call, message):
    mdp, task, learner = of_way("plain", NAMES)
    play(mdp, task, learner, 2)
    before = learner.counts
    with pytest.raises(ValueError, match=message):
        call(learner)
    assert learner.task is task
    same_counts(learner.counts, before)
    assert learner.team_changes == ()
    learner.choose(0, 0, 0)


def test_refused_during_an_episode_and_where_it_cannot_be():
    mdp, task, learner = of_way("plain", NAMES)
    learner.observe(0, 0, 0, 1, 0, 1)
    for call in (lambda: learner.add_agent("new"), lambda: learner.remove_agent("expert"), lambda: learner.agent_changed("robot")):
        with pytest.raises(ValueError, match=r"the number of steps of the running episode is 1, must be 0: end it first"):
            call()
    for call in (lambda one: one.add_agent("new"), lambda one: one.agent_changed("robot")):
        with pytest.raises(ValueError, match="one that learns"):
            call(cede.fixed(task, "robot"))
    windowed = cede.ucrl2_mc(task, forget=cede.Window(5))
    play(mdp, task, windowed, 1)
    with pytest.raises(ValueError, match=r"weight is 3\.0, must be 0 with a Window"):
        windowed.add_agent("new", like="robot")
    with pytest.raises(ValueError, match=r"most is 3\.0, must be left out with Window"):
        windowed.agent_changed("robot", most=3)
    varying, whole = problem(NAMES, varies={"robot": "prev_agent"})
    known = cede.ucrl2_mc(whole, known_agents={"robot": varying.team.agents[0].policy})
    with pytest.raises(ValueError, match="the known policy of 'robot' is given, must be one that does not vary"):
        known.add_agent("new")
    known.remove_agent("operator")
    np.testing.assert_array_equal(known.settings.knowledge.agents[0], varying.team.agents[0].policy[[0, 2]])
    alone = cede.recommended(problem(NAMES[:1])[1])
    with pytest.raises(ValueError, match="must be one of several: a team has at least one agent"):
        alone.remove_agent("robot")
