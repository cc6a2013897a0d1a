"""Fleets: one environment belief, synchronous rounds."""

import numpy as np
import pytest

import cede
from cede.worlds import riverswim


def teams(n, **options):
    return [riverswim(agents=[p, 1 - p], **options) for p in np.linspace(0.1, 0.45, n)]


def test_a_fleet_of_one_equals_simulate():
    mdp = riverswim(agents=[0.2, 0.7])
    alone = cede.simulate(mdp, cede.ucrl2_mc(mdp.task), 50, seed=7)
    fleet = cede.simulate_fleet([mdp], cede.Fleet([cede.ucrl2_mc(mdp.task)]), 50, seed=7)
    np.testing.assert_array_equal(fleet.regret, alone.regret)
    np.testing.assert_array_equal(fleet.cost[0], alone.cost)
    np.testing.assert_array_equal(fleet.control[0], alone.control)


def test_environment_counts_are_shared_and_agents_are_not():
    mdps = teams(3)
    learners = [cede.ucrl2_mc(m.task, seed=i) for i, m in enumerate(mdps)]
    cede.simulate_fleet(mdps, cede.Fleet(learners), 12, seed=1)
    counts = [learner.counts for learner in learners]
    assert all((c.environment != counts[0].environment).nnz == 0 for c in counts)
    assert counts[0].environment.sum() == 3 * 12 * 20
    assert all(c.agents.sum() == 12 * 20 for c in counts)


def test_rounds_are_synchronous():
    """Every team's plan for episode k is the plan from what all had seen before k, in any order of the teams."""
    mdps = teams(4)
    forward = [cede.ucrl2_mc(m.task, scale=0.2) for m in mdps]
    cede.simulate_fleet(mdps, cede.Fleet(forward), 1, seed=0)
    environment = forward[0].counts.environment
    for mdp, learner in zip(mdps, forward, strict=True):
        lone = cede.ucrl2_mc(mdp.task, scale=0.2)
        counts = cede.Counts(learner.counts.agents, environment, 1, environment_episodes=4)
        assert learner.counts.environment_episodes == 4
        again = cede.Learner(mdp.task, lone.recipe, counts=counts)
        np.testing.assert_array_equal(again.plan.policy, learner.plan.policy)
        np.testing.assert_array_equal(again.plan.value, learner.plan.value)


def test_the_first_round_is_synchronous_too():
    """In episode 1 nobody has seen anything, whoever stands first."""
    mdps = teams(4)
    together = cede.simulate_fleet(mdps, cede.Fleet([cede.ucrl2_mc(m.task, scale=0.01) for m in mdps]), 1, seed=0)
    for mdp, cost in zip(mdps, together.expected_cost[:, 0], strict=True):
        assert cede.expected_cost(mdp, cede.ucrl2_mc(mdp.task, scale=0.01).plan.policy) == cost


def test_radii_of_a_shared_environment_count_the_steps_of_all_teams():
    mdps = teams(5)
    learners = [cede.ucrl2_mc(m.task) for m in mdps]
    cede.simulate_fleet(mdps, cede.Fleet(learners), 3)
    agents, environment = learners[2].beliefs
    n = environment.centre.total
    expected = np.sqrt(2 * np.log((5 * 3 * 20) ** 7.0 * 12 * 2.0**7 / 0.1) / np.maximum(1, n))
    np.testing.assert_allclose(environment.width, expected)
    expected = np.sqrt(2 * np.log((3 * 20) ** 7.0 * 12 * 2.0**3 / 0.1) / np.maximum(1, agents.centre.total))
    np.testing.assert_allclose(agents.width, expected)


def test_sharing_helps_and_ucrl2_cannot_share():
    mdps = teams(6)
    shared = cede.simulate_fleet(mdps, cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps]), 600, seed=2, progress=False)
    apart = sum(cede.simulate(m, cede.ucrl2_mc(m.task), 600, seed=2, progress=False).regret[-1] for m in mdps)
    flat = cede.simulate_fleet(mdps, cede.Fleet([cede.ucrl2(m.task) for m in mdps]), 600, seed=2, progress=False)
    assert shared.regret[-1] < 0.8 * apart
    assert shared.regret[-1] < flat.regret[-1]
    np.testing.assert_allclose(shared.team_regret.sum(), shared.regret[-1])


def test_teams_may_differ_and_recipes_may_be_mixed():
    mdps = [riverswim(agents=[0.1, 0.9]), riverswim(agents=[0.2, 0.5, 0.8], switch_cost=0.1)]
    fleet = cede.Fleet([cede.ucrl2_mc(mdps[0].task), cede.ucrl2(mdps[1].task)])
    history = cede.simulate_fleet(mdps, fleet, 5)
    assert history.control.shape == (2, 5, 3)
    assert history.settings["teams"] == 2


def test_same_seed_same_bits_whatever_the_number_of_teams():
    few, many = teams(4)[:2], teams(4)
    runs = [cede.simulate_fleet(m, cede.Fleet([cede.fixed(t.task, 0) for t in m]), 5, seed=3).cost for m in (few, many)]
    np.testing.assert_array_equal(runs[0], runs[1][:2])


@pytest.mark.parametrize(
    ("learners", "message"),
    [
        (lambda: [], "Fleet: learners is empty, must be at least one Learner"),
        (lambda: [cede.ucrl2_mc(riverswim().task)] * 2, r"Fleet: learners\[1\] is there twice"),
        (lambda: ["human"], r"Fleet: learners\[0\] is 'human', must be a Learner"),
        (
            lambda: [cede.ucrl2_mc(riverswim().task), cede.ucrl2_mc(riverswim(horizon=5).task)],
            "Fleet: the horizon of learner 1 is 5, must be 20, as of the first learner",
        ),
        (
            lambda: [cede.ucrl2_mc(riverswim().task), cede.ucrl2_mc(riverswim(macro=2).task)],
            "Fleet: the number of actions of learner 1 is 4, must be 2, as of the first learner",
        ),
    ],
)
def test_teams_that_do_not_fit_are_refused(learners, message):
    with pytest.raises(ValueError, match=message):
        cede.Fleet(learners())


def test_other_costs_are_refused_by_place():
    task = riverswim().task
    cost = task.env_cost.copy()
    cost[3, 1] = 7.0
    with pytest.raises(ValueError, match=r"Fleet: learner 1: env_cost\[3, 1\] is 7.0, must be 1.0, as of the first learner"):
        cede.Fleet([cede.ucrl2_mc(task), cede.ucrl2_mc(cede.Task(cost, task.agents, 20))])


def test_simulate_fleet_checks_its_teams():
    mdps = teams(2)
    fleet = cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps])
    with pytest.raises(ValueError, match="simulate_fleet: the number of mdps is 1, must be 2, one for each learner"):
        cede.simulate_fleet(mdps[:1], fleet, 3)
    with pytest.raises(ValueError, match="simulate_fleet, team 0: the learner's agents"):
        cede.simulate_fleet(mdps[::-1], fleet, 3)
