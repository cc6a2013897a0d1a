"""The learner that we recommend: calibrated sets, trial episodes, and a world in which others ignore a good agent for ever."""

import math

import numpy as np
import pytest

import cede
from cede._kernels.tables import Table
from cede.beliefs.kl import surprise
from problems import random_mdp


def trap(n_bad=40, length=6):
    """A cautious agent ends at once at a cost of 0.6. An expert walks a path to an end that costs nothing; beside it lie many ends
    that cost 1, so a step that was never seen looks bad on average.
    """
    n_states, rng = length + n_bad + 2, np.random.default_rng(0)
    safe, goal = n_states - 2, n_states - 1
    transition, enter_cost = np.zeros((n_states, 3, n_states)), np.zeros(n_states)
    for s in range(length):
        for a, to in enumerate((s + 1 if s < length - 1 else goal, length + rng.integers(n_bad), safe if s == 0 else length)):
            transition[s, a, to] = 1.0
    for s in range(length, n_states):
        transition[s, :, s] = 1.0
    enter_cost[length : length + n_bad], enter_cost[safe] = 1.0, 0.6
    ends = {"terminal": range(length, n_states), "enter_cost": enter_cost}
    environment = cede.Environment(transition, np.zeros((n_states, 3)), np.eye(n_states)[0], **ends)
    policies = {"cautious": [0.0, 0.0, 1.0], "wild": [0.4, 0.3, 0.3], "expert": [0.98, 0.01, 0.01]}
    team = [cede.Agent(name, np.tile(policy, (n_states, 1))) for name, policy in policies.items()]
    return cede.TwoLayerMDP(environment, cede.Team(team, 0.01), horizon=12)


def test_nobody_is_ignored_for_ever():
    mdp = trap()
    best, ends = cede.expected_cost(mdp, cede.solve(mdp)), {}
    for make in (cede.recommended, cede.posterior_sampling):
        runs = [cede.simulate(mdp, make(mdp.task, seed=s), 400, seed=s, progress=False) for s in range(6)]
        ends[make] = np.array([run.expected_cost[-100:].mean() for run in runs])
    assert (ends[cede.recommended] < 1.25 * best).all()
    assert (ends[cede.posterior_sampling] > 2 * best).any()  # the world is as hard as it is meant to be


def test_trial_episodes():
    """Everybody has control for whole episodes: 1 to n, 8 n + 1 to 9 n, 64 n + 1 to 65 n."""
    mdp = cede.worlds.riverswim([0.1, 0.5, 0.9])
    history = cede.simulate(mdp, cede.recommended(mdp.task), 200, seed=0, progress=False)
    whole = (history.control == mdp.horizon).argmax(axis=1)
    for first in (0, 24, 192):
        assert (history.control[first : first + 3].max(axis=1) == mdp.horizon).all()
        assert whole[first : first + 3].tolist() == [0, 1, 2]
    assert history.settings["trial_episodes"]
    assert "no guarantee" in history.settings["scale"]


@pytest.mark.parametrize("told", [{"at_most": {"p=0.9": 0.5}}, {"baseline": 0}], ids=str)
def test_no_trial_episodes_where_something_is_promised(told):
    mdp = cede.worlds.riverswim([0.1, 0.9])
    learner = cede.recommended(mdp.task, **told)
    assert not learner.settings.trials
    cede.simulate(mdp, learner, 20, seed=0, progress=False)


def test_a_hand_over_that_takes_time():
    environment = cede.worlds.riverswim([0.3]).environment
    slow = cede.Agent("slow", np.tile([0.1, 0.9], (6, 1)), takeover_delay=2)
    mdp = cede.TwoLayerMDP(environment, cede.Team([cede.Agent("quick", np.tile([0.5, 0.5], (6, 1))), slow]), horizon=20)
    history = cede.simulate(mdp, cede.recommended(mdp.task), 2, seed=0, progress=False)
    assert history.control.tolist() == [[20, 0], [2, 18]]


@pytest.mark.parametrize("replan", ["every", "doubling", 7])
def test_by_hand_and_from_a_file_it_is_the_same(replan, tmp_path):
    mdp = cede.worlds.riverswim([0.2, 0.8], switch_cost=0.1)
    one, two, three = (cede.recommended(mdp.task, replan=replan, seed=4) for _ in range(3))
    whole = cede.simulate(mdp, one, 60, seed=np.random.default_rng(7), progress=False)
    rng = np.random.default_rng(7)
    first = cede.simulate(mdp, two, 17, seed=rng, progress=False)
    two.save(tmp_path / "learner.cede")
    rest = cede.simulate(mdp, cede.load(tmp_path / "learner.cede"), 43, seed=rng, progress=False)
    np.testing.assert_array_equal(np.append(first.cost, rest.cost), whole.cost)
    rng = np.random.default_rng(7)
    for _ in range(60):
        episode = cede.rollout(mdp, three.plan, rng)
        assert three.choose(0, episode.states[0], episode.prev_agents[0]) == episode.agents[0]
        three.observe_episode(episode)
        three.end_episode()
    np.testing.assert_array_equal(three.plan.value, one.plan.value)


def test_teams_that_take_turns_in_one_workspace():
    """Several threads, or one, and teams of several ages: what is calibrated, and who has a trial episode, is each team's own."""
    mdps = [cede.worlds.riverswim([p, 0.9 - p]) for p in (0.1, 0.2, 0.3)]
    histories = []
    for threads in (1, 2):
        fleet = cede.Fleet([cede.recommended(mdp.task, seed=i) for i, mdp in enumerate(mdps)])
        histories.append(cede.simulate_fleet(mdps, fleet, 20, seed=3, jobs=threads, progress=False))
    np.testing.assert_array_equal(histories[0].control, histories[1].control)
    assert histories[0].control[:, 0].tolist() == [[20, 0]] * 3
    assert histories[0].control[:, 1].tolist() == [[0, 20]] * 3


def test_the_unit_of_cost_does_not_matter():
    mdp = random_mdp(3, n_states=5, n_actions=3, n_agents=3, horizon=6, kinds=[None])
    environment, agents = mdp.environment, mdp.team.agents
    unit = 2.0**20  # a power of two: the bits of all numbers stay
    dear = cede.TwoLayerMDP(
        cede.Environment(environment.transition, environment.cost * unit, environment.start),
        cede.Team([cede.Agent(a.name, a.policy, a.control_cost * unit) for a in agents], mdp.team.switch_cost * unit),
        6,
        mdp.start_agent,
    )
    runs = [cede.simulate(one, cede.recommended(one.task), 80, seed=1, progress=False) for one in (mdp, dear)]
    np.testing.assert_array_equal(runs[0].control, runs[1].control)


@pytest.mark.parametrize("told", [{}, {"discount": 0.9}])
def test_without_a_horizon(told):
    mdp = cede.worlds.riverswim([0.2, 0.9])
    endless = cede.TwoLayerMDP(mdp.environment, mdp.team, None, **told)
    learner = cede.recommended(endless.task)
    history = cede.simulate(endless, learner, steps=3000, seed=0, progress=False)
    assert not learner.settings.trials
    assert history.control[-1, 1] > history.control[-1, 0]


def test_forgetting_and_learned_costs():
    mdp = cede.worlds.riverswim([0.2, 0.9])
    for task, told in ((mdp.task, {"forget": cede.HalfLife(50)}), (mdp.task.with_unknown_costs((0.0, 1.0)), {})):
        learner = cede.recommended(task, **told)
        history = cede.simulate(mdp, learner, 300, seed=0, progress=False)
        assert history.regret[-1] < 60


def test_calibrated_radii_against_a_slow_twin():
    """rho = part^2 / m (log(2 rows t / delta) + surprise) / n, with m rows that an episode meets; unseen rows as declared."""
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.recommended(mdp.task)
    cede.simulate(mdp, learner, 40, seed=0, progress=False)
    layers = zip(learner.beliefs, (learner.counts.agents, learner.counts.environment), (0.45, 0.15), strict=True)
    for belief, counts, part in layers:
        table, visits = Table.of(counts), np.asarray(counts.sum(axis=1)).ravel()
        met = min(mdp.horizon, visits.sum() ** 2 / (visits**2).sum())
        constant = math.log(2 * 12 * 40 * mdp.horizon / 0.1)
        for r in np.flatnonzero(visits):
            rho = part**2 / met * (constant + surprise(table, r, float(counts.shape[1]))) / visits[r]
            assert belief.width[r] == pytest.approx(rho)
        unseen = belief.width[visits == 0]
        assert (unseen >= 700 if part == 0.45 else np.isclose(unseen, 0.02 * constant)).all()


def test_warnings_name_who_was_never_in_control():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.fixed(mdp.task, 0)
    assert learner.warnings == ()
    cede.simulate(mdp, learner, 12, seed=0, progress=False)
    assert learner.warnings == ("p=0.7 was not in control once in 12 episodes: how it acts is not known",)
    assert cede.insight.summarise(learner).warnings == learner.warnings
    known = cede.greedy(mdp.task, known_agents={"p=0.7": mdp.team.agents[1].policy})
    known.learn_from([cede.rollout(mdp, mdp.task.always(0), 1)], progress=False)
    assert known.warnings == ("p=0.7 was not in control once in 1 episodes, and its policy is known",)
    seen = cede.recommended(mdp.task)
    cede.simulate(mdp, seen, 2, seed=0, progress=False)
    assert seen.warnings == ()
    assert seen.steps_in_control.tolist() == [20, 20]


def test_the_plan_of_the_means_does_not_fluctuate():
    mdp = cede.worlds.riverswim([0.1, 0.9])
    learner = cede.posterior_sampling(mdp.task)
    cede.simulate(mdp, learner, 300, seed=0, progress=False)
    plan = cede.insight.mean_plan(learner)
    twin = cede.greedy(mdp.task, seed=0)
    twin.learn_from([cede.rollout(mdp, mdp.task.always(0), 1)], progress=False)
    assert cede.expected_cost(mdp, plan) <= cede.expected_cost(mdp, cede.solve(mdp)) + 0.2
    np.testing.assert_allclose(cede.insight.mean_plan(twin).value, twin.plan.value)
    with pytest.raises(ValueError, match="mean_plan: learner is ucrl2"):
        cede.insight.mean_plan(cede.ucrl2(mdp.task))
