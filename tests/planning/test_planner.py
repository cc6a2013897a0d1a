"""The planner against linear programming, brute force, Monte Carlo and a transcription of the appendix."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cede
from cede._kernels.vectors import BLOCK, FEW
from cede.beliefs.belief import Belief
from cede.beliefs.l1 import least_sum
from cede.beliefs.truth import true_beliefs
from cede.planning.flatten import flatten
from cede.planning.planner import optimistic_plan
from problems import play, random_mdp, random_rows
from reference import all_policies, evaluate_slow, least_mean_evi, least_mean_lp, plan_slow

EXACT = 1e-9


def minimum(centre, width, values, guess=0.0):
    """The compiled inner minimum of one row."""
    best = values.min()
    u, p = np.zeros(len(values) + BLOCK), np.zeros(len(values) + BLOCK)
    u[: len(values)], p[: len(values)] = values - best, centre
    short = len(values) <= FEW
    n = len(values) if short else -(-len(values) // BLOCK) * BLOCK
    found, theta, _ = least_sum(u, p, n, 0.5 * width * centre.sum(), guess)
    return best + found / centre.sum(), theta


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), width=st.sampled_from([0.0, 1e-3, 0.1, 0.5, 1.0, 1.7, 1.999]))
@settings(max_examples=150, deadline=None)
def test_inner_minimum_is_the_linear_programme(seed, n, width):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n) if seed % 2 else rng.integers(0, 4, size=n).astype(float)
    centre = random_rows(rng, (1, n))[0]
    found, theta = minimum(centre, width, values)
    assert found == pytest.approx(least_mean_lp(centre, width, values), abs=EXACT)
    assert found == pytest.approx(least_mean_evi(centre, width, values), abs=EXACT)
    for guess in (*(values - values.min()), 0.123, 1e9):  # where the search begins changes no bit
        assert minimum(centre, width, values, guess) == (found, theta)


def test_inner_minimum_does_not_depend_on_the_guess():
    """Weights that round, budgets at sums of them: every first guess leads to the same bits."""
    rng = np.random.default_rng(4)
    for _ in range(300):
        n = int(rng.integers(2, 30))
        centre = rng.random(n)
        centre /= centre.sum()
        values = rng.integers(0, 9, n) / 7
        order = np.argsort(-values)
        width = 2 * float(centre[order][: int(rng.integers(1, n))].sum())  # the budget runs out between two outcomes
        if width < 2:
            found = minimum(centre, width, values)
            assert all(minimum(centre, width, values, guess) == found for guess in values - values.min())


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_inner_minimum_with_counts_of_very_different_size(seed):
    rng = np.random.default_rng(seed)
    counts = np.ceil(10.0 ** rng.uniform(0, 7, size=12))
    values = rng.normal(size=12) * 10.0 ** rng.integers(-3, 4)
    width = float(rng.choice([1e-6, 1e-3, 0.2, 1.2]))
    found, _ = minimum(counts, width, values)
    expected = least_mean_evi(counts / counts.sum(), width, values)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-10 * np.abs(values).max())


@pytest.mark.parametrize(
    ("values", "centre", "width"),
    [((1, 3, 0, 2), (0.1, 0.3, 0.4, 0.2), 1.2), ((1, 3, 0, 2), (0.2, 0.4, 0.1, 0.3), 1.4), ((0, 1), (0.5, 0.5), 1.0)],
)
def test_inner_minimum_ends_where_weights_round_against_it(values, centre, width):
    """Sums of probabilities that round to either side of the budget: no outcome fits exactly, the search must end all the same."""
    values, centre = np.array(values, dtype=float), np.array(centre)
    for order in (np.arange(len(values)), np.arange(len(values))[::-1]):
        assert minimum(centre[order], width, values[order])[0] == pytest.approx(least_mean_lp(centre, width, values), abs=1e-12)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_inner_minimum_with_round_probabilities(seed):
    """Probabilities in tenths and widths in fifths: the budget often runs out between two outcomes."""
    rng = np.random.default_rng(seed)
    centre = rng.multinomial(10, np.ones(5) / 5) / 10
    values, width = rng.permutation(5).astype(float), float(rng.integers(1, 10)) / 5
    assert minimum(centre, width, values)[0] == pytest.approx(least_mean_evi(centre, width, values), abs=1e-12)


def test_the_papers_closed_form_loses_mass_and_ours_does_not():
    """NOTES, trap 1: for b = (.7, .2, .1), d = .1 the printed lemma sums to .95."""
    values, centre = np.array([0.0, 1.0, 10.0]), np.array([0.7, 0.2, 0.1])
    assert minimum(centre, 0.1, values)[0] == pytest.approx(0.75 * 0 + 0.2 * 1 + 0.05 * 10, abs=1e-15)


def random_beliefs(mdp, seed):
    """Beliefs with unvisited rows, width 0, widths beyond 2 and everything between; and the same as dense arrays."""
    rng = np.random.default_rng(seed)
    task = mdp.task
    slots = int(task.layout.n_slots.sum())

    def layer(rows, columns):
        counts = rng.integers(0, 4, size=(rows, columns)).astype(float)
        counts[rng.random(rows) < 0.25] = 0.0
        width = rng.choice([0.0, 0.05, 0.4, 1.1, 1.9, 2.0, 5.0], size=rows)
        total = counts.sum(axis=1, keepdims=True)
        centre = np.where(total > 0, counts / np.maximum(total, 1), 1 / columns)
        return sp.csr_array(counts), width, centre

    counts_a, width_a, centre_a = layer(slots * task.n_states, task.n_actions)
    counts_e, width_e, centre_e = layer(task.n_states * task.n_actions, task.n_states)
    beliefs = (
        Belief.of(counts_a, width_a, (slots, task.n_states)),
        Belief.of(counts_e, width_e, (task.n_states, task.n_actions)),
    )
    by_agent = [slice(task.layout.slot[d], task.layout.slot[d] + task.layout.n_slots[d]) for d in range(task.n_agents)]
    centre_a, width_a = centre_a.reshape(slots, task.n_states, -1), width_a.reshape(slots, task.n_states)
    dense = (
        [centre_a[part] for part in by_agent],
        [width_a[part] for part in by_agent],
        centre_e.reshape(task.n_states, task.n_actions, -1),
        width_e.reshape(task.n_states, task.n_actions),
    )
    return beliefs, dense


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), rounded=st.booleans(), sparse_input=st.booleans())
@settings(max_examples=110, deadline=None)
@example(seed=3, rounded=True, sparse_input=True)
def test_planner_against_linear_programming(seed, rounded, sparse_input):
    """Theorem 1 with both inner minima solved by linprog: D from 1 to 4, every kind of agent, asymmetric switching costs."""
    mdp = random_mdp(seed, n_states=1 + seed % 4, horizon=1 + seed % 3, rounded=rounded, sparse_input=sparse_input)
    task = mdp.task
    (agents, environment), dense = random_beliefs(mdp, seed)
    plan = optimistic_plan(task, agents, environment, seed=seed)
    costs = (task.env_cost, task.control_cost, task.switch_cost, task.horizon, task.varies_with)
    value, q = plan_slow(*dense, *costs, least_mean_lp)
    np.testing.assert_allclose(plan.value, value, atol=EXACT, rtol=0)
    chosen = np.take_along_axis(q, plan.policy[..., None].astype(int), axis=-1)[..., 0]
    np.testing.assert_allclose(chosen, value[:-1], atol=EXACT, rtol=0)


@pytest.mark.parametrize("seed", range(30))
def test_solve_and_evaluate_against_loops(seed):
    mdp = random_mdp(seed, sparse_input=bool(seed % 2))
    rng = np.random.default_rng(seed)
    policy = rng.integers(mdp.task.n_agents, size=(mdp.horizon, mdp.task.n_states, mdp.task.n_agents))
    np.testing.assert_allclose(cede.evaluate(mdp, policy), evaluate_slow(mdp, policy), atol=1e-12)
    plan = cede.solve(mdp)
    np.testing.assert_allclose(cede.evaluate(mdp, plan.policy), plan.value, atol=1e-12)
    assert (plan.value <= cede.evaluate(mdp, policy) + 1e-12).all()


@pytest.mark.parametrize("seed", range(8))
def test_solve_against_all_switching_policies(seed):
    mdp = random_mdp(seed, n_states=2, n_agents=2, horizon=2, n_actions=2)
    costs = [cede.expected_cost(mdp, policy) for policy in all_policies(2, 2, 2)]
    assert cede.expected_cost(mdp, cede.solve(mdp).policy) == pytest.approx(min(costs), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_solve_against_monte_carlo(seed):
    mdp = random_mdp(seed, n_states=4, n_agents=3, horizon=4)
    plan = cede.solve(mdp)
    rng = np.random.default_rng(seed)
    costs = np.array([cede.rollout(mdp, plan, rng).cost for _ in range(20_000)])
    error = costs.std() / np.sqrt(len(costs))
    assert abs(costs.mean() - cede.expected_cost(mdp, plan.policy)) < 4.5 * error + 1e-12


@pytest.mark.parametrize("seed", range(30))
def test_flattened_problem_is_the_same_problem(seed):
    mdp = random_mdp(seed)
    np.testing.assert_allclose(cede.solve(flatten(mdp)).value, cede.solve(mdp).value, atol=1e-12)


def extended_value_iteration(centre, width, cost, horizon):
    """Algorithm 3 of the appendix on an ordinary problem with states (s, prev) and actions d, next state (s', d)."""
    n_states, n_agents, _ = cost.shape
    value = np.zeros((horizon + 1, n_states, n_agents))
    for t in reversed(range(horizon)):
        for s in range(n_states):
            future = [least_mean_evi(centre[s, d], width[s, d], value[t + 1, :, d]) for d in range(n_agents)]
            for prev in range(n_agents):
                value[t, s, prev] = min(cost[s, prev, d] + future[d] for d in range(n_agents))
    return value


@pytest.mark.parametrize("radius", ["appendix", "same-form"])
@pytest.mark.parametrize("seed", range(10))
def test_ucrl2_against_a_transcription_of_the_appendix(seed, radius):
    """Algorithms 2 and 3: counts, empirical table, beta_k, extended value iteration."""
    mdp = random_mdp(seed, kinds=[None], n_states=4, n_agents=3, n_actions=2, horizon=3)
    env = mdp.environment
    mdp = cede.TwoLayerMDP(
        cede.Environment(env.transition, env.cost[:, 0], env.start), mdp.team, mdp.horizon, mdp.start_agent
    )  # a cost that depends on the state alone, as the appendix assumes
    task, delta, scale = mdp.task, 0.1, 0.2
    learner = cede.ucrl2(task, radius=radius, delta=delta, scale=scale)
    n = np.zeros((task.n_states, task.n_agents, task.n_states))
    for episode in play(mdp, 30, seed):
        learner.observe_episode(episode)
        learner.end_episode(replan=False)
        np.add.at(n, (episode.states[:-1], episode.agents, episode.states[1:]), 1)
    learner.replan()
    k, rows = 31, task.n_states * task.n_agents
    total = n.sum(axis=2)
    centre = np.where(total[..., None] > 0, n / np.maximum(total, 1)[..., None], 1 / task.n_states)
    t_k = (k - 1) * task.horizon
    if radius == "appendix":
        beta = np.sqrt(14 * task.n_states * np.log(2 * t_k * rows / delta) / np.maximum(1, total))
    else:
        beta = np.sqrt(2 * np.log(t_k**7.0 * rows * 2.0 ** (task.n_states + 1) / delta) / np.maximum(1, total))
    cost = task.env_cost[:, :1, None] + task.control_cost + task.switch_cost[None]
    value = extended_value_iteration(centre, scale * beta, cost, task.horizon)
    np.testing.assert_allclose(learner.plan.value, value, atol=1e-10)


def test_ties_go_to_a_random_agent_that_the_seed_decides():
    mdp = cede.worlds.riverswim(agents=[0.5, 0.5, 0.5])
    plans = [cede.solve(mdp, seed=seed).policy for seed in (1, 1, 2)]
    assert (plans[0] == plans[1]).all()
    assert (plans[0] != plans[2]).any()
    shares = np.bincount(plans[0].ravel(), minlength=3) / plans[0].size
    assert (np.abs(shares - 1 / 3) < 0.15).all()


def test_optimistic_plan_needs_beliefs_that_fit():
    mdp = cede.worlds.riverswim()
    other = cede.worlds.riverswim(agents=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="optimistic_plan: the places and outcomes of agents"):
        optimistic_plan(mdp.task, true_beliefs(other)[0], true_beliefs(mdp)[1])
