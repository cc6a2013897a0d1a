"""Agents are layers by name: one can be shared, added, replaced or forgotten by itself, and nothing else changes."""

import numpy as np
import pytest
import scipy.sparse as sp

import cede
from cede.learners.learner import Learner
from cede.rows.stored import Counts, LayerCounts, apart, below_one_another

MDP = cede.worlds.riverswim(agents=[0.3, 0.7])
FIRST, SECOND = MDP.task.tables


def learned(mdp, episodes=30, seed=0, **options):
    learner = cede.ucrl2_mc(mdp.task, scale=0.2, **options)
    cede.simulate(mdp, learner, episodes, seed=seed, progress=False)
    return learner


def begun(task, counts):
    return Learner(task, cede.ucrl2_mc(task, scale=0.2).settings, counts=counts)


def test_layers_add_in_any_order():
    rng = np.random.default_rng(0)
    tables = [rng.integers(0, 3, (4, 5)) * (rng.random((4, 5)) < 0.5) for _ in range(3)]
    layers = [LayerCounts.of_matrix(sp.csr_array(table)) for table in tables]
    for order in ([0, 1, 2], [2, 0, 1]):
        total = layers[order[0]] + layers[order[1]] + layers[order[2]]
        np.testing.assert_array_equal(total.matrix.toarray(), sum(tables))
        assert (np.diff(total.key) > 0).all()


def test_layers_below_one_another_and_apart_again():
    layers = [
        LayerCounts((2, 3), np.array([1, 5]), np.ones(2)),
        LayerCounts.empty((0, 3)),
        LayerCounts((1, 3), np.array([0]), np.ones(1)),
    ]
    shapes = {"a": (2, 3), "b": (0, 3), "c": (1, 3)}
    whole = below_one_another({"a": layers[0], "c": layers[2]}, shapes)  # a layer that is missing has no counts
    assert (whole.shape, whole.key.tolist()) == ((3, 3), [1, 5, 6])
    for before, after in zip(layers, apart(whole, [2, 0, 1]), strict=True):
        assert (before.shape, before.key.tolist()) == (after.shape, after.key.tolist())


def test_every_agent_is_a_layer_of_its_own():
    counts = learned(MDP).counts
    assert list(counts.layers) == [f"agent/{FIRST}", f"agent/{SECOND}", "environment", "costs", "start"]
    np.testing.assert_array_equal(
        np.concatenate([layer.matrix.toarray() for layer in counts.agent_layers.values()]), counts.agents.toarray()
    )


def test_an_agent_shared_by_two_teams_is_the_sum_of_its_layers():
    """A learner that begins with the agent's counts of both teams has them, and its other layers are its own."""
    one, other = learned(MDP, seed=1).counts, learned(MDP, seed=2).counts
    name = f"agent/{FIRST}"
    shared = one.layers[name] + other.layers[name]
    total = Counts({**one.layers, name: shared}, one.episodes + other.episodes, one.environment_episodes)
    again = begun(MDP.task, total).counts
    assert again.layers[name].total == one.layers[name].total + other.layers[name].total
    for layer in (f"agent/{SECOND}", "environment", "start"):
        np.testing.assert_array_equal(again.layers[layer].key, one.layers[layer].key)


def test_an_agent_who_joins_has_no_counts_and_others_keep_theirs():
    counts = learned(MDP).counts
    larger = cede.worlds.riverswim(agents=[0.3, 0.7, 0.9])
    learner = begun(larger.task, counts)
    assert learner.counts.agent_layers[larger.task.tables[2]].total == 0
    for name, layer in counts.layers.items():
        np.testing.assert_array_equal(learner.counts.layers[name].number, layer.number)
    assert learner.plan.policy.shape == (20, 6, 3)


def test_an_agent_who_is_replaced_or_forgotten_begins_again():
    """Without its layer a learner plans as one that has seen the rest alone."""
    counts = learned(MDP).counts
    rest = Counts({name: layer for name, layer in counts.layers.items() if name != f"agent/{FIRST}"}, *[counts.episodes] * 2)
    learner = begun(MDP.task, rest)
    assert learner.counts.agent_layers[FIRST].total == 0
    assert learner.counts.agent_layers[SECOND].total == counts.agent_layers[SECOND].total
    agents = counts.agents.toarray()
    agents[:6] = 0
    by_hand = Counts.of(MDP.task, sp.csr_array(agents), counts.environment, counts.episodes)
    np.testing.assert_array_equal(begun(MDP.task, by_hand).plan.value, learner.plan.value)


def test_a_layer_that_the_task_does_not_have_is_refused():
    counts = learned(MDP).counts
    smaller = cede.worlds.riverswim(agents=[0.3])
    with pytest.raises(ValueError, match=r"the shape of agent/p=0\.7 in counts is \(6, 2\), must be a layer of the task"):
        begun(smaller.task, counts)


def test_two_teams_share_the_policy_of_one_agent(tmp_path):
    """Autonomy drives with Anna in one team and with Ben, as the second member, in another. Both teams then know what both saw of
    it; of people, the environment and first states each team keeps its own counts. The sums survive a file and further episodes.
    """
    river = cede.worlds.riverswim(agents=[0.3, 0.7, 0.9])
    autonomy, anna, ben = (
        cede.Agent(name, agent.policy) for name, agent in zip(("autonomy", "Anna", "Ben"), river.team.agents, strict=True)
    )
    teams = [[autonomy, anna], [ben, autonomy]]
    mdps = [cede.TwoLayerMDP(river.environment, cede.Team(agents), river.horizon) for agents in teams]
    alone = [learned(mdp, seed=seed).counts for seed, mdp in enumerate(mdps)]
    shared = alone[0].layers["agent/autonomy"] + alone[1].layers["agent/autonomy"]
    assert shared.total > max(counts.layers["agent/autonomy"].total for counts in alone) > 0
    for mdp, own, place in zip(mdps, alone, (0, 1), strict=True):
        episodes = sum(counts.episodes for counts in alone)
        learner = begun(mdp.task, Counts({**own.layers, "agent/autonomy": shared}, episodes, own.environment_episodes))
        rows = slice(6 * place, 6 * place + 6)  # of autonomy, among those of both agents
        np.testing.assert_array_equal(learner.counts.agents.toarray()[rows], shared.matrix.toarray())
        narrower = learner.beliefs[0].width[rows] < begun(mdp.task, own).beliefs[0].width[rows]
        visited = next(other.layers["agent/autonomy"].matrix.toarray().sum(axis=1) > 3 for other in alone if other is not own)
        assert narrower[visited].all()
        for name in set(own.layers) - {"agent/autonomy"}:
            np.testing.assert_array_equal(learner.counts.layers[name].matrix.toarray(), own.layers[name].matrix.toarray())
        learner.save(tmp_path / "team.cede")
        again = cede.load(tmp_path / "team.cede")
        cede.simulate(mdp, again, 10, seed=7, progress=False)
        more = again.counts.layers["agent/autonomy"].matrix.toarray() - shared.matrix.toarray()
        assert (more >= 0).all()
        assert again.counts.all_agents.total == learner.counts.all_agents.total + 10 * mdp.horizon
