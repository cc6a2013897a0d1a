"""The plan of what was seen, whatever the learner made of it."""

import numpy as np
import pytest

import cede


def told(features, task, seed=0):
    """Posterior sampling; features: whether it is told how far down the river each state is."""
    return cede.posterior_sampling(task, seed=seed, features=np.arange(task.n_states)[:, None] if features else None)


@pytest.mark.parametrize("shared", [False, True])
def test_priors_from_features_change_nothing_of_what_was_seen(shared):
    """Models were fitted at least once; a learner without features that saw the same has the same mean plan."""
    mdp = cede.worlds.riverswim([0.2, 0.5, 0.9])
    task, playing = mdp.task, cede.fixed(mdp.task, mdp.task.always(1))
    learners = [told(True, task), told(False, task)]
    if shared:
        fleets = [cede.Fleet([one, told(i == 0, task)]) for i, one in enumerate(learners)]
        assert len(fleets) == 2
    for k in range(60):
        episode = cede.rollout(mdp, playing.plan if k % 2 else task.always(k % 3), seed=k)
        for learner in learners:
            learner.observe_episode(episode)
            learner.end_episode()
    with_features, plain = learners
    assert with_features.about["features"]
    np.testing.assert_array_equal(with_features.counts.environment.toarray(), plain.counts.environment.toarray())
    first, second = (cede.insight.mean_plan(learner) for learner in learners)
    np.testing.assert_array_equal(first.policy, second.policy)
    np.testing.assert_array_equal(first.value, second.value)
    for learner in learners:
        assert len(cede.insight.summarise(learner).groups) > 0
        assert str(cede.explain(learner, 0, 0, 0))
    np.testing.assert_array_equal(with_features.counts.agents.toarray(), plain.counts.agents.toarray())
