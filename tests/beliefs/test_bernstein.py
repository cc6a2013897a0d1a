"""Bernstein's intervals: the formula, the inner minimum against linear programming, the planner, and coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cede
from cede._kernels.vectors import BLOCK
from cede.beliefs.belief import Belief, holds
from cede.beliefs.intervals import least_in_intervals, rank
from cede.beliefs.truth import true_beliefs
from cede.planning.passes import set_threads
from cede.planning.planner import optimistic_plan
from problems import play, random_mdp, random_structured
from reference import bernstein_slow, least_mean_in_intervals_lp, plan_slow


def halves(p, width, linear):
    return np.sqrt(2 * p * (1 - p) * width) + linear * width


def minimum(counts, width, linear, values, *, closed):
    """The compiled inner minimum: of a row with all its outcomes, or of one that was seen only in part."""
    n, best = len(values), values.min()
    room = n + BLOCK
    u, p, heap, order = np.zeros(room), np.zeros(room), np.zeros(room, dtype=np.int64), np.zeros(n, dtype=np.int64)
    rank(values, n, order, heap)
    seen = np.zeros(n, dtype=np.int64)
    kept = np.arange(n) if closed else np.flatnonzero(counts)
    u[: len(kept)], p[: len(kept)], seen[kept] = values[kept] - best, counts[kept], 1
    others = 0 if closed else n
    found = least_in_intervals(u, p, len(kept), counts.sum(), width, linear, heap, others, values[order], best, order, seen, 1)
    return best + found


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    width=st.sampled_from([1e-4, 1e-3, 0.02, 0.1, 0.3]),
    linear=st.sampled_from([3, 30]),
)
@settings(max_examples=200, deadline=None)
def test_inner_minimum_is_the_linear_programme(seed, n, width, linear):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n) if seed % 2 else rng.integers(0, 4, size=n).astype(float)
    counts = rng.integers(0, 6, size=n) * (rng.random(n) < 0.6)
    counts[rng.integers(n)] += 1
    p = counts / counts.sum()
    half = halves(p, width, linear)
    expected = least_mean_in_intervals_lp(np.maximum(0, p - half), np.minimum(1, p + half), values)
    for closed in (True, False):  # what was never seen has the interval of p = 0, whether it is listed or not
        assert minimum(counts.astype(float), width, linear, values, closed=closed) == pytest.approx(expected, abs=1e-9)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 200))
@settings(max_examples=50, deadline=None)
def test_rank_sorts(seed, n):
    keys = np.random.default_rng(seed).integers(0, 20, size=n).astype(float)
    order, heap = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    rank(keys, n, order, heap)
    assert sorted(order) == list(range(n))
    assert (np.diff(keys[order]) >= 0).all()


def plan_in_intervals(task, low_high_agents, low_high_environment):
    """The slow planner with an interval programme for every row."""

    def least(row, _, values):
        low, high = row
        return least_mean_in_intervals_lp(low, high, values)

    by_agent = [
        {
            (c, s): low_high_agents[int(task.layout.slot[d]) + c, s]
            for c in range(task.layout.n_slots[d])
            for s in range(task.n_states)
        }
        for d in range(task.n_agents)
    ]
    nothing = [np.zeros((int(n), task.n_states)) for n in task.layout.n_slots]
    costs = (task.env_cost, task.control_cost, task.switch_cost, task.horizon, task.varies_with)
    widths = np.zeros((task.n_states, task.n_actions))
    return plan_slow(by_agent, nothing, low_high_environment, widths, *costs, least)


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1.0, 0.1, 0.02]))
@settings(max_examples=15, deadline=None)
def test_plans_are_exact(seed, scale):
    """A learner's plan against formula, linear programming and loops; both layers unknown."""
    mdp = random_mdp(seed)
    task = mdp.task
    learner = cede.ucrl2_mc(task, belief="bernstein", scale=scale, delta=0.2)
    for episode in play(mdp, 12, seed):
        learner.observe_episode(episode)
        learner.end_episode(replan=False)
    learner.replan()
    slots = int(task.layout.n_slots.sum())
    seen_a, seen_e = learner.counts.agents.toarray(), learner.counts.environment.toarray()
    agents = {
        (c, s): bernstein_slow(seen_a[c * task.n_states + s], slots * task.n_states, task.n_actions, 0.2, scale)
        for c in range(slots)
        for s in range(task.n_states)
    }
    environment = {
        (s, a): bernstein_slow(seen_e[s * task.n_actions + a], task.n_states * task.n_actions, task.n_states, 0.2, scale)
        for s in range(task.n_states)
        for a in range(task.n_actions)
    }
    value, q = plan_in_intervals(task, agents, environment)
    np.testing.assert_allclose(learner.plan.value, value, atol=1e-8)
    chosen = np.take_along_axis(q, learner.plan.policy[..., None].astype(int), axis=-1)[..., 0]
    np.testing.assert_allclose(chosen, value[:-1], atol=1e-8)


@given(seed=st.integers(0, 10**6), labels=st.booleans())
@settings(max_examples=15, deadline=None)
def test_plans_are_exact_with_structure(seed, labels):
    mdp = random_structured(seed, labels=labels)
    task, outcomes = mdp.task, mdp.structure.environment
    learner = cede.ucrl2_mc(task, belief="bernstein", structure=mdp.structure)
    cede.simulate(mdp, learner, 40, seed=seed, progress=False)
    learner.replan()
    slots, views = int(task.layout.n_slots.sum()), 2
    seen_a, seen_e = learner.counts.agents.toarray(), learner.counts.environment.toarray()
    agents = {}
    for d, name in enumerate(task.agents):
        look = mdp.structure.agents[name]
        for c in range(task.layout.n_slots[d]):
            slot = int(task.layout.slot[d]) + c
            for s in range(task.n_states):
                case = look[s] if labels else look.case[look.row[s]]
                meaning = np.arange(task.n_actions) if labels else look.to[look.row[s]]
                low, high = bernstein_slow(seen_a[views * slot + case], views * slots, task.n_actions, 0.1)
                order = np.argsort(meaning)
                agents[slot, s] = np.array(low)[order], np.array(high)[order]
    environment = {}
    for (s, a), row in np.ndenumerate(outcomes.row):
        case, to = outcomes.case[row], outcomes.states_from(s, a)
        low, high = bernstein_slow(seen_e[case, : len(to)], outcomes.n_cases, len(to), 0.1)
        all_low, all_high = np.zeros(task.n_states), np.zeros(task.n_states)
        all_low[to], all_high[to] = low, high
        environment[s, a] = all_low, all_high
    value, _ = plan_in_intervals(task, agents, environment)
    np.testing.assert_allclose(learner.plan.value, value, atol=1e-8)


def test_unseen_rows_say_nothing_at_any_scale():
    """Whether their outcomes are declared or not."""
    mdp = cede.worlds.riverswim([0.3, 0.7])
    own = cede.Outcomes.of(np.arange(12).reshape(6, 2), np.broadcast_to(np.arange(6), (6, 2, 6)))
    same = cede.Structure(environment=own)
    plain, cased = (cede.ucrl2_mc(mdp.task, belief="bernstein", scale=0.01, structure=s) for s in (None, same))
    np.testing.assert_allclose(plain.plan.value, cased.plan.value, atol=1e-12)
    assert all(holds(set_, truth) for set_, truth in zip(cased.beliefs, true_beliefs(mdp), strict=True))


def test_threads_give_the_same_bits():
    mdp = cede.worlds.lane_driving(switch_cost=0.1)
    plans = []
    for threads in (1, 3):
        before = set_threads(threads)
        learner = cede.ucrl2_mc(mdp.task, belief="bernstein", scale=0.2)
        cede.simulate(mdp, learner, 8, seed=1, progress=False)
        plans.append(learner.plan)
        set_threads(before)
    np.testing.assert_array_equal(plans[0].value, plans[1].value)
    np.testing.assert_array_equal(plans[0].policy, plans[1].policy)


def test_one_kind_for_each_layer():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    sets = {}
    for agents, environment in (("printed", "bernstein"), ("bernstein", "printed")):
        learner = cede.ucrl2_mc(mdp.task, belief={"agents": agents, "environment": environment})
        cede.simulate(mdp, learner, 20, seed=0, progress=False)
        sets[agents] = learner.beliefs
        assert learner.about["radius"] == f"{agents} (agents), {environment} (environment)"
    for layer in (0, 1):
        assert (sets["printed"][layer].linear == 0) == (layer == 0)
        assert (sets["bernstein"][layer].linear == 0) == (layer == 1)
    with pytest.raises(ValueError, match=r"ucrl2_mc: belief is \{'agents': 'printed'\}, must be one name, or one for 'agents'"):
        cede.ucrl2_mc(mdp.task, belief={"agents": "printed"})
    with pytest.raises(ValueError, match=r"ucrl2_mc: belief is 'l1', must be one of 'printed', 'bernstein'"):
        cede.ucrl2_mc(mdp.task, belief="l1")


def test_greedy_planning_stays_optimistic():
    mdp = cede.worlds.riverswim(agents=[0.2, 0.9])
    learner = cede.ucrl2_mc(mdp.task, belief="bernstein", planning="greedy")
    for seed in range(5):
        cede.simulate(mdp, learner, 200, seed=seed, progress=False)
        assert (learner.state.bounds <= cede.solve(mdp).value + 1e-9).all()


@pytest.mark.slow
def test_coverage():
    """With delta = 0.4 the truth may leave the sets in 4 of 10 runs. It does so far less often; and with a scale that promises
    nothing it does, so that the test can fail.
    """
    left = {1.0: 0, 0.05: 0}
    for scale in left:
        for seed in range(40):
            mdp = random_mdp(seed, n_states=4, n_actions=2, n_agents=2, horizon=4, kinds=[None])
            learner = cede.ucrl2_mc(mdp.task, belief="bernstein", delta=0.4, scale=scale, seed=seed)
            outside = False
            for part in range(10):
                cede.simulate(mdp, learner, 5 + 10 * part, seed=part, progress=False)
                outside = outside or not all(
                    holds(set_, truth) for set_, truth in zip(learner.beliefs, true_beliefs(mdp), strict=True)
                )
            left[scale] += outside
    assert left[1.0] <= 4
    assert left[0.05] >= 20


def test_one_interval_holds_as_often_as_promised():
    """3 exp(-x) for one mean: binomial counts, drawn many times."""
    rng = np.random.default_rng(0)
    for p, n, x in ((0.02, 50, 1.5), (0.3, 20, 1.5), (0.5, 400, 2.0), (0.9, 5, 1.2)):
        frequency = rng.binomial(n, p, size=200_000) / n
        outside = np.abs(frequency - p) > halves(frequency, x / n, 3.0)
        assert outside.mean() <= 3 * np.exp(-x)


def test_learns_faster_than_the_printed_radii():
    mdp = cede.worlds.riverswim(agents=[0.1, 0.9])
    regret = {}
    for belief in ("printed", "bernstein"):
        history = cede.simulate(mdp, cede.ucrl2_mc(mdp.task, belief=belief), 1500, seed=0, progress=False)
        regret[belief] = history.regret[-1]
    assert regret["bernstein"] < regret["printed"]


def test_a_belief_with_intervals_by_hand():
    """The public planner takes such beliefs: centre and width are data."""
    mdp = random_mdp(3, n_states=3, n_actions=2, n_agents=2, horizon=2, kinds=[None])
    rng = np.random.default_rng(0)
    agents, environment = true_beliefs(mdp)
    wide = Belief(environment.centre, rng.random(environment.centre.n_rows) * 0.05, environment.row, linear=3.0)
    plan = optimistic_plan(mdp.task, agents, wide)
    rows = mdp.environment.transition.toarray()
    width = wide.width[environment.row].ravel()
    half = halves(rows, width[:, None], 3.0)
    boxes = {
        (s, a): (np.maximum(0, rows[2 * s + a] - half[2 * s + a]), np.minimum(1, rows[2 * s + a] + half[2 * s + a]))
        for s in range(3)
        for a in range(2)
    }
    exact = {(d, s): (agent.policy[s], agent.policy[s]) for d, agent in enumerate(mdp.team.agents) for s in range(3)}
    value, _ = plan_in_intervals(mdp.task, exact, boxes)
    np.testing.assert_allclose(plan.value, value, atol=1e-8)
