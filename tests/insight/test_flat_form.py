"""What a learner with one table for all has counted of costs, in the form in which it is drawn from."""

import numpy as np

import cede
from cede.insight.draws import flat_form
from problems import play, random_mdp


def test_sums_of_costs_are_relative_to_one_range():
    """In every state costs have another range; the sums come out as if each cost had been taken relative to the whole range."""
    mdp = random_mdp(4, n_states=3, n_actions=3, n_agents=2, horizon=5, kinds=[None])
    learner = cede.ucrl2(mdp.task)
    episodes = play(mdp, 40, 1)
    for episode in episodes:
        learner.observe_episode(episode)
        learner.end_episode()
    task, seen = flat_form(learner)
    cost = mdp.task.env_cost
    least, most = cost.min(), cost.max()
    assert task.cost_range == (least, most)
    assert np.isnan(task.env_cost).all()
    assert task.env_cost.shape == (3, 2)
    expected = np.zeros((6, 3))
    for episode in episodes:
        for s, d, a in zip(episode.states, episode.agents, episode.actions, strict=False):
            part = (cost[s, a] - least) / (most - least)
            expected[s * 2 + d] += 1, part, part**2
    sums = seen.matrix.toarray()
    np.testing.assert_allclose(sums[:, 0], expected[:, 0])
    np.testing.assert_allclose(sums[:, 1] + sums[:, 2], expected[:, 1], atol=1e-6)
    np.testing.assert_allclose(sums[:, 3], expected[:, 2], atol=1e-6)
