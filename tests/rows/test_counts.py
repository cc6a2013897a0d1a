"""Counts are sums: right, additive, order-free, and enough to make the plan again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cede
from cede.learners.learner import Learner
from cede.rows.places import Places
from cede.rows.stored import Counts
from cede.rows.working import Working, count
from problems import play, random_mdp
from reference import count_slow


def same(a: Counts, b: Counts) -> bool:
    layers = all((getattr(a, name) != getattr(b, name)).nnz == 0 for name in ("agents", "environment"))
    return layers and a.episodes == b.episodes


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_counts_against_loops(seed):
    mdp = random_mdp(seed)
    task, episodes = mdp.task, play(mdp, 12, seed)
    agents, environment, flat = count_slow(task, episodes)
    counts, flat_counts = count(task, episodes), count(task, episodes, flat=True)
    np.testing.assert_array_equal(counts.agents.toarray(), agents.reshape(-1, task.n_actions))
    np.testing.assert_array_equal(counts.environment.toarray(), environment.reshape(-1, task.n_states))
    np.testing.assert_array_equal(flat_counts.environment.toarray(), flat.reshape(-1, task.n_states))
    assert counts.episodes == 12
    assert counts.agents.dtype == np.int64


@given(seed=st.integers(0, 10**6), parts=st.integers(1, 6), flat=st.booleans())
@settings(max_examples=30, deadline=None)
def test_any_split_merged_in_any_order_gives_the_same_counts_and_plan(seed, parts, flat):
    mdp = random_mdp(seed)
    task, episodes = mdp.task, play(mdp, 15, seed)
    learner = cede.ucrl2(task, scale=0.3) if flat else cede.ucrl2_mc(task, scale=0.3)
    for episode in episodes:
        learner.observe_episode(episode)
        learner.end_episode()
    rng = np.random.default_rng(seed)
    part_of = rng.integers(parts, size=15)
    counted = [count(task, [e for e, p in zip(episodes, part_of, strict=True) if p == i], flat=flat) for i in range(parts)]
    total = Counts.zeros(task, flat=flat)
    for i in rng.permutation(parts):
        total = total + counted[i]
    assert same(total, learner.counts)
    again = Learner(task, learner.settings, counts=total)
    np.testing.assert_array_equal(again.plan.value, learner.plan.value)
    np.testing.assert_array_equal(again.plan.policy, learner.plan.policy)


def test_step_by_step_equals_all_at_once():
    mdp = random_mdp(7, n_states=5, n_agents=3)
    one, other = cede.ucrl2_mc(mdp.task), cede.ucrl2_mc(mdp.task)
    for e in play(mdp, 5, 0):
        for t in range(len(e.actions)):
            one.observe(t, e.states[t], e.prev_agents[t], e.agents[t], e.actions[t], e.states[t + 1])
        one.end_episode()
        other.observe_episode(e)
        other.end_episode()
    assert same(one.counts, other.counts)
    np.testing.assert_array_equal(one.plan.policy, other.plan.policy)


def test_counts_of_known_agents_and_a_known_environment_are_kept_too():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    known = {"p=0.3": mdp.team.agents[0].policy}
    knows = cede.ucrl2_mc(mdp.task, known_agents=known, known_environment=mdp.environment)
    for e in play(mdp, 4, 0):
        knows.observe_episode(e)
        knows.end_episode()
    assert same(knows.counts, count(mdp.task, play(mdp, 4, 0)))


def test_a_snapshot_does_not_change_when_the_learner_goes_on():
    mdp = cede.worlds.riverswim()
    learner = cede.ucrl2_mc(mdp.task)
    cede.simulate(mdp, learner, 3)
    before = learner.counts
    copy = before.environment.copy()
    cede.simulate(mdp, learner, 50)
    assert (before.environment != copy).nnz == 0
    assert before.episodes == 3


def test_counts_of_different_problems_do_not_add():
    one, other = cede.worlds.riverswim(), cede.worlds.riverswim(agents=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"Counts \+: the shape of agent/p=0.* is "):
        Counts.zeros(one.task) + Counts.zeros(other.task)


def test_memory_follows_what_was_seen():
    """100,000 states, 4 actions: empty working counts hold no S x A x S table, a step adds a few numbers."""
    n = 100_000
    task = cede.Task(env_cost=np.zeros((n, 4)), agents=["one", "two"], horizon=5)
    working = Working(Places(task), Counts.zeros(task))
    assert len(working.environment.seen.column) == 0
    step = [np.array([x]) for x in (0, 99_999, 0, 1, 3, 12_345)]
    working.add(*step)
    assert working.environment.seen.end <= 8
    assert working.store().environment[99_999 * 4 + 3, 12_345] == 1


def test_long_episodes_are_counted_in_pieces():
    mdp = random_mdp(4, n_states=3, n_agents=2, n_actions=2, horizon=1000, kinds=[None])
    episodes = play(mdp, 2, 0)
    counts = count(mdp.task, episodes)
    np.testing.assert_array_equal(counts.environment.toarray(), count_slow(mdp.task, episodes)[1].reshape(-1, 3))


@pytest.mark.parametrize("layers", [{"environment": 3}, [1, 2]])
def test_layers_that_are_none_are_refused(layers):
    with pytest.raises(ValueError, match="Counts: layers is"):
        Counts(layers, 0, 0)
