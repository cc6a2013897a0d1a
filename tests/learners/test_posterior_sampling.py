"""Posterior sampling: the draws against their laws, plans against the sampled truth, sharing, repeating."""

import numpy as np
import pytest
from scipy import stats

import cede
from cede._kernels.random_streams import next_log_gamma, stream_at, tie_seed
from cede.learners.arrays import load_counts, new_arrays
from cede.learners.compiled import believe
from cede.learners.state import Sizes
from cede.planning.planner import optimistic_plan
from problems import play, random_mdp, random_structured

FAIR = 1e-4  # p-value below which a test of a law fails


@pytest.mark.parametrize("shape", [1 / 200, 0.2, 1.0, 3.7, 5000.0])
def test_gamma_numbers(shape):
    found = np.array([next_log_gamma(np.uint64(stream_at(7, place)), shape)[1] for place in range(4000)])
    assert np.isfinite(found).all()
    # Of small shapes most numbers are 0 for a float: compare logarithms, whose law follows by U = F(g)
    law = stats.loggamma(shape)
    assert stats.kstest(found, law.cdf).pvalue > FAIR


def tables(learner, n):
    """n sampled environments and agents, as arrays (n, rows, columns), from the same counts."""
    arrays, result = (
        new_arrays(sizes := Sizes(learner.task, learner.settings), load_counts(sizes, learner.state, None)),
        ([], []),
    )
    for seed in range(n):
        believe(arrays, seed)
        tables = (arrays.agents.belief.table, arrays.environment.belief.table)
        for rows, layer, columns in zip(result, tables, learner.counts_columns, strict=True):
            dense = np.zeros((layer.start.size, columns))
            for r in range(layer.start.size):
                part = slice(layer.start[r], layer.start[r] + layer.size[r])
                np.add.at(dense[r], layer.column[part], layer.weight[part] / layer.total[r])
            rows.append(dense)
    return [np.array(rows) for rows in result]


@pytest.mark.parametrize(("prior", "n_states"), [(1.0, 5), (6.0, 5), (300.0, 5), (1.0, 41), (3.0, 80)])
def test_rows_follow_their_dirichlet_posterior(prior, n_states):
    """Every marginal is a beta law: of seen and of unseen outcomes, of rows never visited, of agents and environment. With few
    states all outcomes are drawn, with more sticks are broken.
    """
    mdp = random_mdp(11, n_states=n_states, n_actions=2, n_agents=2, horizon=4, kinds=[None])
    learner = cede.posterior_sampling(mdp.task, prior=prior)
    for episode in play(mdp, 6, 0):
        learner.observe_episode(episode)
        learner.end_episode(replan=False)
    learner.counts_columns = (2, n_states)
    for seen, drawn in zip((learner.counts.agents, learner.counts.environment), tables(learner, 1500), strict=True):
        counts = seen.toarray()
        assert (counts.sum(axis=1) == 0).any() or counts.shape[1] == 2
        for r, row in enumerate(counts[:30]):
            alpha = row + prior / len(row)
            np.testing.assert_allclose(drawn[:, r].sum(axis=1), 1.0)
            squares = (alpha * (alpha + 1)).sum() / (alpha.sum() * (alpha.sum() + 1))  # all together: E sum_j p_j^2
            assert (drawn[:, r] ** 2).sum(axis=1).mean() == pytest.approx(squares, rel=0.08)
            for j, a in enumerate(alpha):
                law = stats.beta(a, alpha.sum() - a)
                assert drawn[:, r, j].mean() == pytest.approx(law.mean(), abs=4.5 * law.std() / np.sqrt(1500) + 1e-3)
                if row[j] > 0 or n_states < 10:  # rare ones are too rare to tell, each for itself
                    assert drawn[:, r, j].std() == pytest.approx(law.std(), rel=0.2, abs=0.005)
                if row[j] > 0:  # of the others small values are cut off: the rest of a stick that is broken no further
                    assert stats.kstest(drawn[:, r, j], law.cdf).pvalue > FAIR


def test_cases_are_sampled_once():
    """Places that share a case share its sample, whatever their outcomes are called there."""
    mdp = random_structured(4, labels=False)
    learner = cede.posterior_sampling(mdp.task, structure=mdp.structure, seed=5)
    cede.simulate(mdp, learner, 5, seed=0, progress=False)
    _, environment = learner.beliefs
    outcomes, dense = mdp.structure.environment, environment.centre.matrix().toarray()
    dense /= dense.sum(axis=1, keepdims=True)
    first = {}
    for r, case in enumerate(outcomes.case):
        here = dense[r, outcomes.to[r][outcomes.to[r] >= 0]]
        np.testing.assert_array_equal(first.setdefault(int(case), here), here)
        assert here.sum() == pytest.approx(1.0)


def test_the_plan_is_the_best_for_the_sample():
    mdp = cede.worlds.riverswim(agents=[0.2, 0.8])
    learner = cede.posterior_sampling(mdp.task, seed=3)
    for _ in range(10):
        cede.simulate(mdp, learner, 3, seed=1, progress=False)
        agents, environment = learner.beliefs
        assert (agents.width == 0).all()
        assert (environment.width == 0).all()
        plan = learner.plan
        again = optimistic_plan(mdp.task, agents, environment, seed=tie_seed(learner.seed, learner.episode))
        np.testing.assert_array_equal(plan.value, again.value)
        policies = agents.centre.matrix().toarray() / agents.centre.total[:, None]
        sampled = environment.centre.matrix().toarray() / environment.centre.total[:, None]
        team = [cede.Agent(a.name, policies[agents.row[d]]) for d, a in enumerate(mdp.team.agents)]
        rows = sampled[environment.row] / sampled[environment.row].sum(axis=-1, keepdims=True)
        imagined = cede.TwoLayerMDP(cede.Environment(rows, mdp.environment.cost, mdp.environment.start), cede.Team(team), 20)
        np.testing.assert_allclose(cede.solve(imagined).value, plan.value, atol=1e-9)


def test_known_parts_are_not_sampled():
    mdp = cede.worlds.lane_driving()
    machine = mdp.team.agents[0].policy
    learner = cede.posterior_sampling(mdp.task, known_agents={"machine": machine}, known_environment=mdp.environment)
    cede.simulate(mdp, learner, 3, seed=1, progress=False)
    agents, environment = learner.beliefs
    dense = agents.centre.matrix().toarray() / agents.centre.total[:, None]
    np.testing.assert_allclose(dense[agents.row[:10]], machine)
    assert np.ptp(dense[agents.row[10]], axis=0).min() > 0.3
    np.testing.assert_allclose(
        environment.centre.matrix().toarray()[environment.row[7, 1]], mdp.environment.transition.toarray()[22]
    )


def test_runs_repeat_and_seeds_differ():
    mdp = cede.worlds.riverswim(agents=[0.2, 0.8])
    runs = [cede.simulate(mdp, cede.posterior_sampling(mdp.task, seed=s), 50, seed=1, progress=False) for s in (4, 4, 5)]
    np.testing.assert_array_equal(runs[0].expected_cost, runs[1].expected_cost)
    assert (runs[0].expected_cost != runs[2].expected_cost).any()


def test_by_hand_as_in_a_simulation():
    mdp = cede.worlds.riverswim(agents=[0.2, 0.8])
    learner, other = (cede.posterior_sampling(mdp.task, seed=2) for _ in range(2))
    cede.simulate(mdp, learner, 15, seed=9, progress=False)
    rng = np.random.default_rng(np.random.SeedSequence(9, spawn_key=(0,)))
    for _ in range(15):
        other.observe_episode(cede.rollout(mdp, other.plan, rng))
        other.end_episode()
    np.testing.assert_array_equal(learner.plan.value, other.plan.value)


@pytest.mark.parametrize("structured", [False, True])
def test_fleets_share_the_environments_posterior(structured):
    mdps = cede.worlds.riverswim_teams(3, seed=2)
    learners = [cede.posterior_sampling(m.task, structure=m.structure if structured else None, seed=i) for i, m in enumerate(mdps)]
    fleet = cede.Fleet(learners)
    one = cede.simulate_fleet(mdps, fleet, 40, seed=3, jobs=1, progress=False)
    assert fleet.environment.sum() == 3 * 40 * 20
    again = cede.Fleet(
        [cede.posterior_sampling(m.task, structure=m.structure if structured else None, seed=i) for i, m in enumerate(mdps)]
    )
    two = cede.simulate_fleet(mdps, again, 40, seed=3, jobs=2, progress=False)
    np.testing.assert_array_equal(one.expected_cost, two.expected_cost)
    assert {learner.plan.value[0, 0, 0] for learner in fleet.learners}.__len__() == 3  # each draws its own


def test_it_learns():
    mdp = cede.worlds.riverswim(agents=[0.0, 1.0])
    history = cede.simulate(mdp, cede.posterior_sampling(mdp.task), 2000, seed=0, progress=False)
    assert history.regret[-1] < 0.25 * cede.simulate(mdp, cede.ucrl2_mc(mdp.task), 2000, seed=0, progress=False).regret[-1]
    assert history.settings["prior"] == 1.0
    assert history.settings["delta"] is None


def test_bad_input():
    task = cede.worlds.riverswim().task
    for prior in (0, -1, np.nan, "much", 1e-310, 1e9):
        with pytest.raises(ValueError, match="posterior_sampling: prior is"):
            cede.posterior_sampling(task, prior=prior)


def test_features_are_read_from_names_or_from_a_table():
    """States without names need a table; True reads names."""
    task = cede.Task(np.zeros((2, 1)), ["a"], 2)
    assert cede.posterior_sampling(task, features=[[0], [1]]).settings.features.codes.tolist() == [[0], [1]]
    named = cede.Task(np.zeros((2, 1)), ["a"], 2, state_names=["x=3", "x=5"])
    found = cede.posterior_sampling(named, features=True).settings.features
    assert (found.names, found.values) == (("x",), (3, 5))
    with pytest.raises(ValueError, match="features is True, must be a table: the states of this task have no names"):
        cede.posterior_sampling(task, features=True)
