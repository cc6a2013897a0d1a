"""Fleets: one environment belief, synchronous rounds."""

from dataclasses import replace

import numpy as np
import pytest

import cede
from cede.rows.stored import Counts
from cede.rows.working import count
from cede.worlds import riverswim
from cede.worlds.lane_driving import lane_driving_teams


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
        counts = Counts.of(mdp.task, learner.counts.agents, environment, 1, environment_episodes=4)
        assert learner.counts.environment_episodes == 4
        again = cede.Learner(mdp.task, lone.settings, counts=counts)
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


# ------------------------------------------------------------------------------------------------- rounds, by hand


def by_hand(mdps, episodes, sync_every, seed, **options):
    """The rounds of a fleet with learners that are made anew for every episode, from counts that are added by hand."""
    algorithm = cede.ucrl2_mc(mdps[0].task, **options).settings
    zero, environment = [Counts.zeros(mdp.task) for mdp in mdps], Counts.zeros(mdps[0].task).environment
    own, common, told = list(zero), environment, 0
    luck = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(len(mdps))]
    expected = np.empty((len(mdps), episodes))
    for first in range(0, episodes, sync_every):
        fresh = list(zero)
        n = min(sync_every, episodes - first)
        for i, mdp in enumerate(mdps):
            for k in range(first, first + n):
                seen = common + fresh[i].environment
                counts = Counts.of(mdp.task, own[i].agents, seen, k, environment_episodes=told + fresh[i].episodes)
                plan = cede.Learner(mdp.task, algorithm, counts=counts).plan
                expected[i, k] = cede.expected_cost(mdp, plan.policy)
                played = count(mdp.task, [cede.rollout(mdp, plan, luck[i])])
                own[i], fresh[i] = own[i] + played, fresh[i] + played
        for part in fresh:
            common, told = common + part.environment, told + part.episodes
    return expected, common


@pytest.mark.parametrize("sync_every", [1, 3, 7])
def test_rounds_against_rounds_by_hand(sync_every):
    mdps = teams(3, switch_cost=0.1)
    expected, common = by_hand(mdps, 12, sync_every, seed=8, scale=0.3)
    fleet = cede.Fleet([cede.ucrl2_mc(m.task, scale=0.3) for m in mdps])
    history = cede.simulate_fleet(mdps, fleet, 12, seed=8, sync_every=sync_every)
    np.testing.assert_array_equal(history.expected_cost, expected)
    assert (fleet.environment != common).nnz == 0
    assert fleet.environment_episodes == 36


@pytest.mark.parametrize("sync_every", [1, 5, 100])
def test_a_fleet_of_one_equals_simulate_however_often_it_is_told(sync_every):
    mdp = riverswim(agents=[0.2, 0.7])
    alone = cede.simulate(mdp, cede.ucrl2_mc(mdp.task), 50, seed=7)
    fleet = cede.Fleet([cede.ucrl2_mc(mdp.task)])
    np.testing.assert_array_equal(cede.simulate_fleet([mdp], fleet, 50, seed=7, sync_every=sync_every).regret, alone.regret)


# ------------------------------------------------------------------------------------------------- coming and going


def learned(mdps, episodes=20, seed=0, **options):
    fleet = cede.Fleet([cede.ucrl2_mc(m.task, seed=i, **options) for i, m in enumerate(mdps)])
    cede.simulate_fleet(mdps, fleet, episodes, seed=seed, progress=False)
    return fleet


def test_a_newcomer_starts_with_what_the_fleet_knows_of_the_environment_and_nothing_of_its_people():
    mdps = teams(3)
    fleet = learned(mdps, delta=0.05, scale=0.4, replan=2)
    before = fleet.environment
    newcomer = fleet.welcome(riverswim(agents=[0.2, 0.5, 0.9]).task, seed=9)
    assert len(fleet) == 4
    assert fleet.learners[-1] is newcomer
    assert (newcomer.counts.environment != before).nnz == 0
    assert newcomer.counts.environment_episodes == 60
    assert newcomer.counts.agents.nnz == 0
    assert newcomer.episode == 1
    settings = newcomer.about
    assert (settings["delta"], settings["replan"], settings["seed"], settings["known_agents"]) == (0.05, 2, 9, [])
    mdps.append(riverswim(agents=[0.2, 0.5, 0.9]))
    cede.simulate_fleet(mdps, fleet, 5, progress=False)
    assert fleet.environment.sum() == 20 * (60 + 20)
    assert [learner.episode for learner in fleet] == [26, 26, 26, 6]


def test_a_newcomer_does_better_than_a_stranger():
    mdps = teams(8)
    fleet = learned(mdps, 300)
    mdp = riverswim(agents=[0.1, 0.9])  # where they differ less, the agents are what is hard to learn: see docs/fleets.md
    newcomer = fleet.remove(fleet.welcome(mdp.task))
    knowing = cede.simulate(mdp, newcomer, 300, seed=1, progress=False)
    alone = cede.simulate(mdp, cede.ucrl2_mc(mdp.task), 300, seed=1, progress=False)
    assert knowing.regret[-1] < 0.8 * alone.regret[-1]


def test_known_agents_of_a_newcomer_are_its_own():
    mdps = teams(2)
    fleet = learned(mdps)
    mdp = riverswim(agents=[0.2, 0.9])
    newcomer = fleet.welcome(mdp.task, known_agents={"p=0.9": mdp.team.agents[1].policy})
    assert newcomer.about["known_agents"] == ["p=0.9"]
    with pytest.raises(ValueError, match=r"Fleet.welcome: an agent of known_agents is 'p=0.1', must be one of 'p=0.2', 'p=0.9'"):
        fleet.welcome(mdp.task, known_agents={"p=0.1": mdp.team.agents[1].policy})


def test_who_leaves_keeps_a_copy_and_leaves_what_it_saw():
    mdps = teams(3)
    fleet = learned(mdps)
    environment = fleet.environment
    gone = fleet.remove(1)
    assert len(fleet) == 2
    assert gone not in fleet.learners
    assert gone.shared_environment is None
    assert (gone.counts.environment != environment).nnz == (fleet.environment != environment).nnz == 0
    cede.simulate(mdps[1], gone, 10, progress=False)
    assert (fleet.environment != environment).nnz == 0
    assert gone.counts.environment.sum() == environment.sum() + 200
    assert gone.counts.environment_episodes == 70
    fleet.remove(fleet.learners[0])
    with pytest.raises(ValueError, match=r"Fleet.remove: learner is not in the fleet"):
        fleet.remove(gone)
    with pytest.raises(ValueError, match=r"Fleet.remove: learner is 5, must be"):
        fleet.remove(5)


def test_who_joins_brings_along_what_it_saw():
    mdps = teams(3)
    fleet, stranger = learned(mdps[:2]), cede.ucrl2_mc(mdps[2].task)
    cede.simulate(mdps[2], stranger, 15, seed=5)
    own, before = stranger.counts, fleet.environment
    fleet.add(stranger)
    assert (fleet.environment != before + own.environment).nnz == 0
    assert fleet.environment_episodes == 55
    assert (stranger.counts.agents != own.agents).nnz == 0
    assert all((learner.counts.environment != fleet.environment).nnz == 0 for learner in fleet)
    with pytest.raises(ValueError, match=r"Fleet.add: learner is in another fleet, must be a learner that was removed from it"):
        fleet.add(stranger)
    with pytest.raises(ValueError, match=r"Fleet: learners\[0\] is in another fleet"):
        cede.Fleet([stranger])


def test_learners_that_learned_apart_make_a_fleet_whose_counts_are_their_sum():
    mdps = teams(3)
    learners = [cede.ucrl2_mc(m.task) for m in mdps]
    for i, (mdp, learner) in enumerate(zip(mdps, learners, strict=True)):
        cede.simulate(mdp, learner, 5 + i, seed=i)
    parts = [learner.counts for learner in learners]
    fleet = cede.Fleet(learners)
    assert (fleet.environment != parts[0].environment + parts[1].environment + parts[2].environment).nnz == 0
    assert fleet.environment_episodes == 18
    history = cede.simulate_fleet(mdps, fleet, 4, progress=False)  # teams of different experience in one round
    assert [learner.episode for learner in fleet] == [10, 11, 12]
    assert history.regret.shape == (4,)


def test_merging_two_half_fleets_gives_the_counts_of_one_fleet():
    """The same episodes, seen by one fleet or by two that are merged: the same counts, and so the same plans."""
    mdps = teams(4)
    episodes = [[cede.rollout(m, cede.solve(m), seed=10 * i + k) for k in range(6)] for i, m in enumerate(mdps)]

    def watched(places):
        learners = [cede.ucrl2_mc(mdps[i].task, scale=0.2) for i in places]
        fleet = cede.Fleet(learners)
        for i, learner in zip(places, learners, strict=True):
            for episode in episodes[i]:
                learner.observe_episode(episode)
                learner.end_episode()
        return fleet

    one, first, second = watched(range(4)), watched([0, 1]), watched([2, 3])
    first.merge(second)
    assert (len(first), len(second)) == (4, 0)
    assert (first.environment != one.environment).nnz == 0
    assert first.environment_episodes == one.environment_episodes == 24
    for a, b in zip(one, first, strict=True):
        assert (a.counts.agents != b.counts.agents).nnz == 0
        a.replan()
        b.replan()
        np.testing.assert_array_equal(a.plan.policy, b.plan.policy)
        np.testing.assert_array_equal(a.plan.value, b.plan.value)
    runs = [cede.simulate_fleet(mdps, fleet, 10, seed=1, progress=False).regret for fleet in (one, first)]
    np.testing.assert_array_equal(*runs)


def test_merging_fleets_that_cannot_share_or_do_not_fit():
    mdps = teams(2)
    flat = cede.Fleet([cede.ucrl2(mdps[0].task)])
    flat.merge(cede.Fleet([cede.ucrl2_mc(mdps[1].task)]))
    assert len(flat) == 2
    assert flat.environment.nnz == 0
    other = cede.Fleet([cede.ucrl2_mc(riverswim(horizon=5).task)])
    with pytest.raises(ValueError, match=r"Fleet.merge: the horizon of the other fleet is 5, must be 20"):
        flat.merge(other)
    assert (len(flat), len(other)) == (2, 1)
    with pytest.raises(ValueError, match=r"Fleet.merge: other is"):
        flat.merge(flat)


def test_a_fleet_that_shares_nothing_says_so():
    fleet = cede.Fleet([cede.ucrl2(riverswim().task)])
    with pytest.raises(ValueError, match=r"Fleet.welcome: the fleet is without a learner that shares what it sees"):
        fleet.welcome(riverswim().task)
    with pytest.raises(ValueError, match="Fleet: environment is shared by no team"):
        fleet.environment  # noqa: B018


def test_a_newcomer_that_does_not_fit_is_refused():
    fleet = cede.Fleet([cede.ucrl2_mc(riverswim().task)])
    with pytest.raises(ValueError, match=r"Fleet.welcome: the horizon of the newcomer is 5, must be 20, as of the first learner"):
        fleet.welcome(riverswim(horizon=5).task)
    with pytest.raises(ValueError, match=r"Fleet.welcome: task is 'TwoLayerMDP', must be a Task, as in mdp.task"):
        fleet.welcome(riverswim())
    assert len(fleet) == 1


def test_one_of_a_fleet_may_run_alone_and_all_learn_from_it():
    mdps = teams(2)
    fleet = learned(mdps, 10)
    cede.simulate(mdps[0], fleet.learners[0], 10, seed=3)
    assert fleet.environment.sum() == 30 * 20
    assert fleet.environment_episodes == 30
    assert (fleet.learners[1].counts.environment != fleet.environment).nnz == 0


def test_lane_driving_teams_share_the_road():
    """Ten teams, the authors' schedule, few episodes: UCRL2-MC far below UCRL2. The figure `many-teams` shows it at full size."""
    mdps = lane_driving_teams(10, control_cost=0.2, switch_cost=0.1)
    scale, known = cede.Scale.authors(100), {"machine": mdps[0].team.agents[0].policy}
    ours = cede.Fleet([cede.ucrl2_mc(m.task, scale=scale, known_agents=known) for m in mdps])
    flat = [replace(m.task, varies_with=None) for m in mdps]
    theirs = cede.Fleet([cede.ucrl2(task, scale=scale, radius="same-form") for task in flat])
    runs = [cede.simulate_fleet(mdps, fleet, 100, progress=False).regret[-1] for fleet in (ours, theirs)]
    assert runs[0] < 0.6 * runs[1]


def test_an_empty_fleet_remembers_its_environment():
    fleet = cede.Fleet([cede.ucrl2_mc(riverswim().task)])
    fleet.remove(0)
    with pytest.raises(ValueError, match=r"Fleet.add: the number of actions of the learner is 4, must be 2"):
        fleet.add(cede.ucrl2_mc(riverswim(macro=2).task))
    with pytest.raises(ValueError, match=r"Fleet.merge: the horizon of the other fleet is 5, must be 20"):
        fleet.merge(cede.Fleet([cede.ucrl2_mc(riverswim(horizon=5).task)]))
    with pytest.raises(ValueError, match="the number of mdps is 0, must be 0, one for each learner, and at least 1"):
        cede.simulate_fleet([], fleet, 3)


def test_who_is_in_the_middle_of_an_episode_stays_where_it_is():
    mdps = teams(2)
    fleet, other = cede.Fleet([cede.ucrl2_mc(mdps[0].task)]), cede.Fleet([cede.ucrl2_mc(mdps[1].task)])
    fleet.learners[0].observe(0, 0, 0, 0, 0, 0)
    message = "the number of steps of the running episode of"
    with pytest.raises(ValueError, match=f"Fleet.remove: {message} the learner is 1, must be 0"):
        fleet.remove(0)
    with pytest.raises(ValueError, match=f"Fleet.merge: {message} learner 0 of the other fleet is 1, must be 0"):
        other.merge(fleet)
    assert (len(fleet), len(other), fleet.learners[0].observed) == (1, 1, 1)


def test_a_plan_that_was_handed_out_is_what_is_played():
    mdps = teams(2)
    fleet = cede.Fleet([cede.ucrl2_mc(m.task, scale=0.1) for m in mdps])
    plan = fleet.learners[0].plan
    cede.simulate(mdps[1], fleet.learners[1], 300, progress=False)
    assert fleet.learners[0].plan is plan
    run = cede.simulate(mdps[0], fleet.learners[0], 2, progress=False)
    assert run.expected_cost[0] == cede.expected_cost(mdps[0], plan.policy)
    assert run.expected_cost[1] != run.expected_cost[0]


def test_teams_that_share_must_live_in_one_world():
    mdps = [riverswim(), riverswim(version="strehl-littman")]
    message = r"simulate_fleet: team 1: transition\[0, 1, 0\] is 0.7, must be 0.4, as of team 0: they share what they see"
    with pytest.raises(ValueError, match=message):
        cede.simulate_fleet(mdps, cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps]), 3)
    cede.simulate_fleet(mdps, cede.Fleet([cede.ucrl2(m.task) for m in mdps]), 3)


def test_a_learner_is_in_a_fleet_once():
    mdp = riverswim()
    flat = cede.ucrl2(mdp.task)
    one, other = cede.Fleet([flat]), cede.ucrl2(mdp.task)
    with pytest.raises(ValueError, match=r"Fleet: learners\[1\] is in another fleet, must be a learner that was removed from it"):
        cede.Fleet([other, flat])
    two = cede.Fleet([other, one.remove(flat)])
    one.merge(two)
    assert (one.learners, two.learners) == ((other, flat), ())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda mdps, fleet: (mdps, list(fleet)), "simulate_fleet: fleet is "),
        (lambda mdps, fleet: ([m.task for m in mdps], fleet), r"simulate_fleet: mdps\[0\] is "),
    ],
)
def test_other_things_than_problems_and_fleets(arguments, message):
    mdps = teams(2)
    with pytest.raises(ValueError, match=message):
        cede.simulate_fleet(*arguments(mdps, cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps])), 3)
    with pytest.raises(ValueError, match="simulate_fleet: checkpoint is True, must be a path or a Checkpoint"):
        cede.simulate_fleet(mdps, cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps]), 3, checkpoint=True)


def test_teams_of_every_age_share_one_workspace():
    """Ten teams of ten ages are one group: what a workspace costs, they cost once."""
    from cede.fleet.grouping import streams_of
    from cede.fleet.run import Run

    mdps = teams(10)
    learners = [cede.ucrl2_mc(m.task, scale=0.2) for m in mdps]
    for i, (mdp, learner) in enumerate(zip(mdps, learners, strict=True)):
        if i:
            cede.simulate(mdp, learner, i, progress=False)
    groups = Run(mdps, cede.Fleet(learners).learners, 1, streams_of(0, 10)).groups
    assert len(groups) == 1
    assert groups[0].ages == [(i, 0, 0) for i in range(10)]


def test_scales_may_be_any_function():
    """Equal or not, hashable or not: teams with different functions are never taken for the same."""

    class Falling:
        def __init__(self, start):
            self.values = np.array([start, 0.1])

        def __call__(self, episode):
            return float(self.values[min(episode - 1, 1)])

        def __eq__(self, other):
            return self.values == other.values

        __hash__ = None

    mdps = teams(3)
    scales = [cede.Scale(agents=Falling(s), environment=0.1) for s in (0.1, 5.0, 0.1)]
    fleet = cede.Fleet([cede.ucrl2_mc(m.task, scale=s) for m, s in zip(mdps, scales, strict=True)])
    assert cede.simulate_fleet(mdps, fleet, 5, progress=False).regret.shape == (5,)
