"""Environments that vary with the time of an episode, told and learned."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import cede
from cede.planning.flatten import flatten
from problems import random_rows


def day(seed=0, horizon=6, periods=(0, 0, 0, 1, 1, 1)):
    """Morning and evening: what an action does is the other way round."""
    rng = np.random.default_rng(seed)
    tables = random_rows(rng, (max(periods) + 1, 3, 2, 3), sparse=0.2)
    environment = cede.Environment(tables, rng.random((3, 2)), [1, 0, 0], periods=periods)
    agents = [cede.Agent("a", [[0.9, 0.1]] * 3), cede.Agent("b", [[0.1, 0.9]] * 3, 0.05)]
    return cede.TwoLayerMDP(environment, cede.Team(agents, 0.05), horizon)


def test_all_forms_are_the_same():
    mdp = day()
    dense = mdp.environment.transition.toarray().reshape(2, 3, 2, 3)
    sparse = [sp.csr_array(table.reshape(6, 3)) for table in dense]
    for given in (dense, sparse, mdp.environment.transition):
        again = cede.Environment(given, mdp.environment.cost, [1, 0, 0], periods=[0, 0, 0, 1, 1, 1])
        assert (again.transition != mdp.environment.transition).nnz == 0
        assert again.n_actions == 2
    each = cede.Environment(dense[[0, 0, 0, 1, 1, 1]], mdp.environment.cost, [1, 0, 0], varies_with="time")
    other = replace(mdp, environment=each)
    np.testing.assert_allclose(cede.solve(other).value, cede.solve(mdp).value)
    assert mdp.task.periods.tolist() == [0, 0, 0, 1, 1, 1]
    assert other.task.n_periods == 6
    assert replace(mdp.environment).periods.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("make", [cede.posterior_sampling, cede.greedy, lambda task: cede.ucrl2_mc(task, scale=0.05)])
def test_it_is_learned_with_a_table_for_each_period(make, tmp_path):
    mdp = day()
    learner = make(mdp.task)
    history = cede.simulate(mdp, learner, 1500, progress=False)
    assert learner.counts.environment.shape == (2 * 3 * 2, 3)
    assert history.expected_cost[-1] == pytest.approx(history.optimum, abs=0.03)
    learner.save(tmp_path / "a.cede")
    np.testing.assert_array_equal(cede.load(tmp_path / "a.cede").plan.policy, learner.plan.policy)
    seen = learner.counts.environment.toarray().reshape(2, 6, 3)
    truth = mdp.environment.transition.toarray().reshape(2, 6, 3)
    often = seen.sum(axis=2) > 300
    np.testing.assert_allclose((seen / np.maximum(1, seen.sum(axis=2, keepdims=True)))[often], truth[often], atol=0.12)
    assert cede.explain(learner, 4, 0, 0).text
    assert cede.insight.summarise(learner).groups


def test_ucrl2_the_flattened_problem_and_known_environments():
    mdp = day(1)
    flat = flatten(mdp)
    np.testing.assert_allclose(cede.solve(flat).value, cede.solve(mdp).value, atol=1e-12)
    cede.simulate(mdp, cede.ucrl2(mdp.task, radius="same-form"), 30, progress=False)
    known = cede.ucrl2_mc(mdp.task, known_environment=mdp.environment, scale=0.01)
    assert cede.simulate(mdp, known, 400, progress=False).regret[-1] < 30
    with pytest.raises(ValueError, match="the periods of known_environment is others"):
        cede.ucrl2_mc(replace(mdp.task, periods=[0, 1, 1, 1, 1, 1]), known_environment=mdp.environment)
    declared = cede.Structure(environment=cede.Outcomes.of([[0, 1]] * 3, np.broadcast_to(np.arange(3), (3, 2, 3))))
    with pytest.raises(ValueError, match=r"structure\.environment is given, must be left out where the environment varies"):
        cede.ucrl2_mc(mdp.task, structure=declared)


def test_fleets_share_all_periods():
    mdps = [day(2)] * 3
    fleets = [cede.Fleet([cede.ucrl2_mc(mdp.task, seed=i) for i, mdp in enumerate(mdps)]) for _ in range(2)]
    one = cede.simulate_fleet(mdps, fleets[0], 5, jobs=1, progress=False)
    two = cede.simulate_fleet(mdps, fleets[1], 5, jobs=2, engine="processes", progress=False)
    np.testing.assert_array_equal(one.cost, two.cost)
    assert fleets[0].environment.sum() == 3 * 5 * 6
    with pytest.raises(ValueError, match="the periods of the learner"):
        fleets[0].add(cede.ucrl2_mc(replace(mdps[0].task, periods=None)))


def test_what_does_not_fit_is_refused():
    mdp = day()
    tables = mdp.environment.transition.toarray().reshape(2, 3, 2, 3)
    more = {"cost": np.zeros((3, 2)), "start": [1, 0, 0]}
    with pytest.raises(ValueError, match="Environment: the number of tables of transition is 2, must be 3, by periods"):
        cede.Environment(tables, **more, periods=[0, 1, 2])
    with pytest.raises(ValueError, match=r"numbers 0, 1, \.\.\. of which none is left out"):
        cede.Environment(tables[[0, 0, 1]], **more, periods=[0, 2, 2])
    with pytest.raises(ValueError, match="time steps of the environment's tables is 6, must be 5, the horizon"):
        replace(mdp, horizon=5)
    with pytest.raises(ValueError, match=r"periods is .* left out without a horizon"):
        replace(mdp, horizon=None)
    with pytest.raises(ValueError, match=r"the shape of periods is \(6,\), must be \(L,\) = \(4,\)"):
        cede.Task(np.zeros((2, 1)), ["a"], 4, periods=[0, 0, 0, 1, 1, 1])
