"""Hand-overs that are forbidden in some states: against recursion, enumeration and linear programming, and in every learner."""

import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

import cede
from problems import random_rows


def locked(seed, *, horizon=3, discount=None, delays=(0, 0, 0), m=3, n=3):
    """A random problem with locks, and which hand-overs are allowed, (S, M, M)."""
    rng = np.random.default_rng(seed)
    environment = cede.Environment(random_rows(rng, (n, 2, n), sparse=0.2), rng.random((n, 2)), start=random_rows(rng, (1, n))[0])
    agents = [cede.Agent(f"a{i}", random_rows(rng, (n, 2)), rng.random() / 2, takeover_delay=delays[i]) for i in range(m)]
    allowed = rng.random((n, m, m)) < 0.5
    allowed[np.arange(n)[:, None], np.arange(m), rng.integers(m, size=(n, m))] = True
    switch = rng.random((m, m)) * (1 - np.eye(m))
    team = cede.Team(agents, switch, can_switch=lambda s, prev, agent: bool(allowed[s, int(prev[1:]), int(agent[1:])]))
    return cede.TwoLayerMDP(environment, team, horizon, discount=discount), allowed


def best_value(mdp, allowed, policy=None):
    """Backward induction, loop by loop. policy: (L, S, D), instead of the best."""
    agents, task = mdp.team.agents, mdp.task
    p = mdp.environment.transition.toarray().reshape(task.n_states, task.n_actions, task.n_states)
    value = np.zeros((mdp.horizon + 1, task.n_states, len(agents)))
    for t in reversed(range(mdp.horizon)):
        for s, prev in np.ndindex(value.shape[1:]):
            costs = {}
            for d, agent in enumerate(agents):
                if allowed[s, prev, d]:
                    ahead = mdp.environment.cost[s] + p[s] @ value[t + 1, :, d] * (mdp.discount or 1.0)
                    costs[d] = agent.control_cost + mdp.team.switch_cost[prev, d] + agent.policy[s] @ ahead
            value[t, s, prev] = min(costs.values()) if policy is None else costs[policy[t, s, prev]]
    return value


@pytest.mark.parametrize("seed", range(8))
def test_with_a_horizon_against_loops(seed):
    mdp, allowed = locked(seed, discount=0.9 if seed % 2 else None)
    plan = cede.solve(mdp)
    np.testing.assert_allclose(plan.value, best_value(mdp, allowed), rtol=1e-12)
    assert allowed[np.arange(3)[:, None], np.arange(3), plan.policy].all()
    rule = mdp.task.rule(lambda t, state, prev_agent: (t + state) % 3)
    assert allowed[np.arange(3)[:, None], np.arange(3), rule].all()
    np.testing.assert_allclose(cede.evaluate(mdp, rule), best_value(mdp, allowed, rule), rtol=1e-12)
    bad, (s, prev, agent) = plan.policy.copy(), np.argwhere(~allowed)[0]
    bad[0, s, prev] = agent
    with pytest.raises(ValueError, match=f"must be an agent to whom 'a{prev}' can hand control"):
        cede.expected_cost(mdp, bad)


@pytest.mark.parametrize("seed", range(4))
def test_limits_against_all_policies(seed):
    """The cheapest mixture with a0 in at most a third of the steps, over all deterministic policies, by linear programming."""
    mdp, allowed = locked(seed, horizon=2, m=2, n=2)
    task = mdp.task
    places = list(np.ndindex(task.policy_shape))
    choices = [np.flatnonzero(allowed[s, prev]) for _, s, prev in places]
    costs, shares = [], []
    for chosen in product(*choices):
        policy = np.array(chosen, dtype=np.int16).reshape(task.policy_shape)
        costs.append(cede.expected_cost(mdp, policy))
        counting = cede.TwoLayerMDP(
            cede.Environment(mdp.environment.transition, np.zeros((2, 2)), start=mdp.environment.start),
            cede.Team([cede.Agent(a.name, a.policy, float(i == 0) / 2) for i, a in enumerate(mdp.team.agents)], can_switch=allowed),
            2,
        )
        shares.append(cede.expected_cost(counting, policy))
    found = linprog(costs, [shares], [max(1 / 3, min(shares))], [np.ones(len(costs))], [1.0], method="highs")
    assert cede.solve(mdp, at_most={"a0": max(1 / 3, min(shares))}).cost == pytest.approx(found.fun, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_without_a_horizon_against_linear_programming(seed):
    for discount in (0.9, None):
        mdp, allowed = locked(seed, horizon=None, discount=discount)
        n, m = 3, 3
        p = mdp.environment.transition.toarray().reshape(n, 2, n)
        rows, right = [], []
        for s, prev, d in np.argwhere(allowed):
            agent, row = mdp.team.agents[d], np.zeros(n * m + 1)
            row[s * m + prev] += 1.0
            row[np.arange(n) * m + d] -= (discount or 1.0) * (agent.policy[s] @ p[s])
            row[-1] = discount is None
            rows.append(row)
            right.append(agent.control_cost + mdp.team.switch_cost[prev, d] + agent.policy[s] @ mdp.environment.cost[s])
        aim = np.r_[-np.ones(n * m) if discount else np.zeros(n * m), 0.0 if discount else -1.0]
        free = (None, None)
        found = linprog(aim, np.array(rows), right, bounds=[free] * (n * m) + [(0, 0) if discount else free], method="highs")
        if not discount and not found.success:  # locks can take a problem apart
            with pytest.raises(ValueError, match="connected"):
                cede.solve(mdp)
            continue
        plan = cede.solve(mdp)
        if discount:
            np.testing.assert_allclose(plan.value.ravel(), found.x[:-1], rtol=1e-7)
        else:
            assert plan.gain == pytest.approx(found.x[-1], rel=1e-7)


MAKERS = {
    "ucrl2_mc": cede.ucrl2_mc,
    "ucrl2": cede.ucrl2,
    "posterior": cede.posterior_sampling,
    "greedy backups": lambda task: cede.ucrl2_mc(task, planning="greedy"),
    "recommended": cede.recommended,
    "limits": lambda task: cede.ucrl2_mc(task, at_most={"a1": 0.5}),
    "baseline": lambda task: cede.ucrl2_mc(task, baseline=0),
}


@pytest.mark.parametrize("delays", [(0, 0, 0), (0, 2, 0)])
@pytest.mark.parametrize("name", MAKERS)
def test_no_learner_does_what_is_forbidden(name, delays):
    """Trial episodes too: `recommended` begins with them. While a lock holds, who acts never changes against it."""
    mdp, allowed = locked(11, horizon=4, delays=delays)
    task, rng = mdp.task, np.random.default_rng(0)
    learner = MAKERS[name](task)
    for _ in range(12):
        state, agent = int(rng.integers(3)), task.start_agent
        for t in range(4):
            prev, agent = agent, learner.choose(t, state, agent)
            assert task.may_choose(state, prev)[agent]
            before, now = task.acting[prev], task.acting[agent]
            arrives = prev >= 3 and agent == task.layout.aim[prev]
            assert allowed[state, before, now] or (before == now and agent >= 3) or (prev >= 3 and not arrives)
            action, to = int(rng.integers(2)), int(rng.integers(3))
            learner.observe(t, state, prev, agent, action, to)
            state = to
        learner.end_episode()
    history = cede.simulate(mdp, MAKERS[name](task), 30, seed=3)
    assert np.isfinite(history.cost).all()  # what is forbidden would cost infinity
    assert np.isfinite(history.expected_cost).all()


def test_in_a_fleet_each_team_keeps_to_its_own_locks():
    """Teams that differ in their locks alone; the first episodes are trial episodes. What is forbidden would cost infinity."""
    mdp, locks = locked(21, horizon=4)[0], [locked(seed, horizon=4)[1] for seed in (21, 22, 23)]
    mdps = [cede.TwoLayerMDP(mdp.environment, cede.Team(mdp.team.agents, 0.1, can_switch=allowed), 4) for allowed in locks]
    history = cede.simulate_fleet(mdps, cede.Fleet([cede.recommended(mdp.task) for mdp in mdps]), episodes=20, seed=2)
    assert np.isfinite(history.cost).all()
    assert np.isfinite(history.expected_cost).all()


def test_a_rule_is_obeyed_as_soon_as_it_may_be():
    """A tool call is open in state 1, and the operator needs two steps. All ways are written out."""
    task = cede.Task(
        env_cost=np.ones((3, 1)),
        agents=["robot", "operator"],
        horizon=2,
        state_names=["free", "call", "done"],
        terminal=["done"],
        takeover_delay={"operator": 2},
        can_switch=lambda state, prev, agent: prev == agent or state != "call",
    )
    seen = []

    def rule(t, state, prev_agent):
        seen.append((t, state, prev_agent))
        return "operator" if t == 0 else 0

    policy = task.rule(rule)
    assert seen == [(t, s, who) for t in range(2) for s in ("free", "call") for who in ("robot", "operator")]
    # prev: robot, operator, taking over 1 of 2, 2 of 2
    assert policy[0].tolist() == [[2, 1, 3, 1], [0, 1, 3, 3], policy[0, 2].tolist()]
    assert policy[1].tolist() == [[0, 0, 3, 0], [0, 1, 3, 3], policy[1, 2].tolist()]
    assert cede.fixed(task, policy).plan.policy.tolist() == policy.tolist()
    assert cede.ucrl2_mc(task, baseline=policy).settings.baseline is not None
    endless = cede.Task(env_cost=np.ones((2, 1)), agents=["robot", "operator"], horizon=None, discount=0.9)
    assert endless.rule(lambda state, prev_agent: "operator" if state else prev_agent).tolist() == [[0, 1], [1, 1]]


def test_bad_rules():
    task = cede.Task(env_cost=np.ones((2, 1)), agents=["robot", "operator"], horizon=1)
    for rule, message in (
        (3, "Task.rule: rule is 3, must be a function"),
        (lambda t, s, p: "cat", "Task.rule: the member that the rule gives in state 0 after 'robot' is 'cat', must be one of"),
        (
            lambda t, s, p: 2,
            "Task.rule: the member that the rule gives in state 0 after 'robot' is 2, must be an integer from 0 to 1",
        ),
        (lambda t, s, p: None, "Task.rule: the member that the rule gives in state 0 after 'robot' is None"),
    ):
        with pytest.raises(ValueError, match=message):
            task.rule(rule)


def test_the_two_forms_are_one_and_a_grab_costs_what_it_did(tmp_path):
    costs = {"env_cost": np.zeros((2, 1)), "agents": ["a", "b"], "horizon": 3}
    allowed = np.array([[[True, True], [True, True]], [[True, False], [True, True]]])
    task = cede.Task(**costs, switch_cost=0.5, can_switch=allowed)
    other = cede.Task(**costs, switch_cost=[[[0, 0.5], [0.5, 0]], [[0, np.inf], [0.5, 0]]])
    np.testing.assert_array_equal(task.switch_cost, other.switch_cost)
    assert (task.step_cost(1, 0, 1, 0.0), task.leaves_out(1, 0, 1)) == (0.5, False)
    assert (other.step_cost(1, 0, 1, 0.0), other.leaves_out(1, 0, 1), other.leaves_out(0, 0, 1)) == (0.0, True, False)
    learner = cede.ucrl2_mc(task)
    record = learner.record_to(tmp_path / "steps.jsonl")
    learner.observe(0, 1, 0, 1, 0, 1)  # b grabs control: it is counted as what happened
    learner.end_episode()
    assert learner.steps_in_control.tolist() == [0, 1]
    record.close()
    assert cede.read_record(tmp_path / "steps.jsonl").episodes().cost.tolist() == [0.5]
    learner.save(tmp_path / "a.cede")
    np.testing.assert_array_equal(cede.load(tmp_path / "a.cede").task.switch_cost, task.switch_cost)
    assert np.isfinite(cede.Task(**costs, can_switch=np.ones((2, 2), dtype=bool)).switch_cost).all()


@pytest.mark.parametrize(
    ("can_switch", "message"),
    [
        (
            lambda s, p, a: p == "a",
            "Task: switch_cost in state 'x' after 'b' is infinite for all agents, must be finite for at least",
        ),
        (lambda s, p, a: s == "x" or p == "a", "Task: switch_cost in state 'y' after 'b' is infinite"),
        (lambda s, p, a: 1, r"Task: can_switch\('x', 'a', 'a'\) is 1, must be True or False"),
        ([[1.0, 0.0], [0.0, 1.0]], "Task: can_switch is .*, must be booleans"),
        (
            np.ones((3, 2, 2), dtype=bool),
            r"Task: the shape of can_switch is \(3, 2, 2\), must be \(D, D\) = \(2, 2\), or \(S, D, D\) = \(2, 2, 2\)",
        ),
        ("never", "Task: can_switch is 'never', must be booleans"),
    ],
)
def test_locks_are_checked(can_switch, message):
    with pytest.raises(ValueError, match=message):
        cede.Task(env_cost=np.zeros((2, 1)), agents=["a", "b"], horizon=3, state_names=["x", "y"], can_switch=can_switch)


def test_where_an_episode_ends_nothing_need_be_allowed():
    allowed = np.ones((2, 2, 2), dtype=bool)
    allowed[1] = False
    task = cede.Task(env_cost=np.zeros((2, 1)), agents=["a", "b"], horizon=3, terminal=[1], can_switch=allowed)
    assert cede.ucrl2_mc(task).plan.policy.shape == (3, 2, 2)
    slow = cede.Task(env_cost=np.zeros((2, 1)), agents=["a", "b"], horizon=3, takeover_delay={"b": 1})
    with pytest.raises(ValueError, match="given to a task without steps of hand-overs"):
        replace(slow, can_switch=np.ones((3, 3), dtype=bool))


def test_a_problem_with_a_function_can_be_sent_to_other_processes():
    mdp, allowed = locked(3)
    again = pickle.loads(pickle.dumps(mdp))
    np.testing.assert_array_equal(again.task.switch_cost, mdp.task.switch_cost)
    np.testing.assert_array_equal(mdp.team.can_switch, allowed)


def test_gymnasium_shows_what_may_be_done():
    from cede.gym import SwitchingEnv

    allowed = np.ones((2, 2, 2), dtype=bool)
    allowed[1, 0, 1] = False
    environment = cede.Environment(np.array([[[0, 1.0]], [[1.0, 0]]]), np.zeros((2, 1)), start=[1.0, 0.0])
    team = cede.Team([cede.Agent("a", [[1.0]] * 2), cede.Agent("b", [[1.0]] * 2)], can_switch=allowed)
    env = SwitchingEnv(cede.TwoLayerMDP(environment, team, 4))
    env.reset(seed=0)
    assert env.action_masks().tolist() == [True, True]
    assert env.step(0)[0].tolist() == [1, 0]
    assert env.action_masks().tolist() == [True, False]
    assert env.step(1)[0].tolist() == [0, 0]  # no effect
    assert env.step(1)[0].tolist() == [1, 1]
