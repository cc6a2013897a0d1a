"""Balls of relative entropy: the inner minimum, the radius, whole plans, coverage, optimism."""

import math
from itertools import combinations

import numpy as np
import pytest
from numba import njit
from scipy.optimize import minimize, minimize_scalar
from scipy.special import comb, gammaln

import cede
from cede._kernels.tables import Table
from cede._kernels.vectors import BLOCK
from cede.beliefs.belief import Belief, holds
from cede.beliefs.kl import least_in_kl_ball, log_sum_over_supports, sums_of_blocks, surprise
from cede.beliefs.l1 import FEW
from cede.beliefs.truth import true_beliefs
from cede.planning.planner import optimistic_plan
from problems import random_mdp


def least(u, p, rho):
    """The kernel, with rows padded as it wants them."""
    more = 0 if len(u) <= FEW else -len(u) % BLOCK
    u, p = np.append(u, np.zeros(more)), np.append(p, np.zeros(more))
    return least_in_kl_ball(u, p, len(u), p.sum(), rho)


def slow_least(u, p, rho):
    """The same by a search over x on a fine grid, for u >= 0 of which one that is 0 is possible."""
    q = p / p.sum()

    def minus(y):
        x = math.exp(y)
        return -x * math.expm1((q * np.log1p(u / x)).sum() - rho)

    grid = np.linspace(-40, 40, 2001)
    at = int(np.argmin([minus(y) for y in grid]))
    found = minimize_scalar(minus, bounds=(grid[max(at - 1, 0)], grid[min(at + 1, 2000)]), options={"xatol": 1e-12})
    best = max(0.0, -found.fun, -minus(grid[at]))
    seen = q > 0
    return max(best, math.exp((q[seen] * np.log(u[seen])).sum() - rho)) if (u[seen] > 0).all() else best


def random_row(rng, most=40):
    n = int(rng.integers(1, most))
    u = rng.exponential(size=n) * 10.0 ** rng.integers(-6, 6)
    if rng.random() < 0.7:
        u[rng.integers(n)] = 0.0
    p = rng.integers(0, 20, n).astype(float)
    p[rng.integers(n)] += 1.0
    return u, p, 10.0 ** rng.uniform(-6, 1.3)


def test_the_minimum_against_a_slow_search():
    rng = np.random.default_rng(0)
    for _ in range(200):
        u, p, rho = random_row(rng)
        mean = (p * u).sum() / p.sum()
        assert abs(least(u, p, rho) - slow_least(u, p, rho)) <= 1e-9 * mean


def test_the_minimum_against_a_solver_of_convex_problems():
    """SLSQP knows nothing of the dual: it moves the probabilities themselves."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        n = int(rng.integers(2, 6))
        u = np.append(0.0, rng.random(n))
        q = rng.dirichlet(np.ones(n + 1))
        rho = 10.0 ** rng.uniform(-2, 0.3)
        ball = {"type": "ineq", "fun": lambda p, q=q, rho=rho: rho - (q * np.log(q / p)).sum(), "jac": lambda p, q=q: q / p}
        one = {"type": "eq", "fun": lambda p: p.sum() - 1.0, "jac": np.ones_like}
        given = {"jac": lambda p, u=u: u, "bounds": [(1e-9, 1.0)] * (n + 1), "constraints": [ball, one], "method": "SLSQP"}
        found = minimize(lambda p, u=u: p @ u, q, **given, options={"ftol": 1e-14, "maxiter": 1000})
        assert least(u, q, rho) == pytest.approx(found.fun, abs=1e-6)


def test_the_unit_does_not_matter():
    rng = np.random.default_rng(2)
    for _ in range(50):
        u, p, rho = random_row(rng)
        for unit in (1e-9, 2.0**30, 1e12):
            assert least(unit * u, p, rho) == pytest.approx(unit * least(u, p, rho), rel=1e-9)


def test_the_logarithm_in_vector_registers():
    """sum p log z for a row of which one element counts is log z itself."""
    compiled = njit(lambda u, p, n, x: sums_of_blocks(u, p, n, x))  # noqa: PLW0108 (an intrinsic is no function)
    p, rng = np.zeros(BLOCK), np.random.default_rng(3)
    p[5] = 1.0
    for u in [*(10.0 ** rng.uniform(-12, 12, 300)), 0.0, 1.0]:
        logs, inverse, squares = compiled(np.full(BLOCK, u), p, BLOCK, 1.0)
        z = 1.0 / (1.0 + u)
        assert logs == pytest.approx(math.log(z), rel=5e-16, abs=1e-300)
        assert (inverse, squares) == (z, z * z)


# ------------------------------------------------------------------------------------------------- radius


def likelihood_by_brute_force(counts, m):
    """m(N): for every support that holds what was seen, its weight times the Krichevsky-Trofimov likelihood."""
    seen = {i for i, n in enumerate(counts) if n}
    total = 0.0
    for j in range(1, m + 1):
        for support in combinations(range(m), j):
            if seen <= set(support):
                weight = 1.0 / (j * (j + 1)) / comb(m, j)
                log_kt = gammaln(j / 2) - gammaln(j / 2 + sum(counts))
                log_kt += sum(gammaln(counts[i] + 0.5) - gammaln(0.5) for i in seen)
                total += weight * math.exp(log_kt)
    return total


@pytest.mark.parametrize("counts", [(1, 0, 0, 0), (3, 1, 0, 0, 0, 0), (2, 2, 2), (40, 0, 1, 0, 0, 0, 0), (1, 1, 1, 1, 1)])
def test_surprise_against_brute_force(counts):
    table = Table.of(np.array([counts], dtype=float))
    n, counts = sum(counts), list(counts)
    entropy = -sum(c / n * math.log(c / n) for c in counts if c)
    wanted = -math.log(likelihood_by_brute_force(counts, len(counts))) - n * entropy
    assert surprise(table, 0, float(len(counts))) == pytest.approx(wanted, abs=2e-5)
    assert surprise(table, 0, float(len(counts))) >= wanted - 1e-12  # what is left out makes it larger


@pytest.mark.parametrize("counts", [(1e308, 1.0), (1e200, 1e200, 3.0), (1e-9, 1e-9), (1e15, 0.0, 1.0)], ids=str)
def test_counts_that_only_a_forged_file_has(counts):
    """A radius stays a number of at least 0 (found by the hunt)."""
    assert 0.0 <= surprise(Table.of(np.array([counts])), 0, 5.0) < np.inf


def test_many_outcomes():
    rng = np.random.default_rng(4)
    for _ in range(100):
        m = int(rng.integers(1, 1500))
        k = int(rng.integers(1, min(m, 200) + 1))
        n = float(k + rng.integers(0, 1000))
        j = np.arange(k, m + 1)
        choose = gammaln(m - k + 1) - gammaln(j - k + 1) + gammaln(j + 1) - gammaln(m + 1)
        terms = choose - np.log(j) - np.log(j + 1) + gammaln(j / 2) - gammaln(j / 2 + n)
        exact = np.logaddexp.reduce(terms)
        assert exact - 1e-3 <= log_sum_over_supports(n, k, float(m)) <= exact + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("truth", [(0.5, 0.5), (0.97, 0.02, 0.01), (1.0, 0.0, 0.0, 0.0), (0.2,) * 5], ids=str)
def test_a_row_leaves_its_ball_at_any_time_with_probability_delta_at_most(truth):
    """One row, so that the union over rows and layers costs nothing: n KL <= log(1 / delta) + surprise for all n."""
    truth, delta, repeats, visits, left = np.array(truth), 0.1, 200, 200, 0
    rng = np.random.default_rng(5)
    for _ in range(repeats):
        counts = np.zeros(len(truth))
        for outcome in rng.choice(len(truth), size=visits, p=truth):
            counts[outcome] += 1.0
            n, seen = counts.sum(), counts > 0
            apart = (counts[seen] * np.log(counts[seen] / n / truth[seen])).sum()
            if apart > math.log(1 / delta) + surprise(Table.of(counts[None]), 0, float(len(truth))):
                left += 1
                break
    assert left <= delta * repeats


# ------------------------------------------------------------------------------------------------- plans


def slow_plan(mdp, agents, environment):
    """Theorem 1 with balls of relative entropy, one minimum after the other. agents, environment: (counts, widths)."""
    task = mdp.task
    value = np.zeros((task.n_states, task.n_agents))

    def inner(counts, width, v):
        best, seen = v.min(), counts if counts.sum() else np.ones_like(counts)  # what was never seen counts as uniform
        return best if width > 700 else best + slow_least(v - best, seen, width)

    for _ in range(task.horizon):
        after, value = value, np.empty_like(value)
        for s in range(task.n_states):
            q = np.empty(task.n_agents)
            for d in range(task.n_agents):
                y = [task.env_cost[s, a] + inner(*(x[s, a] for x in environment), after[:, d]) for a in range(task.n_actions)]
                q[d] = inner(*(x[d, s] for x in agents), np.array(y)) + task.control_cost[d]
            for prev in range(task.n_agents):
                value[s, prev] = (q + task.switch_cost[prev]).min()
    return value


@pytest.mark.parametrize("seed", range(4))
def test_plans_against_a_slow_twin(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(seed, n_states=4, n_actions=3, n_agents=2, horizon=3, kinds=[None, None])
    task = mdp.task
    agents = rng.integers(0, 6, (2, 4, 3)).astype(float), rng.uniform(0.01, 2.0, (2, 4))
    environment = rng.integers(0, 6, (4, 3, 4)).astype(float), rng.uniform(0.01, 2.0, (4, 3))
    for counts, widths in (agents, environment):  # some rows were never seen, and of some of these nothing is known
        counts[rng.random(widths.shape) < 0.3] = 0.0
        widths[(counts.sum(axis=-1) == 0) & (rng.random(widths.shape) < 0.5)] = 1e300
    beliefs = []
    for (counts, widths), places in ((agents, (2, 4)), (environment, (4, 3))):
        ball = Belief.of(counts.reshape(-1, counts.shape[-1]), 0.0, places)
        beliefs.append(Belief(ball.centre, widths.ravel(), ball.row, kl=True))
    plan = optimistic_plan(task, *beliefs)
    np.testing.assert_allclose(plan.value[0], slow_plan(mdp, agents, environment), rtol=1e-7, atol=1e-9)


def test_a_belief_is_one_kind_of_set():
    ball = Belief.of(np.ones((4, 2)), 0.5, (2, 2))
    with pytest.raises(ValueError, match=r"Belief: linear is 3\.0, must be 0 with kl"):
        Belief(ball.centre, ball.width, ball.row, 3.0, kl=True)
    np.testing.assert_allclose(Belief(ball.centre, ball.width, ball.row, kl=True).distances, 1.0)  # sqrt(2 * 0.5), by Pinsker


@pytest.mark.parametrize("belief", ["kl", "kl-value", {"agents": "kl", "environment": "printed"}], ids=str)
@pytest.mark.parametrize("structured", [False, True])
def test_optimism_and_the_truth_in_its_sets(belief, structured):
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, belief=belief, structure=mdp.structure if structured else None)
    best = cede.solve(mdp).value
    for look in range(10):
        cede.simulate(mdp, learner, 30, seed=look, progress=False)
        assert (learner.plan.value <= best + 1e-9).all()
        if belief != "kl-value":
            assert all(holds(mine, true) for mine, true in zip(learner.beliefs, true_beliefs(mdp), strict=True))


def test_sets_that_hold_the_truth_bound_costs_and_others_do_not():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, belief="kl")
    cede.simulate(mdp, learner, 200, seed=0, progress=False)
    low, high = cede.insight.bounds(learner).of_episode(mdp.environment.start)
    assert low <= cede.expected_cost(mdp, learner.plan) <= high
    assert high - low < 5.0  # of 20
    optimist = cede.ucrl2_mc(mdp.task, belief="kl-value")
    cede.simulate(mdp, optimist, 20, seed=0, progress=False)
    with pytest.raises(ValueError, match="bounds: learner is ucrl2_mc, with sets for optimism only, must be one with sets"):
        cede.insight.bounds(optimist)
    assert cede.insight.summarise(optimist).groups[0].cost is None
    assert not cede.explain(optimist, 0, 0, 0).bounded


def test_scale_0_is_greedy():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    runs = [
        cede.simulate(mdp, one, 60, seed=1, progress=False)
        for one in (cede.ucrl2_mc(mdp.task, belief="kl", scale=0.0), cede.greedy(mdp.task))
    ]
    np.testing.assert_array_equal(runs[0].cost, runs[1].cost)


def test_greedy_planning_and_full_plans_agree_at_first():
    """Before anything is seen all sets say nothing, whatever their form."""
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learners = [cede.ucrl2_mc(mdp.task, belief="kl", planning=planning) for planning in ("full", "greedy")]
    np.testing.assert_allclose(learners[0].plan.value, learners[1].plan.value)
    history = cede.simulate(mdp, learners[1], 300, seed=0, progress=False)
    assert history.regret[-1] < 60
