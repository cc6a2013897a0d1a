"""Costs of control and of hand-overs that are learned: where they are counted, what is believed of them, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import cede
from cede.learners.arrays import radius_sizes
from cede.learners.state import Sizes
from cede.planning.planner import optimistic_plan
from problems import random_mdp

WHICH = ("control_cost", "switch_cost")


def slow(horizon=6, **more):
    """A problem in which the second agent needs two steps to take over, and costs more in some states."""
    rng = np.random.default_rng(3)
    environment = cede.Environment(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), start=np.ones(3) / 3)
    machine = cede.Agent("machine", rng.dirichlet(np.ones(2), 3), control_cost=0.1)
    human = cede.Agent("human", rng.dirichlet(np.ones(2), 3), control_cost=[0.2, 0.3, 0.7], takeover_delay=2)
    return cede.TwoLayerMDP(environment, cede.Team([machine, human], switch_cost=0.15), horizon, **more)


def unknown(mdp, cost_range=(0.0, 1.0), which=WHICH):
    return mdp.task.with_unknown_costs(cost_range, which=which)


class ByCalls(cede.Learner):
    """The same learner, called from Python."""

    def choose(self, *places):
        return super().choose(*places)


def test_steps_of_slow_handovers_are_counted_for_their_members():
    task = unknown(slow())
    assert task.agents[2:] == tuple(f"human (taking over from machine, {i} of 2)" for i in (1, 2))
    learner, control, pair = cede.ucrl2_mc(task), {0: [], 1: []}, {(0, 1): [], (1, 0): []}
    for t, (prev, agent, paid, handed) in enumerate([(0, 2, 0.25, 0.5), (2, 3, 0.5, 0.0), (3, 1, 0.75, 0.0), (1, 0, 0.125, 0.25)]):
        learner.observe(t, 1, prev, agent, 0, 1, control_cost=paid, switch_cost=handed)
        control[0 if agent != 1 else 1].append(paid)
        pair.get((0 if prev == 0 else 1, 0 if agent == 0 else 1), []).append(handed)
    learner.observe(4, 1, 0, "human", 0, 1, control_cost=1.0, switch_cost=1.0)  # taken at once: priced as the pair is
    learner.end_episode()
    costs = learner.costs
    assert costs.control_mean[1, :2].tolist() == [np.mean(control[0]), np.mean([0.75, 1.0])]
    assert costs.control_mean[1, 2:].tolist() == [np.mean(control[0])] * 2
    assert costs.switch_mean[0, 2] == np.mean([0.5, 1.0])
    assert costs.switch_mean[1, 0] == costs.switch_mean[3, 0] == 0.25
    assert np.isinf(costs.switch_low[0, 1])
    assert np.isinf(costs.switch_high[0, 1])
    assert costs.switch_mean[2, 3] == costs.switch_high[3, 1] == 0.0  # staying is known to be free


@pytest.mark.parametrize("known", [{}, {"switch_cost": 0.5}])
def test_delta_is_split_over_all_rows(known):
    told = {"env_cost": np.zeros((3, 2)), "agents": ["a", "b"], "horizon": 4, "cost_range": (0, 1)}
    task = cede.Task(**{**told, "control_cost": [np.nan, 0.2], "switch_cost": np.nan, **known})
    sizes = radius_sizes(Sizes(task, cede.ucrl2_mc(task).settings))
    assert sizes.cost_rows == (1 if known else 3)  # one agent, two hand-overs
    assert (sizes.delta, sizes.cost_delta) == pytest.approx((0.1 * 2 / 3, 0.1 / 3))
    by_state = cede.Task(**told, control_cost=np.full((3, 2), np.nan), terminal=[2])
    assert (
        radius_sizes(Sizes(by_state, cede.ucrl2_mc(by_state).settings)).cost_rows == 4
    )  # nobody has control where an episode ends


def test_intervals_hold_for_all_rows_at_once():
    """Charges are random; in at least 1 - delta / 3 of the repetitions all intervals hold after every batch of episodes."""
    mdp, delta, held = random_mdp(1, n_states=2, n_actions=2, n_agents=2, horizon=20, kinds=[None]), 0.9, 0
    task, rng, repeats = unknown(mdp), np.random.default_rng(0), 25
    means = rng.random((2, 2)), rng.random((2, 2, 2))
    switch = np.where(np.eye(2, dtype=bool), 0.0, np.nan)
    task = replace(task, control_cost=np.full((2, 2), np.nan), switch_cost=np.broadcast_to(switch, (2, 2, 2)))
    policy = np.random.default_rng(5).integers(2, size=task.policy_shape)
    for _ in range(repeats):
        learner, inside = cede.ucrl2_mc(task, delta=delta, replan=10**6), True
        for _ in range(2):
            for _ in range(40):
                one = cede.rollout(mdp, policy, rng)
                s, prev, who = one.states[:-1], one.prev_agents, one.agents
                paid, handed = rng.random(len(s)) < means[0][s, who], rng.random(len(s)) < means[1][s, prev, who]
                handed = np.where(prev == who, 0.0, handed)
                learner.observe_episode(replace(one, control_costs=paid * 1.0, switch_costs=handed))
                learner.end_episode(replan=False)
            costs, moved = learner.costs, ~np.eye(2, dtype=bool)
            inside &= bool(((costs.control_low <= means[0]) & (means[0] <= costs.control_high)).all())
            inside &= bool(((costs.switch_low <= means[1]) & (means[1] <= costs.switch_high))[:, moved].all())
        held += inside
    assert held / repeats >= 1 - delta / 3
    assert (costs.control_high - costs.control_low).min() < 0.9  # they say something


MAKERS = {
    "ucrl2_mc": lambda task: cede.ucrl2_mc(task, scale=0.1),
    "greedy planning": lambda task: cede.ucrl2_mc(task, scale=0.1, planning="greedy"),
    "limits": lambda task: cede.ucrl2_mc(task, scale=0.1, at_most={"human": 0.3}),
    "baseline": lambda task: cede.ucrl2_mc(task, scale=0.1, baseline="machine", alpha=0.2),
    "half-life": lambda task: cede.ucrl2_mc(task, forget_environment=cede.HalfLife(5)),
    "window": lambda task: cede.ucrl2_mc(task, forget_environment=cede.Window(7)),
    "posterior": cede.posterior_sampling,
    "ucrl2": cede.ucrl2,
    "greedy": cede.greedy,
}


@pytest.mark.parametrize("name", MAKERS)
def test_runs_in_compiled_code_by_calls_and_from_files_agree(name, tmp_path):
    mdp = slow()
    task = unknown(mdp, which=("env_cost", *WHICH))
    learner = MAKERS[name](task)
    history = cede.simulate(mdp, learner, 30, seed=2, progress=False)
    other = ByCalls(task, learner.settings)
    again = cede.simulate(mdp, other, 30, seed=2, progress=False)
    assert np.array_equal(history.cost, again.cost)
    assert np.array_equal(history.expected_cost, again.expected_cost)
    assert (learner.counts.costs != other.counts.costs).nnz == 0
    learner.save(tmp_path / "l.cede")
    loaded = cede.load(tmp_path / "l.cede")
    assert np.array_equal(loaded.plan.policy, learner.plan.policy)
    more = [cede.simulate(mdp, one, 5, seed=9, progress=False).cost for one in (learner, loaded)]
    assert np.array_equal(*more)


def test_without_a_horizon():
    mdp = slow(None, discount=0.9)
    task = unknown(mdp)
    learner = cede.ucrl2_mc(task, scale=0.1)
    history = cede.simulate(mdp, learner, steps=200, record_every=50, seed=1, progress=False)
    other = ByCalls(task, learner.settings)
    again = cede.simulate(mdp, other, steps=200, record_every=50, seed=1, progress=False)
    assert np.array_equal(history.cost, again.cost)
    assert (learner.counts.costs != other.counts.costs).nnz == 0


def test_live_by_record_by_log_and_by_episodes_it_is_the_same(tmp_path):
    mdp = slow()
    task, rng = unknown(mdp), np.random.default_rng(4)
    live = cede.ucrl2_mc(task)
    live.record_to(tmp_path / "steps.jsonl")
    episodes = [cede.rollout(mdp, mdp.task.always(name), rng) for name in ("human", "machine", "human")]
    for episode in episodes:
        for t in range(len(episode.actions)):
            step = (episode.states[t], episode.prev_agents[t], episode.agents[t], episode.actions[t], episode.states[t + 1])
            charged = {"control_cost": episode.control_costs[t], "switch_cost": episode.switch_costs[t]}
            live.observe(t, *map(int, step), **charged)
            if t == 3:
                live.save(tmp_path / "middle.cede")
        live.end_episode()
    live.recorder.close()
    record = cede.read_record(tmp_path / "steps.jsonl")
    assert record.episodes().cost == pytest.approx([episode.cost for episode in episodes])
    for log in (record, record.log(), episodes):
        learner = cede.ucrl2_mc(task)
        learner.learn_from(log, progress=False)
        assert (learner.counts.costs != live.counts.costs).nnz == 0
    middle = cede.load(tmp_path / "middle.cede")
    assert middle.observed == 4
    middle.end_episode()


def test_bounds_explanations_and_estimates_count_them():
    mdp = slow()
    learner = cede.ucrl2_mc(unknown(mdp))
    before = cede.insight.bounds(learner)
    cede.simulate(mdp, learner, 200, seed=0, progress=False)
    policy, after = learner.plan.policy, cede.insight.bounds(learner)
    truth = cede.evaluate(mdp, policy)
    assert ((after.low <= truth) & (truth <= after.high)).all()
    assert (after.high - after.low).mean() < (before.high - before.low).mean()
    found = cede.estimate(learner, "machine", interval="draws", start=mdp.environment.start)
    assert found.low <= cede.expected_cost(mdp, mdp.task.always("machine")) <= found.high
    options = {option.agent: option for option in cede.explain(learner, 0, 0, 0).options}
    assert options["machine"].parts["control"] > 0.0
    with pytest.raises(ValueError, match="optimistic_plan: costs is missing"):
        optimistic_plan(learner.task, *learner.beliefs)
    assert (optimistic_plan(learner.task, *learner.beliefs, costs=learner.costs).value <= truth + 1e-9).all()


def test_a_dear_agent_is_found_out():
    """Two agents who act alike: the one that costs more, as charges show, loses control."""
    mdp = random_mdp(2, n_states=3, n_actions=2, n_agents=2, horizon=5, kinds=[None])
    cheap = mdp.team.agents[0]
    team = cede.Team([replace(cheap, control_cost=0.6), replace(cheap, name="other", control_cost=0.1)], switch_cost=0.05)
    mdp = replace(mdp, team=team)
    task = unknown(mdp)
    for learner in (cede.ucrl2_mc(task, scale=0.1), cede.recommended(task), cede.posterior_sampling(task)):
        history = cede.simulate(mdp, learner, 150, seed=1, progress=False)
        dear, other = history.control[-50:].sum(axis=0)
        assert 2 * dear < other


def test_what_is_wrong_is_refused_by_name():
    task = unknown(slow())
    learner = cede.ucrl2_mc(task)
    step = (0, 1, 0, 0, 0, 1)
    for told, message in (
        ({}, r"observe: control_cost is missing, must be given: the task does not say what control_cost\[0\] is"),
        ({"control_cost": 2.0}, r"control_cost is 2\.0, must be from 0 to 1, the control_cost_range of the task"),
        ({"control_cost": 0.5, "switch_cost": 0.5}, r"switch_cost is 0\.5, must be 0, as switch_cost\[0, 0\] of the task says"),
        ({"control_cost": "much"}, "control_cost"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.observe(*step, **told)
    with pytest.raises(ValueError, match=r"switch_cost is missing, must be given: .* what switch_cost\[0, 2\] is"):
        learner.observe(0, 1, 0, 2, 0, 1, control_cost=0.1)
    assert learner.observed == 0
    learner.observe(*step, control_cost=0.5, switch_cost=0.0)
    known = cede.ucrl2_mc(slow().task)
    with pytest.raises(ValueError, match=r"control_cost is 0\.5, must be 0\.1, as control_cost\[0\] of the task says"):
        known.observe(*step, control_cost=0.5)
    known.observe(*step, control_cost=0.1, switch_cost=0.0)
    told = {"env_cost": [[0.0]], "agents": ["a", "b"], "horizon": 1}
    for more, message in (
        ({"control_cost": np.nan}, r"Task: control_cost_range is missing, must be given, .* as control_cost\[0\] is"),
        ({"switch_cost": np.nan}, "Task: switch_cost_range is missing"),
        ({"switch_cost": np.nan, "switch_cost_range": (1, 0)}, "switch_cost_range is"),
    ):
        with pytest.raises(ValueError, match=message):
            cede.Task(**told, **more)
    with pytest.raises(ValueError, match="Team: switch_cost"):
        cede.Team(slow().team.agents, switch_cost=np.nan)


def test_fleets_that_share_refuse_it_and_others_do_not():
    mdp = slow()
    task = unknown(mdp)
    with pytest.raises(
        ValueError, match="control_cost or switch_cost of learner 1 is learned, must be known in a fleet that shares"
    ):
        cede.Fleet([cede.ucrl2_mc(mdp.task), cede.ucrl2_mc(task)])
    alone = cede.ucrl2_mc(task, known_environment=mdp.environment)
    fleet = cede.Fleet([cede.ucrl2_mc(mdp.task), alone])
    cede.simulate_fleet([mdp, mdp], fleet, 3, progress=False)
    assert alone.costs.control_mean[0, 0] == pytest.approx(0.1)


def test_the_truth_must_be_what_can_be_learned():
    mdp = slow()
    flat = replace(mdp.task, control_cost=[np.nan] * 4, control_cost_range=(0.0, 1.0))
    with pytest.raises(ValueError, match="control_cost is not known, and the same in all states, must be given by state"):
        cede.simulate(mdp, cede.ucrl2_mc(flat), 1, progress=False)
    with pytest.raises(ValueError, match=r"control_cost of mdp, .* is from 0\.1 to 0\.7, must be from 0 to 0\.5, its range"):
        cede.simulate(mdp, cede.ucrl2_mc(unknown(mdp, (0.0, 0.5))), 1, progress=False)


def test_which_costs_are_unknown():
    task = slow().task
    assert np.isnan(task.with_unknown_costs(which="control_cost").control_cost).all()
    assert task.with_unknown_costs(which=["control_cost"]).control_cost_range == (0.1, 0.7)
    both = task.with_unknown_costs(which=("env_cost", "switch_cost"))
    assert both.learns_costs
    assert np.isnan(both.env_cost).all()
    assert np.isnan(both.switch_cost).tolist() == (np.isfinite(task.switch_cost) & (task.switch_cost > 0)).tolist()
    with pytest.raises(ValueError, match="with_unknown_costs: which is 'all', must be"):
        task.with_unknown_costs(which="all")


def test_environments_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1")
    task = cede.gym.task_for(env, ["a", "b"], 8, control_cost=np.nan, control_cost_range=(0.0, 1.0))
    team = {"a": lambda _: 1, "b": lambda _: 2}
    learner = cede.ucrl2_mc(task)
    with pytest.raises(ValueError, match="run: team_costs is missing, must be given"):
        cede.gym.run(env, team, learner, episodes=1, progress=False)
    history = cede.gym.run(
        env, team, learner, episodes=3, team_costs=lambda s, prev, agent: (0.25 + agent / 2, 0.0), progress=False
    )
    steps = history.control.sum(axis=0)
    seen = learner.costs.control_mean
    assert all(seen[i] == (0.25 + i / 2 if steps[i] else 0.5) for i in range(2))
    with pytest.raises(ValueError, match="SwitchingEnv: control_cost or switch_cost of the task is not known"):
        cede.gym.SwitchingEnv(env, team=team, task=task)


def test_agents_join_and_leave_with_their_costs():
    mdp = slow()
    learner = cede.ucrl2_mc(unknown(mdp))
    cede.simulate(mdp, learner, 40, seed=3, progress=False)
    before = learner.costs
    learner.add_agent("third", control_cost=np.nan, switch_cost=np.nan)
    costs, members = learner.costs, learner.task.members
    assert members == ("machine", "human", "third")
    assert np.array_equal(costs.control_mean[:, :2], before.control_mean[:, :2])
    taken = learner.task.agents.index("human (taking over from machine, 1 of 2)")
    assert costs.switch_mean[0, taken] == before.switch_mean[0, 2]
    assert costs.switch_mean[1, 0] == before.switch_mean[1, 0]
    assert costs.control_mean[:, 2].tolist() == [0.5] * 3  # nothing is known of the newcomer
    learner.remove_agent("machine", start_agent="human")
    after = learner.costs
    assert np.array_equal(after.control_mean[:, 0], before.control_mean[:, 1])
    assert (learner.counts.costs[:, [0]].sum(axis=0) < 40 * 6 * 2).all()
