"""Simulation: same seed, same bits; exact regret; honest book-keeping."""

import numpy as np
import pytest

import cede
from cede._base.progress import Progress
from problems import random_mdp
from reference import evaluate_slow


def test_same_seed_same_bits_and_other_seed_other_bits():
    mdp = random_mdp(1, n_states=5, n_agents=3, n_actions=2, horizon=4)
    runs = [cede.simulate(mdp, cede.ucrl2_mc(mdp.task, scale=0.2, seed=3), 60, seed=seed) for seed in (5, 5, 6)]
    for name in ("regret", "expected_cost", "cost", "control", "switches"):
        np.testing.assert_array_equal(getattr(runs[0], name), getattr(runs[1], name))
    assert (runs[0].cost != runs[2].cost).any()


def test_regret_is_the_papers_expectation():
    """Eq. 6 by loops: the start distribution and d_0 included."""
    mdp = random_mdp(3, n_states=3, n_agents=2, horizon=3)
    learner = cede.ucrl2_mc(mdp.task, scale=0.3)
    rng = np.random.default_rng(0)
    regret = 0.0
    best = evaluate_slow(mdp, cede.solve(mdp).policy)
    for _ in range(10):
        value = evaluate_slow(mdp, learner.plan.policy)
        regret += mdp.environment.start @ (value - best)[0, :, mdp.start_agent]
        history = cede.simulate(mdp, learner, 1, seed=rng)
    again = cede.simulate(mdp, cede.ucrl2_mc(mdp.task, scale=0.3), 10, seed=np.random.default_rng(0))
    assert again.regret[-1] == pytest.approx(regret, abs=1e-10)
    assert history.optimum == pytest.approx(mdp.environment.start @ best[0, :, mdp.start_agent])


def test_an_episode_adds_up():
    mdp = random_mdp(6, n_states=5, n_agents=3, n_actions=3, horizon=4)
    task = mdp.task
    episode = cede.rollout(mdp, cede.solve(mdp), seed=4)
    assert episode.prev_agents[0] == task.start_agent
    np.testing.assert_array_equal(episode.prev_agents[1:], episode.agents[:-1])
    s, prev, d, a = episode.states[:-1], episode.prev_agents, episode.agents, episode.actions
    np.testing.assert_allclose(episode.costs, task.env_cost[s, a] + task.control_cost[d] + task.switch_cost[prev, d])
    assert episode.cost == pytest.approx(episode.costs.sum())
    assert episode.switches == (prev != d).sum()


def test_history_adds_up():
    mdp = cede.worlds.riverswim(agents=[0.2, 0.8], switch_cost=0.5)
    history = cede.simulate(mdp, cede.ucrl2_mc(mdp.task), 40, seed=2)
    assert (history.control.sum(axis=1) == mdp.horizon).all()
    assert history.regret.shape == history.cost.shape == history.switches.shape == (40,)
    assert (np.diff(history.regret) >= -1e-12).all()
    np.testing.assert_allclose(np.diff(history.regret, prepend=0), history.expected_cost - history.optimum)
    assert history.agents == ("p=0.2", "p=0.8")
    settings = history.settings
    assert (settings["learner"], settings["radius"], settings["delta"], settings["simulation_seed"]) == (
        "ucrl2_mc",
        "printed",
        0.1,
        2,
    )
    assert settings["cede"] == cede.__version__
    assert settings["scale"] == "agents 1, environment 1"


def test_frequencies_of_a_rollout_are_the_tables():
    """The sampler against the probabilities: chi-square-like bound on one row of each layer."""
    mdp = random_mdp(12, n_states=4, n_agents=2, n_actions=3, horizon=1, kinds=[None])
    rng = np.random.default_rng(0)
    policy = np.zeros((1, 4, 2), dtype=int)
    n = 20_000
    episodes = [cede.rollout(mdp, policy, rng) for _ in range(n)]
    first = np.bincount([e.states[0] for e in episodes], minlength=4) / n
    np.testing.assert_allclose(first, mdp.environment.start, atol=0.02)
    s = int(np.argmax(first))
    actions = np.array([e.actions[0] for e in episodes if e.states[0] == s])
    np.testing.assert_allclose(np.bincount(actions, minlength=3) / len(actions), mdp.team.agents[0].policy[s], atol=0.03)
    a = int(np.bincount(actions).argmax())
    after = np.array([e.states[1] for e in episodes if e.states[0] == s and e.actions[0] == a])
    row = mdp.environment.transition.toarray()[s * 3 + a]
    np.testing.assert_allclose(np.bincount(after, minlength=4) / len(after), row, atol=0.03)


def test_two_runs_of_a_learner_continue_each_other():
    mdp = cede.worlds.riverswim()
    one, two = cede.ucrl2_mc(mdp.task), cede.ucrl2_mc(mdp.task)
    rng = np.random.default_rng(0)
    parts = [cede.simulate(mdp, one, n, seed=rng).cost for n in (10, 25)]
    whole = cede.simulate(mdp, two, 35, seed=np.random.default_rng(0)).cost
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_progress_bar_shows_only_in_a_terminal_and_only_after_a_while(monkeypatch, capsys):
    monkeypatch.setattr("cede._base.progress.PATIENCE", 0.0)
    monkeypatch.setattr("cede._base.progress.INTERVAL", 0.0)
    with Progress("quiet", 3) as bar:
        bar.advance()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress("learning", 3) as bar:
        for _ in range(3):
            bar.advance()
    assert "learning" in capsys.readouterr().err
