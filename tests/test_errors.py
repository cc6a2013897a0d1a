"""Bad input gets an error that names argument, place and value, and nothing is lost."""

import numpy as np
import pytest
import scipy.sparse as sp

import cede
from cede.beliefs.belief import Belief
from cede.beliefs.scale import StepDown
from cede.steps.step import Episode
from problems import play, random_mdp

P = np.tile(np.array([[0.5, 0.5], [0.1, 0.9]])[:, None, :], (1, 2, 1))  # (2, 2, 2)
C = np.zeros((2, 2))
START = [1.0, 0.0]
POLICY = np.full((2, 2), 0.5)


def changed(array, place, value):
    result = np.array(array, dtype=float)
    result[place] = value
    return result


def environment(**parts):
    return cede.Environment(**{"transition": P, "cost": C, "start": START, **parts})


def mdp(agents=None, switch_cost=0.0, **parts):
    agents = agents or [cede.Agent("machine", POLICY), cede.Agent("human", POLICY)]
    return cede.TwoLayerMDP(environment(), cede.Team(agents, switch_cost), **{"horizon": 3, **parts})


def task(**parts):
    return cede.Task(**{"env_cost": C, "agents": ["machine", "human"], "horizon": 3, **parts})


CASES = {
    "sum": (
        lambda: environment(transition=changed(P, (1, 0, 0), 0.03)),
        r"Environment: transition\[1, 0\] sums to 0.93, must be 1",
    ),
    "policy sum": (
        lambda: cede.Agent("human", changed(POLICY, (1, 0), 0.43)),
        r"Agent 'human': policy\[1\] sums to 0.93, must be 1",
    ),
    "start sum": (lambda: environment(start=[0.5, 0.4]), "Environment: start sums to 0.9, must be 1"),
    "nan": (
        lambda: environment(transition=changed(P, (0, 1, 1), np.nan)),
        r"transition\[0, 1, 1\] is nan, must be a finite number",
    ),
    "infinite cost": (
        lambda: environment(cost=changed(C, (1, 1), np.inf)),
        r"Environment: cost\[1, 1\] is inf, must be a finite number",
    ),
    "negative": (
        lambda: cede.Agent("human", [[1.2, -0.2], [0.5, 0.5]]),
        r"Agent 'human': policy\[0, 1\] is -0.2, must be a probability, at least 0",
    ),
    "sparse sum": (
        lambda: environment(transition=sp.csr_array(changed(P, (1, 0, 0), 0.03).reshape(4, 2))),
        r"Environment: transition\[1, 0\] sums to 0.93, must be 1",
    ),
    "sparse nan": (
        lambda: environment(transition=sp.coo_array(changed(P, (0, 1, 1), np.nan).reshape(4, 2))),
        r"transition\[0, 1, 1\] is nan, must be a finite number",
    ),
    "sparse negative": (
        lambda: environment(transition=sp.csc_array(changed(P, (1, 1), [-0.5, 1.5]).reshape(4, 2))),
        r"transition\[1, 1, 0\] is -0.5, must be a probability",
    ),
    "sparse shape": (
        lambda: environment(transition=sp.csr_array(np.ones((3, 2)))),
        r"the shape of the sparse transition is \(3, 2\), must be \(S\*A, S\)",
    ),
    "transition shape": (
        lambda: environment(transition=np.ones((2, 2, 3)) / 3),
        r"the shape of transition is \(2, 2, 3\), must be \(S, A, S\), first and last equal",
    ),
    "flat transition": (lambda: environment(transition=np.ones((4, 2)) / 2), r"the shape of transition is \(4, 2\)"),
    "cost shape": (lambda: environment(cost=np.zeros((3, 2))), r"the shape of cost is \(3, 2\), must be \(S, A\) = \(2, 2\)"),
    "cost letters": (lambda: environment(cost=[["a", "b"]] * 2), "Environment: cost is .* must be an array of numbers of shape"),
    "complex": (lambda: environment(cost=C + 1j), "Environment: cost is .* must be an array of numbers"),
    "ragged": (lambda: environment(cost=[[1.0], [1.0, 2.0]]), "Environment: cost is .* must be an array of numbers"),
    "state names": (lambda: environment(state_names=["only one"]), "the length of state_names is 1, must be 2"),
    "empty team": (lambda: cede.Team([]), r"Team: agents is \[\], must be a sequence of at least one Agent"),
    "not an agent": (lambda: cede.Team(["human"]), r"Team: agents\[0\] is 'human', must be an Agent"),
    "twins": (
        lambda: cede.Team([cede.Agent("human", POLICY)] * 2),
        r"the name of agents\[1\] is 'human', must be different from that of agents\[0\]",
    ),
    "switch shape": (
        lambda: mdp(switch_cost=np.zeros((3, 3))),
        r"Team: the shape of switch_cost is \(3, 3\), must be \(D, D\) = \(2, 2\)",
    ),
    "switch nan": (lambda: mdp(switch_cost=np.nan), r"Team: switch_cost\[0, 1\] is nan, must be a finite number"),
    "control": (lambda: cede.Agent("human", POLICY, control_cost=np.inf), "Agent 'human': control_cost is inf"),
    "varies": (
        lambda: cede.Agent("human", POLICY, varies_with="mood"),
        "varies_with is 'mood', must be one of None, 'time', 'prev_agent'",
    ),
    "nameless": (lambda: cede.Agent("", POLICY), "Agent: name is '', must be a non-empty string"),
    "agent shape": (
        lambda: mdp([cede.Agent("big", np.full((3, 2), 0.5))]),
        r"Agent 'big': the shape of policy is \(3, 2\), must be \(S, A\) = \(2, 2\) in this problem",
    ),
    "time shape": (
        lambda: mdp([cede.Agent("slow", np.full((5, 2, 2), 0.5), varies_with="time")]),
        r"Agent 'slow': the shape of policy is \(5, 2, 2\), must be \(L, S, A\) = \(3, 2, 2\)",
    ),
    "horizon": (lambda: mdp(horizon=0), "TwoLayerMDP: horizon is 0, must be an integer of at least 1"),
    "horizon type": (lambda: mdp(horizon=2.5), "TwoLayerMDP: horizon is 2.5, must be an integer"),
    "start agent": (lambda: mdp(start_agent=2), "Task: start_agent is 2, must be an integer from 0 to 1"),
    "start agent name": (lambda: mdp(start_agent="robot"), "Task: start_agent is 'robot', must be one of 'machine', 'human'"),
    "overflow": (lambda: task(horizon=10**18), r"Task: \(horizon \+ 1\) x states x agents is \d+, must be at most"),
    "no agents": (lambda: task(agents=[]), "Task: agents is .*, must be a sequence of at least one name"),
    "control length": (lambda: task(control_cost=[0.1, 0.2, 0.3]), r"Task: the shape of control_cost is \(3,\), must be \(D,\)"),
    "varies length": (lambda: task(varies_with=["time"]), "Task: the length of varies_with is 1, must be 2"),
    "delta 0": (lambda: cede.ucrl2_mc(task(), delta=0), r"ucrl2_mc: delta is 0.0, must be a number in \(0, 1\)"),
    "delta 3": (lambda: cede.ucrl2(task(), delta=3.0), r"ucrl2: delta is 3.0, must be a number in \(0, 1\)"),
    "delta text": (lambda: cede.ucrl2_mc(task(), delta="small"), r"ucrl2_mc: delta is 'small', must be a number in \(0, 1\)"),
    "delta nan": (lambda: cede.ucrl2_mc(task(), delta=np.nan), r"ucrl2_mc: delta is nan"),
    "scale": (lambda: cede.ucrl2_mc(task(), scale=-0.1), "ucrl2_mc: scale is -0.1, must be a finite number of at least 0"),
    "scale part": (lambda: cede.Scale(agents=-1), "Scale: agents is -1.0, must be a finite number of at least 0"),
    "schedule": (
        lambda: cede.ucrl2_mc(task(), scale=cede.Scale(environment=lambda k: -k)).plan,
        "Scale, episode 1: environment is -1.0, must be a finite number of at least 0",
    ),
    "authors": (lambda: cede.Scale.authors(0), "Scale.authors: episodes is 0, must be an integer of at least 1"),
    "radius": (lambda: cede.ucrl2(task(), radius="wide"), "ucrl2: radius is 'wide', must be one of 'appendix', 'same-form'"),
    "seed": (lambda: cede.ucrl2_mc(task(), seed=-1), "ucrl2_mc: seed is -1, must be an integer from 0"),
    "known name": (
        lambda: cede.ucrl2_mc(task(), known_agents={"robot": POLICY}),
        "ucrl2_mc: an agent of known_agents is 'robot', must be one of 'machine', 'human'",
    ),
    "known shape": (
        lambda: cede.ucrl2_mc(task(), known_agents={"human": np.ones((2, 1))}),
        r"ucrl2_mc, known agent 'human': the shape of policy is \(2, 1\), must be \(S, A\) = \(2, 2\)",
    ),
    "known environment": (
        lambda: cede.ucrl2_mc(task(), known_environment=cede.worlds.riverswim().environment),
        r"ucrl2_mc: \(S, A\) of known_environment is \(6, 2\), must be \(2, 2\)",
    ),
    "fixed": (lambda: cede.fixed(task(), "robot"), "fixed: agent is 'robot', must be one of 'machine', 'human'"),
    "policy type": (
        lambda: cede.evaluate(mdp(), np.zeros((3, 2, 2))),
        "evaluate: the type of policy is float64, must be an integer type",
    ),
    "policy shape": (lambda: cede.evaluate(mdp(), np.zeros((2, 2, 2), int)), r"evaluate: the shape of policy is \(2, 2, 2\)"),
    "policy agent": (
        lambda: cede.rollout(mdp(), np.full((3, 2, 2), 7)),
        r"rollout: policy\[0, 0, 0\] is 7, must be an agent from 0 to 1",
    ),
    "rollout seed": (lambda: cede.rollout(mdp(), np.zeros((3, 2, 2), int), seed="x"), "rollout: seed is 'x', must be an integer"),
    "episodes": (
        lambda: cede.simulate(mdp(), cede.fixed(task(), 0), 0),
        "simulate: episodes is 0, must be an integer from 1 to",
    ),
    "other costs": (
        lambda: cede.simulate(mdp(), cede.fixed(task(switch_cost=0.5), 0), 1),
        "simulate: the learner's switch_cost is another, must be that of mdp",
    ),
    "delta none": (lambda: cede.ucrl2_mc(task(), delta=None), r"ucrl2_mc: delta is None, must be a number in \(0, 1\)"),
    "step down": (lambda: StepDown(1.0, 0.1, 0, 0.1), "StepDown: every is 0.0, must be more than 0"),
    "huge cost": (lambda: task(env_cost=C + 1e200), r"Task: the largest env_cost is 1e\+200, must be at most 1e\+100 in size"),
    "belief": (
        lambda: Belief.of([[0.5, -0.5]], 0.0, (1, 1)),
        "Belief.of: a weight of centre is -0.5, must be finite and at least 0",
    ),
    "other learner": (
        lambda: cede.simulate(mdp(), cede.fixed(task(horizon=4), 0), 1),
        "simulate: the learner's horizon is 4, must be 3, as in mdp",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_message(case):
    call, message = CASES[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_nothing_is_renormalised():
    odd = np.array([[0.5, 0.5 + 5e-9], [0.5, 0.5]])  # within rounding: taken as it is
    assert cede.Agent("human", odd).policy[0, 1] == 0.5 + 5e-9


def test_negative_costs_are_allowed():
    problem = cede.TwoLayerMDP(environment(cost=C - 5), cede.Team([cede.Agent("a", POLICY, -1.0)], [[-0.5]]), 2)
    assert cede.expected_cost(problem, cede.solve(problem).policy) == pytest.approx(2 * (-5 - 1 - 0.5))


STEP = {"t": 0, "state": 0, "prev_agent": 0, "agent": 1, "action": 0, "next_state": 1}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"t": 1}, "observe: t is 1, must be 0, the next step of this episode"),
        ({"t": 3}, "observe: t is 3, must be an integer from 0 to 2"),
        ({"state": 2}, "observe: state is 2, must be an integer from 0 to 1"),
        ({"state": -1}, "observe: state is -1"),
        ({"prev_agent": 2}, "observe: prev_agent is 2"),
        ({"agent": 5}, "observe: agent is 5"),
        ({"action": 2}, "observe: action is 2"),
        ({"next_state": 9}, "observe: next_state is 9"),
        ({"action": 0.0}, "observe: action is 0.0, must be an integer"),
        ({"action": True}, "observe: action is True, must be an integer"),
    ],
)
def test_a_wrong_step_leaves_the_learner_as_it_was(wrong, message):
    learner, twin = cede.ucrl2_mc(task()), cede.ucrl2_mc(task())
    with pytest.raises(ValueError, match=message):
        learner.observe(**{**STEP, **wrong})
    for each in (learner, twin):
        each.observe(**STEP)
        each.end_episode()
    assert (learner.counts.agents != twin.counts.agents).nnz == 0
    np.testing.assert_array_equal(learner.plan.value, twin.plan.value)


def test_a_step_cannot_be_observed_twice():
    learner = cede.ucrl2_mc(task())
    learner.observe(**STEP)
    with pytest.raises(ValueError, match="observe: t is 0, must be 1, the next step"):
        learner.observe(**STEP)
    learner.end_episode()
    assert learner.counts.environment.sum() == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 0, 0), "choose: t is 3, must be an integer from 0 to 2"),
        ((0, 2, 0), "choose: state is 2"),
        ((0, 0, -1), "choose: prev_agent is -1"),
    ],
)
def test_choose_outside_the_problem(arguments, message):
    with pytest.raises(ValueError, match=message):
        cede.ucrl2_mc(task()).choose(*arguments)


def test_a_wrong_episode_leaves_the_learner_as_it_was():
    problem = random_mdp(3, n_states=3, n_agents=2, n_actions=2, horizon=3)
    learner = cede.ucrl2_mc(problem.task)
    good = play(problem, 1, 0)[0]
    bad = Episode(good.states, good.prev_agents, [*good.agents[:-1], 2], good.actions, good.costs)
    with pytest.raises(ValueError, match=r"observe_episode: agents\[2\] is 2, must be an integer from 0 to 1"):
        learner.observe_episode(bad)
    with pytest.raises(ValueError, match="observe_episode: episode is None, must be an Episode"):
        learner.observe_episode(None)
    learner.observe(0, 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="the number of steps observed already is 1, must be 0"):
        learner.observe_episode(good)
    assert learner.counts.environment.sum() == 0


def test_belief_of_wrong_widths():
    with pytest.raises(ValueError, match=r"Belief: width\[1\] is -1.0, must be at least 0"):
        Belief.of(np.eye(2), [0.0, -1.0], (2, 1))
    with pytest.raises(ValueError, match=r"Belief.of: places is \(3, 1\), must be two numbers whose product is 2"):
        Belief.of(np.eye(2), 0.0, (3, 1))
