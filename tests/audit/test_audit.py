"""The audit in small: some problems of fixed seeds, and the reference against linear and convex programming."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from audit.averages import best_average
from audit.compare import compare
from audit.features import PAIRS, features_of
from audit.generate import problem
from audit.limits import best_within
from audit.problems import Script
from audit.reference import best, cost_of, model_of, scale_of, start_value
from audit.sets import least_by_programme, least_interval, least_kl, least_l1
from audit.shrink import shrink


def found_in(seed, numbers, *, keep):
    return [
        (number, found.kind, found.what) for number in numbers if keep(one := problem(seed, number)) for found in compare(one).found
    ]


def test_problems_with_a_horizon():
    assert found_in(1, range(80), keep=lambda one: "finite" in one.features) == []


def test_problems_with_a_horizon_and_a_discount():
    assert found_in(2, range(80), keep=lambda one: "finite discounted" in one.features) == []


def test_problems_without_a_horizon():
    assert found_in(2, range(60), keep=lambda one: one.endless) == []


def test_every_pair_of_features_comes_often_enough_in_an_hour():
    met = Counter(pair for i in range(8000) for pair in combinations(sorted(features_of(7, i)), 2))
    assert min(met[tuple(sorted(pair))] for pair in PAIRS) >= 20


def test_a_problem_follows_from_seed_and_number():
    one, other = problem(3, 17), problem(3, 17)
    assert one.source() == other.source()
    assert compare(one).compared == compare(other).compared


@pytest.mark.parametrize("kind", ["l1", "interval"])
def test_least_means_against_linear_programming(kind):
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(1, 5))
        q, v, width = rng.dirichlet(np.ones(n)), rng.normal(size=n), np.array([rng.random() ** 3])
        p = least_l1(q[None], width, v[None]) if kind == "l1" else least_interval(q[None], width, v[None], 1.0)
        assert p[0] @ v == pytest.approx(least_by_programme(q, width[0], v, kind), abs=1e-9)


def test_least_means_over_balls_of_relative_entropy_against_a_convex_solver():
    rng = np.random.default_rng(1)
    for _ in range(30):
        n = int(rng.integers(2, 5))
        q, v, rho = rng.dirichlet(np.ones(n)) * (rng.random(n) > 0.3), rng.normal(size=n), rng.random() ** 2 + 1e-3
        if q.sum() == 0:
            continue
        q = q / q.sum()
        p = least_kl(q[None], np.array([rho]), v[None])[0]

        def apart(x, q=q):
            return np.sum(np.where(q > 0, q * np.log(np.maximum(q, 1e-300) / np.maximum(x, 1e-12)), 0.0))

        assert apart(p) <= rho + 1e-9
        limits = [
            {"type": "eq", "fun": lambda x: x.sum() - 1},
            {"type": "ineq", "fun": lambda x, rho=rho, apart=apart: rho - apart(x)},
        ]
        start = 0.99 * q + 0.01 / n
        solved = minimize(
            lambda x, v=v: x @ v, start, bounds=[(0, 1)] * n, constraints=limits, options={"ftol": 1e-12, "maxiter": 500}
        )
        assert p @ v <= solved.fun + 1e-6 or not solved.success


def test_best_policies_against_linear_programming():
    tried = 0
    for number in range(120):
        one = problem(5, number)
        model = model_of(one)
        if one.averages:
            value, _ = best_average(model)
            from audit.averages import end_components

            if end_components(model) > 1:
                continue
        else:
            value, _ = best(model)
        wanted = best_within(model, {}, {})
        assert wanted == pytest.approx(start_value(model, value), abs=1e-6 * scale_of(model))
        tried += 1
    assert tried > 80


def test_a_wrong_answer_is_found_and_shrunk(monkeypatch):
    import cede

    right = cede.evaluate
    monkeypatch.setattr(cede, "evaluate", lambda mdp, policy: right(mdp, policy) * (1 + 1e-6))
    one = next(one for i in range(400) if (one := problem(1, i)).features >= {"finite", "six agents"} and one.n_states > 2)
    found = next(found for found in compare(one, ("known",)).found if found.kind == "evaluate")
    smaller, shown = shrink(one, "evaluate", "known", seconds=60)
    assert (smaller.n_states, smaller.n_members, smaller.horizon) == (1, 1, 1)
    assert len(shown.snippet) < len(found.snippet)
    exec(shown.snippet, {})


def test_costs_of_policies_against_playing_them():
    """The reference's own value against a mean over many episodes: what it thinks a step costs is what cede.rollout charges."""
    one = next(
        one for i in range(400) if (one := problem(1, i)).features >= {"finite", "ends", "arrival costs", "take-over delays"}
    )
    script, model = Script(one), model_of(one)
    script.run("plan = cede.solve(mdp)")
    costs = [script.get(f"cede.rollout(mdp, plan, seed={i})").cost for i in range(2000)]
    mean, error = np.mean(costs), np.std(costs) / np.sqrt(len(costs))
    left = cost_of(model, script.get("plan.policy"))[1]
    assert abs(mean - left) < 5 * error + 1e-9 * scale_of(model)
