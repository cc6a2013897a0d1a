"""Hand-overs whose time is random: against a recursion written from the words, linear programming, and episodes that are played."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog

import cede
from cede.planning.control_shares import shares_of
from problems import random_rows

ANSWERS = ([0.3, 0.3, 0.2, 0.2], [0.3, 0.3, 0.2], [0.0, 0.5, 0.0, 0.25], [0.4], [0.0, 0.25, 0.75], [0.5, 0.0, 0.0])


def problem(seed, answers, *, horizon=4, discount=None, locks=False, terminal=()):
    """Three members, of whom one or two answer after a random time."""
    rng = np.random.default_rng(seed)
    n, a, m = 3, 2, 3
    environment = cede.Environment(
        random_rows(rng, (n, a, n), sparse=0.2),
        rng.random((n, a)) * [[1.0]] * np.array([s not in terminal for s in range(n)])[:, None],
        start=[0.5, 0.5, 0.0],
        enter_cost=rng.random(n),
        terminal=terminal,
    )
    delays = [0, answers, answers if seed % 2 else 1]
    agents = [cede.Agent(f"a{i}", random_rows(rng, (n, a)), rng.random(), takeover_delay=delays[i]) for i in range(m)]
    allowed = rng.random((n, m, m)) < 0.6
    allowed[:, range(m), range(m)] = True
    team = cede.Team(agents, rng.random((m, m)) * (0.3 + 0.7 * (1 - np.eye(m))), can_switch=allowed if locks else None)
    return cede.TwoLayerMDP(environment, team, horizon, discount=discount), allowed if locks else np.ones((n, m, m), dtype=bool)


def chances_of(delay):
    """The probabilities of 0, 1, 2, ... steps, and of no answer."""
    if isinstance(delay, int):
        return [0.0] * delay + [1.0], 0.0
    return list(delay), max(0.0, 1.0 - sum(delay))


def best_cost_slow(mdp, allowed):
    """The least cost, where who waits is (member, called, steps waited): all loops, from the words of takeover.py."""
    agents, switch, horizon = mdp.team.agents, mdp.team.switch_cost, mdp.horizon
    n, a = mdp.task.n_states, mdp.task.n_actions
    p, factor = mdp.environment.transition.toarray().reshape(n, a, n), 1.0 if mdp.discount is None else mdp.discount

    def act(t, s, who, after):
        total = agents[who].control_cost
        for b in range(a):
            rest = sum(p[s, b, to] * (mdp.environment.enter_cost[to] + factor * after(to)) for to in range(n))
            total += agents[who].policy[s, b] * (mdp.environment.cost[s, b] + rest)
        return total

    def settle(t, s, who):
        return act(t, s, who, lambda to: settled(t + 1, to, who))

    def wait(t, s, who, called, steps):
        return act(t, s, who, lambda to: waiting(t + 1, to, who, called, steps))

    @cache
    def settled(t, s, who):
        if t == horizon:
            return 0.0
        found = []
        for d in range(len(agents)):
            if not allowed[s, who, d]:
                continue
            at_once = chances_of(agents[d].takeover_delay)[0][0] if d != who else 1.0
            cost = switch[who, d] + (at_once * settle(t, s, d) if at_once else 0.0)
            found.append(cost + ((1.0 - at_once) * wait(t, s, who, d, 1) if at_once < 1.0 else 0.0))
        return min(found)

    @cache
    def waiting(t, s, who, called, steps):
        if t == horizon:
            return 0.0
        chances, never = chances_of(agents[called].takeover_delay)
        left = sum(chances[steps:]) + never
        answer = (chances[steps] if steps < len(chances) else 0.0) / left
        stay, is_random, last = (
            switch[called, called],
            not isinstance(agents[called].takeover_delay, int),
            steps >= len(chances) - 1,
        )
        found = [settle(t, s, who)] if is_random else []  # withdrawn
        if answer and not allowed[s, who, called]:
            return min([*found, stay + wait(t, s, who, called, steps)])
        if not is_random and last:  # arrived, and may hand over at once
            return settled(t, s, called)
        on = answer * (stay + settle(t, s, called)) if answer else 0.0
        if answer < 1.0:
            on += (1.0 - answer) * (settle(t, s, who) if last else stay + wait(t, s, who, called, steps + 1))
        return min([*found, on])

    return float(mdp.environment.start @ [settled(0, s, mdp.start_agent) for s in range(n)])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("locks", [False, True])
@pytest.mark.parametrize("discount", [None, 0.8])
def test_the_best_cost_is_that_of_the_words(seed, locks, discount):
    mdp, allowed = problem(seed, ANSWERS[seed], locks=locks, discount=discount)
    plan = cede.solve(mdp)
    assert cede.expected_cost(mdp, plan) == pytest.approx(best_cost_slow(mdp, allowed), rel=1e-12)
    np.testing.assert_allclose(cede.evaluate(mdp, plan), plan.value, rtol=1e-12)


def tables_of(mdp):
    """By order: cost (S, D, D) [s, prev, order], infinite where there is none, and where it leads (S, D, D, S, D)."""
    task = mdp.task
    n, a, d = task.n_states, task.n_actions, task.n_agents
    p = mdp.environment.transition.toarray().reshape(n, a, n)
    acts = np.array([mdp.policies[table] for table in task.table])
    switch = np.broadcast_to(task.switch_cost, (n, d, d))
    cost, go = np.zeros((n, d, d)), np.zeros((n, d, d, n, d))
    for s, prev, order in np.ndindex(n, d, d):
        if not task.may_choose(s, prev)[order]:
            cost[s, prev, order] = np.inf
            continue
        outcomes = {to: chance for before, u, to, chance in task.modes.chance if (before, u) == (prev, order)} or {order: 1.0}
        for to, chance in outcomes.items():
            step = acts[to, s] @ p[s]
            cost[s, prev, order] += chance * (switch[s, prev, to] + task.control_cost[to] + acts[to, s] @ task.env_cost[s])
            cost[s, prev, order] += chance * step @ mdp.environment.enter_cost
            go[s, prev, order, :, to] += chance * step
    return cost, go


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("locks", [False, True])
def test_without_a_horizon_against_linear_programming(seed, locks):
    """max sum v such that v(s, m) <= x + discount E v for every order; for averages max g with g + h <= x + E h."""
    for discount in (0.9, None):
        mdp, _ = problem(seed, ANSWERS[seed], horizon=None, discount=discount, locks=locks)
        cost, go = tables_of(mdp)
        n, d = cost.shape[:2]
        rows, right = [], []
        for s, prev, order in np.argwhere(np.isfinite(cost)):
            row = np.zeros(n * d + 1)
            row[s * d + prev] += 1.0
            row[:-1] -= (discount or 1.0) * go[s, prev, order].ravel()
            row[-1] = discount is None
            rows.append(row)
            right.append(cost[s, prev, order])
        aim = np.r_[-np.ones(n * d) if discount else np.zeros(n * d), 0.0 if discount else -1.0]
        fixed = (0, 0) if discount else (None, None)
        found = linprog(aim, np.array(rows), right, bounds=[(None, None)] * (n * d) + [fixed], method="highs")
        plan = cede.solve(mdp)
        if discount:
            np.testing.assert_allclose(plan.value.ravel(), found.x[:-1], rtol=1e-7)
            assert cede.expected_cost(mdp, plan) == pytest.approx(float(mdp.environment.start @ plan.value[:, 0]), rel=1e-9)
        else:
            assert plan.gain == pytest.approx(found.x[-1], rel=1e-7)
            assert cede.expected_cost(mdp, plan) == pytest.approx(plan.gain, rel=1e-9)


def lane(delay):
    mdp = cede.worlds.lane_driving(sigma=2.0, control_cost=0.2, switch_cost=0.1)
    agents = [replace(agent, takeover_delay=delay if agent.name == "human" else 0) for agent in mdp.team.agents]
    return replace(mdp, team=replace(mdp.team, agents=agents))


def test_lane_driving_has_the_figures_of_the_prototype():
    certain = [cede.expected_cost(mdp, cede.solve(mdp)) for mdp in map(lane, (0, 1, 2))]
    assert np.round(certain, 3).tolist() == [3.672, 4.749, 5.333]
    for delay, cost in zip(([1.0], [0.0, 1.0], [0.0, 0.0, 1.0]), certain, strict=True):
        assert cede.expected_cost(lane(delay), cede.solve(lane(delay)).policy) == cost
    often, seldom = (cede.expected_cost(mdp, cede.solve(mdp)) for mdp in map(lane, ([0.9, 0.1], [0.3, 0.3])))
    assert certain[0] < often < seldom


def test_episodes_that_are_played_cost_what_is_expected():
    mdp, _ = problem(1, [0.3, 0.3, 0.2], locks=True, horizon=6)
    policy = np.zeros(mdp.task.policy_shape, dtype=np.int16)
    rng = np.random.default_rng(0)
    for t, s, prev in np.ndindex(policy.shape):
        policy[t, s, prev] = rng.choice(np.flatnonzero(mdp.task.may_choose(s, prev)))
    episodes = [cede.rollout(mdp, policy, seed) for seed in range(4000)]
    costs = np.array([episode.costs.sum() for episode in episodes])
    assert abs(costs.mean() - cede.expected_cost(mdp, policy)) < 4 * costs.std() / np.sqrt(len(costs))
    for episode in episodes[:50]:  # who gets control is what the order may lead to
        for t, (s, prev, agent) in enumerate(zip(episode.states[:-1], episode.prev_agents, episode.agents, strict=True)):
            assert agent in mdp.task.roles.orders.outcomes(int(prev), int(policy[t, s, prev]))


class ByCalls:
    """A learner that is run by calls."""

    def __init__(self, learner):
        self.learner, self.task = learner, learner.task
        for name in ("choose", "observe", "end_episode", "drop_episode"):
            setattr(self, name, getattr(learner, name))

    @property
    def plan(self):
        return self.learner.plan


@pytest.mark.parametrize("horizon", [4, None])
def test_learners_plan_with_the_known_kernel(horizon):
    mdp, _ = problem(3, [0.3, 0.3, 0.2], locks=True, horizon=horizon, discount=None if horizon else 0.8)
    length = {"episodes": 40} if horizon else {"steps": 200, "record_every": 20}
    for make in (cede.ucrl2_mc, cede.posterior_sampling, cede.recommended, cede.ucrl2):
        compiled, called = (cede.simulate(mdp, one, **length, seed=5) for one in (make(mdp.task), ByCalls(make(mdp.task))))
        np.testing.assert_array_equal(compiled.cost, called.cost)
        np.testing.assert_array_equal(compiled.control, called.control)
        np.testing.assert_allclose(compiled.expected_cost, called.expected_cost, rtol=1e-9)
    known = {agent.name: agent.policy for agent in mdp.team.agents}
    oracle = cede.simulate(mdp, cede.greedy(mdp.task, known_agents=known, known_environment=mdp.environment), **length)
    np.testing.assert_allclose(oracle.regret, 0.0, atol=1e-8)


def test_wide_sets_are_lower_bounds_and_certain_sets_are_exact():
    mdp, _ = problem(5, [0.5, 0.0, 0.5], horizon=4)
    learner = cede.ucrl2_mc(mdp.task)
    cede.simulate(mdp, learner, 20)
    assert learner.plan.value[0, 0, 0] < cede.solve(mdp).value[0, 0, 0]
    limits = cede.insight.bounds(learner)
    value = cede.evaluate(mdp, learner.plan)
    assert (limits.low <= value + 1e-9).all()
    assert (value <= limits.high + 1e-9).all()


def test_reasons_and_summaries_are_of_what_orders_lead_to():
    """With all tables known: each option is x + E v of the tables above, and planned shares are those of the true model."""
    for seed, locks in ((1, False), (3, True), (5, True)):
        mdp, _ = problem(seed, ANSWERS[seed], locks=locks)
        task = mdp.task
        known = {agent.name: agent.policy for agent in mdp.team.agents}
        learner = cede.greedy(task, known_agents=known, known_environment=mdp.environment)
        cost, go = tables_of(mdp)
        q = cost + np.einsum("spunm,nm->spu", go, learner.plan.value[1])
        for s, prev in np.ndindex(task.n_states, task.n_agents):
            why = cede.explain(learner, 0, s, prev)
            assert [option.index for option in why.options] == np.flatnonzero(np.isfinite(cost[s, prev])).tolist()
            np.testing.assert_allclose([option.plain for option in why.options], q[s, prev][np.isfinite(q[s, prev])], rtol=1e-9)
            called = len(task.roles.orders.outcomes(prev, why.chosen)) > 1
            assert called == (" is called" in why.text or " is waited for" in why.text)
        summary = cede.insight.summarise(learner)
        policy = learner.plan.policy.reshape(-1, task.n_states, task.n_agents)
        np.testing.assert_allclose(summary.planned, shares_of(mdp, policy), rtol=1e-9)


def test_it_survives_a_file_and_is_part_of_the_task(tmp_path):
    mdp, _ = problem(0, [0.3, 0.3, 0.2])
    learner = cede.ucrl2_mc(mdp.task)
    cede.simulate(mdp, learner, 5)
    learner.save(tmp_path / "a.cede")
    again = cede.load(tmp_path / "a.cede")
    assert again.task.modes == mdp.task.modes
    assert again.task.modes.chance
    np.testing.assert_array_equal(again.plan.policy, learner.plan.policy)
    other, _ = problem(0, [0.3, 0.3, 0.1])
    with pytest.raises(ValueError, match="the learner's modes"):
        cede.simulate(other, learner, 1)


@pytest.mark.parametrize(
    ("delay", "message"),
    [
        ([0.5, 0.6], r"takeover_delay is \[0.5, 0.6\], must be probabilities of 0, 1, 2, ... steps"),
        ([0.0, 0.0], "must be probabilities of 0, 1, 2, ... steps, of a sum above 0 and at most 1"),
        ([-0.1, 0.5], "must be probabilities"),
        ([0.5] * 2000, "the length of takeover_delay is 2000, must be from 1 to 1001"),
        ("soon", "takeover_delay is 'soon', must be an integer"),
    ],
)
def test_bad_distributions(delay, message):
    with pytest.raises(ValueError, match=message):
        cede.Agent("a", [[1.0]], takeover_delay=delay)


def test_the_own_policy_needs_a_certain_delay():
    with pytest.raises(ValueError, match="must be a number of steps where on_takeover is given"):
        cede.Agent("a", [[1.0]], takeover_delay=[0.5, 0.2], on_takeover=[[1.0]])
