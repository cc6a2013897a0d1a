"""Regret where not every episode is evaluated: right in the mean, for cede's learners and for any other."""

import numpy as np
import pytest

import cede
from cede.fleet.evaluations import Evaluations

WORSE, BETTER = 0.2, 0.9  # of RiverSwim's agents


def river():
    return cede.worlds.riverswim([WORSE, BETTER])


class SoonBetter:
    """Plays the worse agent for some episodes, then the better one. It changes its policy in place."""

    def __init__(self, task, bad=5):
        self.task, self.bad, self.episode = task, bad, 0
        self.policy = np.zeros(task.policy_shape, dtype=np.int16)

    def choose(self, t, state, prev_agent):
        return int(self.policy[t, state, prev_agent])

    def observe(self, t, state, prev_agent, agent, action, next_state, *, cost, enter_cost):
        pass

    def end_episode(self):
        self.episode += 1
        self.policy[...] = self.episode >= self.bad


@pytest.mark.parametrize("episodes", [400, 409])  # 409: nine episodes are left over at the end
@pytest.mark.parametrize("bad", [1, 5, 30])
def test_the_mean_regret_does_not_depend_on_how_many_episodes_are_evaluated(bad, episodes):
    mdp = river()
    each = [cede.expected_cost(mdp, mdp.task.always(agent)) for agent in range(2)]
    exact = cede.simulate(mdp, SoonBetter(mdp.task, bad), episodes, progress=False).regret
    best = cede.expected_cost(mdp, cede.solve(mdp))
    assert exact[-1] == pytest.approx(bad * (each[0] - best) + (episodes - bad) * (each[1] - best))
    draws = [Evaluations(np.random.default_rng(seed).integers(2**62, size=4), episodes, 20) for seed in range(4000)]
    at = np.array([one.chosen[np.arange(episodes) // 20] for one in draws])
    regret = np.cumsum(np.diff(exact, prepend=0.0)[at], axis=1)
    for k in (20, 400, episodes):
        found = regret[:, k - 1]
        assert found.mean() == pytest.approx(exact[k - 1], abs=4 * found.std() / np.sqrt(len(found)) + 1e-9)


@pytest.mark.parametrize("learner", ["own", "foreign"])
def test_seeds_of_the_simulation_draw_the_episodes(learner):
    """The same learner with other seeds of what happens: with the first of twenty its regret would be wrong for each of them."""
    mdp, every = river(), 20
    make = {"own": lambda: cede.ucrl2_mc(mdp.task, scale=0.02), "foreign": lambda: SoonBetter(mdp.task)}[learner]
    runs = {n: [cede.simulate(mdp, make(), 60, seed=s, evaluate_every=n, progress=False) for s in range(60)] for n in (1, every)}
    for one, other in zip(*runs.values(), strict=True):
        np.testing.assert_array_equal(one.cost, other.cost)
        assert (one.settings["evaluate_every"], other.settings["evaluate_every"]) == (1, every)
    exact, found = (np.array([run.regret for run in some]) for some in runs.values())
    for k in (every, 3 * every):
        gap = found[:, k - 1] - exact[:, k - 1]
        assert abs(gap.mean()) < 3.5 * gap.std() / np.sqrt(len(gap))
    first = np.repeat(np.diff(exact, axis=1, prepend=0.0)[:, ::every], every, axis=1).sum(axis=1)
    gap = first - exact[:, -1]
    assert abs(gap.mean()) > 3.5 * gap.std() / np.sqrt(len(gap))  # what was done before


@pytest.mark.parametrize("every", [2, 7, 20, 10**9])
def test_a_fixed_policy_has_the_same_numbers_for_any_interval(every):
    mdp = river()
    for make in (lambda: cede.fixed(mdp.task, 0), lambda: SoonBetter(mdp.task, bad=10**6)):
        exact, some = (cede.simulate(mdp, make(), 50, seed=3, evaluate_every=n, progress=False) for n in (1, every))
        np.testing.assert_array_equal(some.regret, exact.regret)
        np.testing.assert_array_equal(some.expected_cost, exact.expected_cost)


def test_each_block_has_the_exact_cost_of_one_of_its_episodes():
    mdp = river()
    for make in (lambda: cede.ucrl2_mc(mdp.task, scale=0.1), lambda: cede.ucrl2_mc(mdp.task, scale=0.1, planning="greedy")):
        exact, some = (cede.simulate(mdp, make(), 45, seed=3, evaluate_every=n, progress=False).expected_cost for n in (1, 8))
        for first in range(0, 45, 8):
            block = slice(first, first + 8)
            assert len(set(some[block])) == 1
            assert np.isclose(some[first], exact[block], rtol=1e-12).any()


def test_a_policy_changed_in_place_is_evaluated_anew():
    mdp = river()
    each = [cede.expected_cost(mdp, mdp.task.always(agent)) for agent in range(2)]
    history = cede.simulate(mdp, SoonBetter(mdp.task, bad=3), 6, progress=False)
    np.testing.assert_allclose(history.expected_cost, [each[0]] * 3 + [each[1]] * 3, rtol=1e-12)


def test_episodes_without_a_policy_have_no_cost_also_at_intervals():
    class Coy(SoonBetter):
        def end_episode(self):
            self.episode += 1
            self.policy = None if self.episode == 10 else np.zeros(self.task.policy_shape, dtype=np.int16)

        def choose(self, t, state, prev_agent):
            return 0

    mdp = river()
    for seed in range(5):
        history = cede.simulate(mdp, Coy(mdp.task, 10**6), 20, seed=seed, evaluate_every=20, progress=False)
        assert np.isnan(history.regret[10:]).all()
        assert history.settings["regret"].startswith("not known")


def test_a_longer_run_begins_like_a_shorter_one():
    """What was evaluated before a run is made longer serves, or a later episode does."""
    stream = [1, 2, 3, 4]
    for every in (1, 3, 20, 1000):
        longest = Evaluations(stream, 100, every)
        for episodes in range(1, 101):
            one = Evaluations(stream, episodes, every)
            whole = episodes // every
            np.testing.assert_array_equal(one.chosen[:whole], longest.chosen[:whole])
            assert len(one.chosen) == -(-episodes // every)
            assert (one.chosen // every == np.arange(len(one.chosen))).all()
            longer = Evaluations(stream, min(episodes + 1, 100), every)
            assert (np.isin(longer.chosen, one.chosen) | (longer.chosen >= episodes)).all()


def test_each_episode_of_a_block_is_drawn_equally_often():
    for episodes, every in ((5, 5), (3, 5), (8, 5)):
        chosen = [Evaluations([seed, 1, 1, 1], episodes, every).chosen[-1] % every for seed in range(6000)]
        size = episodes % every or every
        times = np.bincount(chosen, minlength=size)
        assert len(times) == size
        np.testing.assert_allclose(times / len(chosen), 1 / size, atol=4.5 * np.sqrt(0.25 / len(chosen)))


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_a_fleet_stopped_made_longer_and_cut_into_rounds_gives_the_same_bits(tmp_path, engine):
    def go(episodes, **options):
        mdps = [cede.worlds.riverswim([WORSE, p]) for p in (0.5, 0.9)]
        fleet = cede.Fleet([cede.ucrl2_mc(mdp.task, scale=0.1) for mdp in mdps])
        return cede.simulate_fleet(mdps, fleet, episodes, seed=4, evaluate_every=8, progress=False, **options)

    whole = go(30, jobs=1)
    go(13, checkpoint=tmp_path / "run.cede", engine=engine, jobs=2)
    resumed = go(30, checkpoint=cede.Checkpoint(tmp_path / "run.cede", resume=True), jobs=1)
    for column in ("regret", "expected_cost", "cost"):
        np.testing.assert_array_equal(getattr(resumed, column), getattr(whole, column))


@pytest.mark.parametrize("discount", [None, 0.9])
def test_without_a_horizon_every_step_is_evaluated(discount):
    mdp = cede.worlds.riverswim([WORSE, BETTER], horizon=None, discount=discount)
    exact, some = (
        cede.simulate(mdp, cede.ucrl2_mc(mdp.task, scale=0.1), steps=200, record_every=20, evaluate_every=n, progress=False)
        for n in (1, 7)
    )
    np.testing.assert_array_equal(some.regret, exact.regret)
