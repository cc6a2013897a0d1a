"""Names wherever indices go: agents, states and actions; answers in kind; errors that list what there is."""

import numpy as np
import pytest

import cede
from problems import random_mdp

TASK = {
    "env_cost": [[0.0, 0.1], [1.0, 1.1], [0.5, 0.2]],
    "agents": ["robot", "operator"],
    "horizon": 4,
    "state_names": ["runs", "slow", "stuck"],
    "action_names": ["wait", "push"],
}


def walk(task, learner, by_name, episodes=6):
    """Let a learner decide in a system that follows a random walk; everything is said by name, or by index."""
    rng, said = np.random.default_rng(3), []

    def agents(i):
        return task.agents[i] if by_name else i

    def states(i):
        return task.state_names[i] if by_name else i

    for _ in range(episodes):
        state, agent = 0, agents(task.start_agent)
        for t in range(task.horizon):
            prev, agent = agent, learner.choose(t, states(state), agent)
            action, to = int(rng.integers(2)), int(rng.integers(3))
            learner.observe(t, states(state), prev, agent, task.action_names[action] if by_name else action, states(to))
            said.append(agent)
            state = to
        learner.end_episode()
    return said


@pytest.mark.parametrize("delays", [None, {"operator": 2}])
@pytest.mark.parametrize("planning", ["full", "greedy"])
def test_a_loop_by_names_is_the_loop_by_indices(delays, planning):
    task = cede.Task(**TASK, takeover_delay=delays)
    named, numbered = (cede.ucrl2_mc(task, scale=0.1, planning=planning) for _ in range(2))
    by_name, by_index = walk(task, named, True), walk(task, numbered, False)
    assert [task.agents[i] for i in by_index] == by_name
    assert {type(one) for one in by_index} == {int}
    np.testing.assert_array_equal(named.counts.agents.toarray(), numbered.counts.agents.toarray())
    np.testing.assert_array_equal(named.plan.value, numbered.plan.value)


def test_a_run_without_horizon_by_names():
    task = cede.Task(**{**TASK, "horizon": None}, discount=0.9)
    named, numbered = (cede.ucrl2_mc(task, scale=0.1) for _ in range(2))
    assert named.choose("runs", "robot") == task.agents[numbered.choose(0, 0)]
    named.observe("runs", "robot", "operator", "push", "stuck")
    numbered.observe(0, 0, 1, 1, 2)
    np.testing.assert_array_equal(named.counts.environment.toarray(), numbered.counts.environment.toarray())
    with pytest.raises(ValueError, match=r"observe: state is 'runs', must be 'stuck', where the step before led; moved=True if"):
        named.observe("runs", "operator", "operator", "push", "stuck")
    with pytest.raises(ValueError, match="observe: state is 0, must be 2, where the step before led"):
        numbered.observe(0, 1, 1, 1, 2)
    numbered.observe(0, 1, 1, 1, 2, moved=True)
    numbered.end_episode()
    numbered.observe(0, 0, 1, 1, 2)
    assert numbered.steps == 3


def test_who_acts_during_a_slow_hand_over():
    task = cede.Task(**TASK, takeover_delay={"operator": 2})
    first = "operator (taking over from robot, 1 of 2)"
    assert task.who_acts(first) == "robot"
    assert task.who_acts(task.agents.index(first)) == 0
    assert [task.who_acts(name) for name in task.members] == list(task.members)
    assert cede.fixed(task, "operator").choose(0, "runs", "robot") == first
    assert cede.explain(cede.greedy(task), 0, "runs", "robot").chosen_name in (first, "robot")


def test_explain_by_names():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task)
    named, numbered = cede.explain(learner, 0, "s3", "p=0.7"), cede.explain(learner, 0, 2, 1)
    assert named == numbered
    assert named.chosen_name == mdp.task.agents[named.chosen] == learner.choose(0, "s3", "p=0.7")


def test_other_places_where_an_agent_is_given():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    found = cede.insight.bounds(cede.ucrl2_mc(mdp.task))
    assert found.of_episode(mdp.environment.start, "p=0.7") == found.of_episode(mdp.environment.start, 1)
    with pytest.raises(ValueError, match=r"Bounds.of_episode: start_agent is 'x', must be one of 'p=0.3', 'p=0.7'"):
        found.of_episode(mdp.environment.start, "x")
    task = cede.Task(**TASK, switch_cost={("robot", "operator"): np.inf})
    assert (task.can_reach("operator"), task.can_reach(1), task.can_reach("robot")) == (False, False, True)
    assert cede.Task(**{**TASK, "start_agent": "operator"}).start_agent == 1
    np.testing.assert_array_equal(cede.Task(**TASK).always("operator"), cede.Task(**TASK).always(1))
    by_name, by_index = (cede.ucrl2_mc(cede.Task(**TASK), at_most={one: 0.3}).settings.limits for one in ("operator", 1))
    assert (
        (by_name.least.tolist(), by_name.most.tolist()) == (by_index.least.tolist(), by_index.most.tolist()) == ([0, 0], [1, 0.3])
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: one.choose(0, "runs", "robbot"), "choose: prev_agent is 'robbot', must be one of 'robot', 'operator'"),
        (lambda one: one.choose(0, "run", "robot"), "choose: state is 'run', must be one of 'runs', 'slow', 'stuck'"),
        (lambda one: one.observe(0, "runs", 0, "me", 0, 0), "observe: agent is 'me', must be one of 'robot', 'operator'"),
        (lambda one: one.observe(0, "runs", 0, 0, "pull", 0), "observe: action is 'pull', must be one of 'wait', 'push'"),
        (lambda one: one.observe(0, "runs", 0, 0, 0, "x"), "observe: next_state is 'x', must be one of 'runs', 'slow', 'stuck'"),
        (lambda one: cede.explain(one, 0, "x", 0), "explain: state is 'x', must be one of 'runs', 'slow', 'stuck'"),
        (lambda one: one.task.who_acts("x"), "Task.who_acts: agent is 'x', must be one of 'robot', 'operator'"),
    ],
)
def test_unknown_names(call, message):
    with pytest.raises(ValueError, match=message):
        call(cede.ucrl2_mc(cede.Task(**TASK)))


def test_names_that_are_not_there_or_not_unique():
    bare = cede.ucrl2_mc(cede.Task(TASK["env_cost"], ["robot"], 4))
    with pytest.raises(ValueError, match="choose: state is 'runs', must be an integer from 0 to 2: there are no names"):
        bare.choose(0, "runs", 0)
    twins = cede.ucrl2_mc(cede.Task(**{**TASK, "state_names": ["a", "a", "b"]}))
    with pytest.raises(ValueError, match="choose: state is 'a', must be a name that only one has; give the index"):
        twins.choose(0, "a", 0)
    assert twins.choose(0, "b", "robot") in ("robot", "operator")


def test_of_many_names_the_nearest_are_listed():
    names = [f"cell {i}" for i in range(300)]
    learner = cede.greedy(cede.Task(np.zeros(300), ["robot"], 2, n_actions=2, state_names=names))
    with pytest.raises(ValueError, match=r"one of 'cell 217', .*\(300 in all\)"):
        learner.choose(0, "cel 217", "robot")


# ------------------------------------------------------------------------------------------------- costs by name


def test_costs_by_name_are_costs_by_index():
    named = cede.Task(**TASK, control_cost={"operator": 0.2}, switch_cost={("robot", "operator"): 0.3})
    numbered = cede.Task(**TASK, control_cost=[0.0, 0.2], switch_cost=[[0.0, 0.3], [0.0, 0.0]])
    np.testing.assert_array_equal(named.control_cost, numbered.control_cost)
    np.testing.assert_array_equal(named.switch_cost, numbered.switch_cost)
    barred = cede.Task(**TASK, switch_cost={("operator", 0): np.inf})
    assert not barred.can_hand_over[1, 0]
    by_state = cede.Task(**TASK, switch_cost={("robot", "operator"): [1.0, 2.0, 3.0], ("operator", "robot"): 0.5})
    assert by_state.switch_cost[:, 0, 1].tolist() == [1.0, 2.0, 3.0]
    assert by_state.switch_cost[:, 1, 0].tolist() == [0.5] * 3
    team = cede.Team([cede.Agent(name, np.eye(2)) for name in ("robot", "operator")], {("robot", "operator"): 0.3})
    assert team.switch_cost.tolist() == [[0.0, 0.3], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ({("robot", "nobody"): 1.0}, "an agent of switch_cost is 'nobody', must be one of 'robot', 'operator'"),
        ({"robot": 1.0}, "a hand-over of switch_cost is 'robot', must be two agents, from whom and to whom"),
        ({("robot", "operator"): 1.0, (0, 1): 2.0}, "given twice, must be given once"),
        ({("robot", "operator"): "much"}, r"switch_cost\[\('robot', 'operator'\)\] is 'much', must be a number"),
        (
            {("robot", "operator"): np.nan},
            r"switch_cost_range is missing, must be given, as in \(0, 1\): .* as switch_cost\[0, 1\] is",
        ),
        ({("robot", "operator"): [1.0, 2.0]}, r"the shape of switch_cost is \(2, 2, 2\)"),
        ({("robot", "operator"): [1.0] * 3, ("operator", "robot"): [1.0] * 2}, r"the lengths of the costs in switch_cost"),
    ],
)
def test_wrong_costs_of_hand_overs(cost, message):
    with pytest.raises(ValueError, match=f"Task: .*{message}"):
        cede.Task(**TASK, switch_cost=cost)


def test_costs_of_states_alone():
    flat = cede.Task(env_cost=[0.0, 1.0, np.nan], n_actions=2, agents=["robot"], horizon=4, cost_range=(0, 1))
    np.testing.assert_array_equal(flat.env_cost, [[0.0, 0.0], [1.0, 1.0], [np.nan, np.nan]])
    with pytest.raises(ValueError, match=r"Task: n_actions is missing, must be given where env_cost is \(S,\)"):
        cede.Task(env_cost=[0.0, 1.0], agents=["robot"], horizon=4)
    with pytest.raises(ValueError, match="Task: n_states is 3, must be 2, as in env_cost"):
        cede.Task(env_cost=[0.0, 1.0], n_states=3, n_actions=2, agents=["robot"], horizon=4)
    with pytest.raises(ValueError, match=r"Task: the shape of env_cost is \(0,\)"):
        cede.Task(env_cost=[], n_actions=2, agents=["robot"], horizon=4)


# ------------------------------------------------------------------------------------------------- honest checks


def test_a_step_begins_where_the_last_one_led():
    learner = cede.ucrl2_mc(cede.Task(**TASK))
    learner.observe(0, 0, 0, 0, 0, 1)
    with pytest.raises(ValueError, match="observe: state is 2, must be 1, where the step before led; moved=True if it was moved"):
        learner.observe(1, 2, 0, 0, 0, 1)
    with pytest.raises(ValueError, match="observe: moved is 'yes', must be True or False"):
        learner.observe(1, 2, 0, 0, 0, 1, moved="yes")
    assert learner.observed == 1
    learner.observe(1, 2, 0, 0, 0, 1, moved=True)
    learner.end_episode()
    assert learner.counts.environment.sum() == 2


def test_an_episode_of_nothing_cannot_be_ended():
    learner = cede.ucrl2_mc(cede.Task(**TASK))
    with pytest.raises(ValueError, match="end_episode: the number of steps of the running episode is 0, must be at least 1"):
        learner.end_episode()
    assert learner.episode == 1
    learner.observe(0, 0, 0, 0, 0, 1)
    learner.drop_episode()
    with pytest.raises(ValueError, match="call replan"):
        learner.end_episode(replan=True)


def test_a_log_with_a_move_is_the_same_as_seeing_it(tmp_path):
    log = {"episode": [1, 1, 1], "state": [0, 2, 1], "agent": ["robot"] * 3, "action": [0, 1, 0], "next_state": [1, 1, 2]}
    task = cede.Task(**TASK)
    with pytest.raises(ValueError, match=r"learn_from: state\[1\] is 2, must be 1, where the step before led; moved=True if"):
        cede.ucrl2_mc(task).learn_from(log)
    with pytest.raises(ValueError, match=r"learn_from: moved\[1\] is 'x', must be True or False"):
        cede.ucrl2_mc(task).learn_from({**log, "moved": np.array([False, "x", False], dtype=object)})
    read, saw = cede.ucrl2_mc(task), cede.ucrl2_mc(task)
    read.learn_from({**log, "moved": [False, True, False]})
    for t, (state, action, to) in enumerate(zip(log["state"], log["action"], log["next_state"], strict=True)):
        saw.observe(t, state, 0, 0, action, to, moved=t == 1)
    saw.save(tmp_path / "moved.cede")  # in the middle of an episode with a move
    saw = cede.load(tmp_path / "moved.cede")
    saw.end_episode()
    np.testing.assert_array_equal(saw.counts.environment.toarray(), read.counts.environment.toarray())
    np.testing.assert_array_equal(saw.plan.value, read.plan.value)


def test_an_episode_that_was_moved_proves_nothing_about_a_baseline():
    """It counts as one in which others decided: for nothing among those that kept to the baseline, as the dearest beside them."""
    task = cede.Task(**TASK)
    whole, moved = (cede.ucrl2_mc(task, baseline="robot") for _ in range(2))
    for learner in (whole, moved):
        assert learner.choose(0, 0, 0) == 0
        learner.observe(0, 1, 0, 0, 0, 1)
        learner.observe(1, 1 if learner is whole else 2, 0, 0, 0, 0, moved=learner is moved)
        learner.end_episode()
    most = task.horizon * task.env_cost.max()
    assert whole.state.record[[1, 3, 4, 9]].tolist() == [0.0, 1.0, 2.0, 0.0]
    assert moved.state.record[[1, 3, 4, 9]].tolist() == [most, 1.0, 0.0, most]


def test_a_plan_is_a_policy_wherever_one_is_expected():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    plan, learner = cede.solve(mdp), cede.ucrl2_mc(mdp.task)
    assert cede.expected_cost(mdp, plan) == cede.expected_cost(mdp, plan.policy)
    np.testing.assert_array_equal(cede.insight.bounds(learner, plan).low, cede.insight.bounds(learner, plan.policy).low)
    with_plan, with_policy = (cede.ucrl2_mc(mdp.task, baseline=one) for one in (plan, plan.policy))
    np.testing.assert_array_equal(with_plan.settings.baseline.policy, with_policy.settings.baseline.policy)
    mixture = cede.solve(mdp, at_most={"p=0.7": 0.3})
    for call in (
        lambda: cede.expected_cost(mdp, mixture),
        lambda: cede.fixed(mdp.task, mixture),
        lambda: cede.ucrl2_mc(mdp.task, baseline=mixture),
    ):
        with pytest.raises(ValueError, match=r"(policy|baseline) is a Mixture, must be one policy"):
            call()


def test_what_is_no_problem_and_no_file(tmp_path):
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task)
    with pytest.raises(ValueError, match="simulate: mdp is a Task, must be a TwoLayerMDP: a Task has no probabilities"):
        cede.simulate(mdp.task, learner, 3)
    with pytest.raises(ValueError, match=r"known_agents is .*'p=0.3'.*, must be policies by the agents' names"):
        cede.ucrl2_mc(mdp.task, known_agents=["p=0.3"])
    for save in (learner.save, cede.Fleet([cede.ucrl2_mc(mdp.task)]).save, cede.explain(learner, 0, 0, 0).draw):
        with pytest.raises(ValueError, match=r"path is .*, must be the path of a file: it is a directory"):
            save(tmp_path)


# ------------------------------------------------------------------------------------------------- policies of lower precision


def softmax(rng, shape, dtype):
    scores = np.exp(rng.normal(size=shape).astype(dtype) * dtype(2))
    return scores / scores.sum(axis=-1, keepdims=True, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("actions", [2, 7, 60])
def test_what_a_model_answers_is_taken_within_its_own_rounding(dtype, actions):
    """Over many policies, so that some are off by more than float64 may be; the sums are exact afterwards."""
    off = 0.0
    for seed in range(30):
        policy = softmax(np.random.default_rng(seed), (20, actions), dtype)
        agent = cede.Agent("model", policy)
        off = max(off, float(np.abs(policy.astype(np.float64).sum(axis=1) - 1.0).max()))
        np.testing.assert_allclose(agent.policy.sum(axis=1), 1.0, rtol=0, atol=1e-15 * actions)
        np.testing.assert_allclose(agent.policy, policy, rtol=0, atol=8 * float(np.finfo(dtype).eps))
    assert off > 1e-8


def test_lower_precision_everywhere(tmp_path):
    rng, single = np.random.default_rng(0), np.float32
    table, start = softmax(rng, (4, 3, 4), single), softmax(rng, (4,), single)
    policy = softmax(rng, (4, 3), single)
    import scipy.sparse as sp

    dense = cede.Environment(table, np.zeros(4), start)
    sparse = cede.Environment(sp.csr_array(table.reshape(12, 4)), np.zeros(4), start)
    np.testing.assert_allclose(dense.transition.toarray(), sparse.transition.toarray(), rtol=1e-15)
    np.testing.assert_allclose(np.asarray(dense.transition.sum(axis=1)), 1.0, rtol=0, atol=1e-15)
    assert dense.start.sum() == pytest.approx(1.0, abs=1e-15)
    slow = cede.Agent("model", policy, takeover_delay=1, on_takeover=policy)
    np.testing.assert_array_equal(slow.policy, slow.on_takeover)
    mdp = cede.TwoLayerMDP(dense, cede.Team([cede.Agent("model", policy)]), 3)
    learner = cede.ucrl2_mc(mdp.task, known_agents={"model": policy}, baseline=0, start=start)
    learner.save(tmp_path / "model.cede")
    np.testing.assert_array_equal(cede.load(tmp_path / "model.cede").settings.knowledge.agents[0][0], mdp.team.agents[0].policy)
    cede.simulate(mdp, learner, 3)
    cede.gym.actor("model", policy)
    cede.insight.bounds(learner).of_episode(start)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_further_off_is_refused(dtype):
    policy = np.array([[0.5, 0.5], [0.25, 0.75]], dtype=dtype)
    near = policy * dtype(1 + 20 * np.finfo(np.float32).eps)
    with pytest.raises(ValueError, match=r"Agent 'model': policy\[0\] sums to 1\.00000238., must be 1"):
        cede.Agent("model", near)
    with pytest.raises(ValueError, match=r"Environment: transition\[0, 0\] sums to 1\.0000"):
        cede.Environment(near[:, None, :], [0.0, 0.0], [1.0, 0.0])
    import scipy.sparse as sp

    with pytest.raises(ValueError, match=r"Environment: transition\[0, 0\] sums to 1\.0000"):
        cede.Environment(sp.csr_array(near), [0.0, 0.0], [1.0, 0.0])


def test_double_precision_is_left_as_it_is():
    policy = random_mdp(3, n_states=3, n_agents=1, kinds=[None]).team.agents[0].policy * (1 + 1e-10)
    np.testing.assert_array_equal(cede.Agent("model", policy).policy, policy)
    assert cede.Agent("model", np.array([[0.5, 0.25, 0.25]], dtype=np.float32)).policy.tolist() == [[0.5, 0.25, 0.25]]
