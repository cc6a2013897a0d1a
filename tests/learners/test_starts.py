"""Learners count where episodes start, however they see them, and estimates rest on that."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import cede
from cede.insight.estimating import least_from_starts
from cede.insight.starts import Starts, starts_of
from cede.learners.learner import Learner
from cede.rows.stored import Counts
from cede.rows.working import count
from problems import random_mdp

RULES = {"nothing": None, "half-life": cede.HalfLife(5), "window": cede.Window(4)}


def small(seed=0, horizon=4):
    return random_mdp(seed, n_states=4, n_actions=2, n_agents=2, horizon=horizon, kinds=[None])


def played(mdp, learner, n):
    """Episodes of a learner that are observed one by one, and their first states."""
    firsts = []
    for k in range(n):
        episode = cede.rollout(mdp, learner.plan.policy, seed=k)
        learner.observe_episode(episode)
        learner.end_episode()
        firsts.append(int(episode.states[0]))
    return firsts


@pytest.mark.parametrize("rule", RULES)
def test_starts_fade_as_the_environment_does(rule):
    mdp = small()
    learner = cede.recommended(mdp.task, forget_environment=RULES[rule])
    keep = {"nothing": 1.0, "half-life": 2 ** (-1 / 5), "window": 1 - 1 / 4}[rule]
    slow = np.zeros(4)
    for state in played(mdp, learner, 15):
        slow *= keep
        slow[state] += 1.0
    np.testing.assert_allclose(learner.counts.starts, slow, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_compiled_runs_count_the_same(rule, tmp_path):
    mdp = small()
    learner, other = (cede.recommended(mdp.task, forget_environment=RULES[rule]) for _ in range(2))
    cede.simulate(mdp, learner, 20, seed=3, progress=False)
    cede.simulate(mdp, other, 8, seed=3, progress=False)
    other.save(tmp_path / "half.cede")
    assert np.array_equal(cede.load(tmp_path / "half.cede").counts.starts, other.counts.starts)
    if rule == "nothing":
        assert learner.counts.starts.sum() == 20
        assert np.array_equal(cede.load(tmp_path / "half.cede").counts.starts, np.round(other.counts.starts))


def test_a_certain_start_is_counted_there():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task)
    cede.simulate(mdp, learner, 9, seed=1, progress=False)
    assert learner.counts.starts.tolist() == (9 * mdp.environment.start).tolist()


def test_logs_counts_and_episodes_agree():
    mdp = small()
    episodes = [cede.rollout(mdp, mdp.task.always(0), seed=k) for k in range(12)]
    firsts = np.bincount([episode.states[0] for episode in episodes], minlength=4)
    counts = count(mdp.task, episodes)
    learner, told = cede.greedy(mdp.task), Learner(mdp.task, cede.greedy(mdp.task).settings, counts=counts)
    learner.learn_from(episodes, progress=False)
    halves = count(mdp.task, episodes[:5]) + count(mdp.task, episodes[5:])
    for found in (counts, halves, learner.counts, told.counts):
        assert found.starts.tolist() == firsts.tolist()


def test_a_log_that_begins_in_the_middle_counts_no_start():
    mdp = small()
    learner = cede.greedy(mdp.task)
    learner.learn_from(
        {"t": [2, 3], "prev_agent": [0, 0], "state": [0, 1], "agent": [0, 0], "action": [0, 0], "next_state": [1, 2]},
        progress=False,
    )
    assert learner.counts.starts.tolist() == [0, 0, 0, 0]


def test_teams_of_a_fleet_count_their_own():
    mdps = cede.worlds.riverswim_teams(3)
    fleet = cede.Fleet([cede.recommended(mdp.task, seed=i) for i, mdp in enumerate(mdps)])
    cede.simulate_fleet(mdps, fleet, 7, seed=2, progress=False)
    assert [learner.counts.starts.sum() for learner in fleet] == [7, 7, 7]
    assert fleet.remove(0).counts.starts.sum() == 7


def test_counts_that_cannot_be_are_refused():
    mdp = small()
    zeros = Counts.zeros(mdp.task)
    layers = {"task": mdp.task, "agents": zeros.agents, "environment": zeros.environment, "episodes": 2}
    for wrong in ([-1.0, 0, 0, 0], [1.0, 0, 0]):
        with pytest.raises(ValueError, match=r"Counts: starts is .*, must be \(4,\) of numbers from 0 to"):
            Counts.of(**layers, starts=wrong)
    with pytest.raises(ValueError, match="the sum of starts is 3, must be possible in 2 episodes"):
        Learner(mdp.task, cede.greedy(mdp.task).settings, counts=Counts.of(**layers, starts=[3.0, 0, 0, 0]))


# ------------------------------------------------------------------------------------- counts that lack the starts


def without_starts(mdp, learner):
    """The same counts as an older version would have left them."""
    counts = learner.counts
    old = Counts.of(mdp.task, counts.agents, counts.environment, counts.episodes, counts.environment_episodes)
    return Learner(mdp.task, cede.greedy(mdp.task).settings, counts=old)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_not_counted_may_be_anywhere(seed):
    """The lower end is that of the best start that the counts allow: a linear program finds no lower one."""
    mdp = small(seed)
    learner = cede.greedy(mdp.task, seed=seed)
    cede.simulate(mdp, learner, 400, seed=seed, progress=False)
    where = starts_of("test", without_starts(mdp, learner))
    moves = sp.coo_array(learner.counts.environment)
    left, arrived = np.zeros(4), np.zeros(4)
    np.add.at(left, moves.coords[0] // 2, moves.data)
    np.add.at(arrived, moves.coords[1], moves.data)
    more, value = (left - arrived) / 400, np.random.default_rng(seed).random(4)
    for sign, extreme in ((1, np.min), (-1, np.max)):  # start = more + w
        found = linprog(sign * value, A_eq=np.ones((1, 4)), b_eq=[1.0], bounds=[(max(0.0, m), None) for m in more])
        assert where.known @ value + where.anywhere * extreme(value) == pytest.approx(sign * found.fun)
    counted = learner.counts.starts / 400
    assert (counted >= where.known - 1e-12).all()


def test_an_interval_without_counted_starts_says_so_and_holds():
    """Two states, each for ever: nothing tells where episodes start."""
    env = cede.Environment(np.eye(2)[:, None, :], [[0.0], [1.0]], start=[0.3, 0.7])
    mdp = cede.TwoLayerMDP(env, cede.Team([cede.Agent("a", [[1.0], [1.0]])]), 5)
    for seed in range(5):
        learner = cede.greedy(mdp.task)
        cede.simulate(mdp, learner, 400, seed=seed, progress=False)
        counted, old = cede.estimate(learner), cede.estimate(without_starts(mdp, learner))
        assert counted.low <= 3.5 <= counted.high
        assert counted.high - counted.low < 0.7
        assert old.low <= 0.01
        assert old.high >= 4.99
        assert any("give start= if it is known" in warning for warning in old.warnings)
        assert not any("start" in warning for warning in counted.warnings)


def test_sets_allow_for_chance_in_counted_starts():
    """Never above the least mean over the L1 ball, by linear programming; and below the truth as often as promised."""
    rng, delta, n = np.random.default_rng(3), 0.2, 60
    below = 0
    for _ in range(300):
        truth, values = rng.dirichlet(np.ones(3)), rng.random(3)
        chances = rng.multinomial(n, truth) / n
        low = least_from_starts(Starts(chances, "counted", n), values, np.ones(3, dtype=bool), delta)
        width = np.sqrt(2 * np.log(2**3 / delta) / n)
        cost = np.concatenate([values, np.zeros(3)])  # p and |p - chances|
        apart = np.block([[np.eye(3), -np.eye(3)], [-np.eye(3), -np.eye(3)], [np.zeros((1, 3)), np.ones((1, 3))]])
        least = linprog(
            cost, A_ub=apart, b_ub=[*chances, *-chances, width], A_eq=[[1, 1, 1, 0, 0, 0]], b_eq=[1], bounds=[(0, 1)] * 6
        )
        assert low <= least.fun + 1e-9
        assert low >= values.min() - 1e-12
        below += low <= truth @ values + 1e-12
    assert below >= 300 * (1 - delta)


def test_sets_with_counted_starts_say_their_level():
    mdp = small()
    learner = cede.ucrl2_mc(mdp.task, belief="kl", delta=0.1)
    cede.simulate(mdp, learner, 200, seed=1, progress=False)
    counted, given = cede.estimate(learner), cede.estimate(learner, start=learner.counts.starts / 200)
    assert (counted.level, given.level) == (pytest.approx(0.8), pytest.approx(0.9))
    assert counted.low < given.low < given.high < counted.high
    assert counted.mean == pytest.approx(given.mean)
