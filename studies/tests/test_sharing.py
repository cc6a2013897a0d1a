"""Nested fleets, the radii of the corollary, and the fit of its two terms."""

from math import log, sqrt

import numpy as np
import pytest

import cede
from cede.worlds.riverswim import riverswim_teams
from studies.figures import growth as growth_figure
from studies.figures import sharing as sharing_figure
from studies.figures.sharing_why import two_terms
from studies.runs import growth, sharing
from studies.runs.river import DELTA, theorem_2


def quiet(done):
    """Report nothing."""


def fleet(learner, radii, teams, checkpoints=(5, 20)):
    return sharing.nested_fleet(learner, radii, teams, list(checkpoints), 3, quiet)["team"]


def test_teams_that_do_not_share_are_the_same_in_every_fleet():
    large, small = (fleet("UCRL2 (same-form)", sharing.PRINTED, n) for n in (5, 2))
    assert [{**row, "teams": 2} for row in large if row["team"] < 2] == small


def test_teams_of_a_small_fleet_are_the_first_of_a_large_one_and_begin_alike():
    large, small = (fleet("UCRL2-MC", sharing.PRINTED, n, (1, 20)) for n in (5, 2))
    for one in small:
        other = next(row for row in large if (row["team"], row["episodes"]) == (one["team"], one["episodes"]))
        assert other["p"] == one["p"]
        if one["episodes"] == 1:  # nothing is known yet
            assert other["regret"] == one["regret"]


def test_when_the_bound_is_below_that_of_ucrl2():
    """Orders only: N L sqrt(A S D T) + L S sqrt(A N T) over N L S sqrt(D T), for RiverSwim and the obstacle task."""

    def over(S, A, D, N, L=20, T=10**6):
        ours = N * L * sqrt(A * S * D * T) + L * S * sqrt(A * N * T)
        return ours / (N * L * S * sqrt(D * T))

    for sizes, first in (((6, 2, 2), 6), ((1152, 3, 2), 2)):
        assert [over(*sizes, N) < 1 for N in (first - 1, first, 100 * first)] == [False, True, True]
        assert over(*sizes, 7) == pytest.approx(sqrt(sizes[1] / sizes[0]) + sqrt(sizes[1] / (7 * sizes[2])))
    assert over(5, 5, 3, 10**9) > 1


@pytest.mark.parametrize("radii", [sharing.PRINTED, sharing.SCHEDULE])
def test_a_team_that_does_not_share_is_the_fleet_of_one(radii):
    """Bit for bit, the first team has what it would have without the others; every other one what it has with its own luck."""
    alone, one = fleet(sharing.ALONE, radii, 4, (5, 60)), fleet("UCRL2-MC", radii, 1, (5, 60))
    assert [{**row, "teams": 1, "learner": "UCRL2-MC"} for row in alone if row["team"] == 0] == one
    shared = fleet("UCRL2-MC", radii, 4, (5, 60))
    assert [row["p"] for row in shared] == [row["p"] for row in alone]
    mdps = riverswim_teams(4, seed=3)
    scale = sharing.scale_of(radii, mdps[2].task, 1, 60)
    learner, luck = (
        cede.ucrl2_mc(mdps[2].task, delta=DELTA, scale=scale, seed=3 + 7919 * 2),
        np.random.SeedSequence(3, spawn_key=(2,)),
    )
    history = cede.simulate(mdps[2], learner, 60, seed=np.random.Generator(np.random.PCG64(luck)))
    assert [row["regret"] for row in alone if row["team"] == 2][-1] == pytest.approx(history.regret[-1], abs=1e-9)


def test_regret_of_teams_adds_up_to_that_of_the_fleet():
    mdps = riverswim_teams(3, seed=3)
    learners = [cede.ucrl2_mc(mdp.task, delta=DELTA, seed=3 + 7919 * i) for i, mdp in enumerate(mdps)]
    whole = cede.simulate_fleet(mdps, cede.Fleet(learners), 20, seed=3)
    found = sum(row["regret"] for row in fleet("UCRL2-MC", sharing.PRINTED, 3) if row["episodes"] == 20)
    assert found == pytest.approx(whole.regret[-1], abs=1e-9)


def test_the_radius_with_the_t_of_one_team():
    """The widths that a fleet's learner has, against the formula of Section 3 with t = (k - 1) L."""
    n, episodes = 4, 6
    mdps = riverswim_teams(n, seed=0)
    scale = sharing.scale_of(sharing.OF_TEAM, mdps[0].task, n, episodes)
    team = cede.Fleet([cede.ucrl2_mc(mdp.task, delta=DELTA, scale=scale) for mdp in mdps])
    cede.simulate_fleet(mdps, team, episodes, seed=0)
    learner, task = team.learners[1], mdps[1].task
    belief = learner.beliefs[1]
    S, A, t = task.n_states, task.n_actions, episodes * task.horizon
    visits = np.asarray(learner.counts.environment.sum(axis=1)).ravel()
    assert visits.sum() == n * t
    constant = 2 * (7 * log(t) + log(S * A) + (S + 1) * log(2) - log(0.1))
    for s in range(S):
        for a in range(A):
            expected = sqrt(constant / max(1, visits[s * A + a]))
            assert belief.width[belief.row[s, a]] == pytest.approx(expected, rel=1e-12)


def test_smaller_fleets_of_learners_that_do_not_share_are_parts_of_the_largest():
    outcomes = [(None, {"team": fleet("UCRL2-MC", sharing.PRINTED, n)}) for n in (1, 3)]
    outcomes.append((None, {"team": fleet("UCRL2 (same-form)", sharing.PRINTED, 3)}))
    rows = sharing_figure.table(outcomes)
    for n in (1, 3):
        alone = sum(row["regret"] for row in fleet("UCRL2 (same-form)", sharing.PRINTED, n) if row["episodes"] == 20)
        found = [r["regret"] for r in rows if (r["learner"], r["teams"], r["episodes"]) == ("UCRL2 (same-form)", n, 20)]
        assert found == [pytest.approx(alone)]
    ratio = sharing_figure.cells(rows, sharing.PRINTED, "UCRL2 (same-form)")
    ours = next(r["regret"] for r in rows if (r["learner"], r["teams"], r["episodes"]) == ("UCRL2-MC", 3, 20))
    theirs = next(r["regret"] for r in rows if (r["learner"], r["teams"], r["episodes"]) == ("UCRL2 (same-form)", 3, 20))
    assert ratio[3, 20] == [ours / theirs]


def test_two_terms_are_found_again():
    teams = [1, 3, 10, 30, 100]
    a, b = two_terms(teams, 2.0 + 5.0 / np.sqrt(teams))
    assert (a, b) == (pytest.approx(2.0), pytest.approx(5.0))
    a, b = two_terms(teams, 3.0 - 1.0 / np.sqrt(teams))  # grows with the fleet: no part of it is shared
    assert b == 0.0


def test_the_corollary_of_one_team_is_theorem_2():
    task = riverswim_teams(1, seed=0)[0].task
    assert sum(sharing.corollary(task, 1, 500, DELTA)) == pytest.approx(theorem_2(task, 500, DELTA))
    agents, environment = sharing.corollary(task, 9, 500, DELTA)
    one = sharing.corollary(task, 1, 500, DELTA)
    assert agents == pytest.approx(9 * one[0])
    assert environment == pytest.approx(3 * one[1])


@pytest.mark.parametrize("seed", range(4))
def test_random_problems_keep_what_theorem_2_assumes(seed):
    size = {**growth.USUAL, "N": 2}
    for mdp in growth.problems(size, seed):
        task = mdp.task
        assert (task.n_states, task.n_actions, task.n_agents, task.horizon) == (8, 3, 3, 10)
        assert task.env_cost.max() + task.control_cost.max() + task.switch_cost.max() < 1
        assert task.env_cost.min() >= 0
    first, again = (growth.problems(size, seed)[1].team.agents[0].policy for _ in range(2))
    assert np.array_equal(first, again)


@pytest.mark.parametrize("size", [{}, {"S": 4, "A": 2}, {"D": 5, "L": 5}, {"N": 3}])
def test_regret_on_random_problems_is_within_the_bound(size):
    for seed in range(3):
        rows = growth.random_problem("T", {**growth.USUAL, **size}, 1000, [500, 1000], seed, quiet)["point"]
        assert [row["T"] for row in rows] == [500, 1000]
        assert all(0 <= row["regret"] <= row["bound"] for row in rows)


def test_exponents_are_found_again():
    rows = [{"axis": "S", "S": s, "seed": k, "regret": 3 * s ** (0.5 + k), "bound": s} for s in (2, 4, 8) for k in (0, 1)]
    assert growth_figure.exponents(rows, "S", "regret") == pytest.approx([0.5, 1.5])
    assert growth_figure.exponents(rows, "S", "bound") == pytest.approx([1.0, 1.0])
