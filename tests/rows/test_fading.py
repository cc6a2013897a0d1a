"""Counts that fade: against sums over all that was ever seen, alone and in fleets; and what forgetting is good for."""

import copy

import numpy as np
import pytest

import cede
from cede.learners.learner import Learner
from problems import play, random_mdp, random_structured
from reference import count_slow


def faded(task, episodes, weights):
    """Counts as weighted sums, episode by episode."""
    agents = np.zeros((int(task.layout.n_slots.sum()) * task.n_states, task.n_actions))
    environment = np.zeros((task.n_states * task.n_actions, task.n_states))
    for episode, weight in zip(episodes, weights, strict=True):
        one, two, _ = count_slow(task, [episode])
        agents += weight * one.reshape(agents.shape)
        environment += weight * two.reshape(environment.shape)
    return agents, environment


RULES = {
    "half-life": (cede.HalfLife(3), lambda n: 2.0 ** (-(n - np.arange(n)) / 3)),
    "window": (cede.Window(4), lambda n: (np.arange(n) >= n - 4).astype(float)),
    "short window": (cede.Window(1), lambda n: (np.arange(n) >= n - 1).astype(float)),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", range(4))
def test_counts_fade_as_declared(name, seed):
    rule, weights = RULES[name]
    mdp = random_mdp(seed, n_agents=3)
    task = mdp.task
    learner = cede.ucrl2_mc(task, forget={"agent 1": rule}, forget_environment=rule if seed % 2 else None)
    episodes = play(mdp, 15, seed)
    for n, episode in enumerate(episodes, start=1):
        learner.observe_episode(episode)
        learner.end_episode(replan=False)
        agents, environment = faded(task, episodes[:n], weights(n))
        plain, plain_environment = faded(task, episodes[:n], np.ones(n))
        own = np.zeros(len(agents), dtype=bool)
        first = task.layout.slot[1] * task.n_states
        own[first : first + task.layout.n_slots[1] * task.n_states] = True
        expected = np.where(own[:, None], agents, plain)
        np.testing.assert_allclose(learner.counts.agents.toarray(), expected, atol=1e-12)
        expected = environment if seed % 2 else plain_environment
        np.testing.assert_allclose(learner.counts.environment.toarray(), expected, atol=1e-12)
    assert learner.episode == 16


def test_radii_follow_the_sum_of_what_is_left():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, forget=cede.HalfLife(10))
    cede.simulate(mdp, learner, 60, seed=0, progress=False)
    visits = learner.counts.agents.sum(axis=1)
    assert visits.max() < 20 * 16  # 20 steps in each of about 14 episodes
    constant = 2 * (7 * np.log(60 * 20) + np.log(12) + 3 * np.log(2) - np.log(0.1))
    np.testing.assert_allclose(learner.beliefs[0].width, np.sqrt(constant / np.maximum(1, visits)), rtol=1e-12)


def test_different_windows_for_different_agents():
    mdp = random_mdp(2, n_agents=2, horizon=3, kinds=[None])
    task = mdp.task
    learner = cede.greedy(task, forget={"agent 0": cede.Window(2), "agent 1": cede.Window(5)})
    episodes = play(mdp, 12, 1)
    for episode in episodes:
        learner.observe_episode(episode)
        learner.end_episode(replan=False)
    found = learner.counts.agents.toarray()
    for d, window in ((0, 2), (1, 5)):
        expected, _, _ = count_slow(task, episodes[-window:])
        np.testing.assert_array_equal(found.reshape(expected.shape)[d], expected[d])


def test_what_has_faded_is_gone():
    """After many half-lives nothing is left but the uniform guess, where nothing else was seen; and no number is lost."""
    mdp = random_mdp(5, n_states=3, n_agents=2, horizon=2, kinds=[None])
    learner = cede.ucrl2_mc(mdp.task, forget=cede.HalfLife(0.5), scale=0.01)
    learner.observe_episode(play(mdp, 1, 0)[0])
    learner.end_episode()
    assert learner.counts.agents.nnz == 2
    for _ in range(40):
        learner.observe(0, 0, mdp.task.start_agent, 0, 0, 0)
        learner.end_episode()
    assert learner.counts.agents.nnz == 1
    assert np.isfinite(learner.plan.value).all()


ALGORITHMS = {
    "half-life": {"forget": cede.HalfLife(5)},
    "window": {"forget": cede.Window(6)},
    "one agent, and the environment": {"forget": {"agent 0": cede.Window(3)}, "forget_environment": cede.HalfLife(4)},
    "window of the environment": {"forget_environment": cede.Window(5)},
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("structured", [False, True])
def test_simulation_is_what_happens_by_hand(name, structured):
    mdp = random_structured(8, labels=False) if structured else random_mdp(8, n_agents=2)
    ways = {**ALGORITHMS[name], "structure": mdp.structure, "scale": 0.2, "seed": 3}
    learner, other = (cede.ucrl2_mc(mdp.task, **ways) for _ in range(2))
    for seed in (9, 10):  # in two goes: what it remembers is packed in between
        cede.simulate(mdp, learner, 12, seed=seed, progress=False)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        for _ in range(12):
            other.observe_episode(cede.rollout(mdp, other.plan, rng))
            other.end_episode()
    for layer in ("agents", "environment"):
        np.testing.assert_array_equal(getattr(learner.counts, layer).toarray(), getattr(other.counts, layer).toarray())
    np.testing.assert_array_equal(learner.plan.value, other.plan.value)


def test_forgetting_in_a_fleet(tmp_path):
    """Teams that forget and teams that do not, on one and on several workers, with a checkpoint between: the same bits."""
    mdps = cede.worlds.riverswim_teams(5, seed=4)
    rules = [cede.HalfLife(7), cede.Window(5), None, cede.HalfLife(7), cede.Window(5)]

    def make():
        return cede.Fleet([cede.ucrl2_mc(m.task, forget=rule, seed=i) for i, (m, rule) in enumerate(zip(mdps, rules, strict=True))])

    whole = make()
    history = cede.simulate_fleet(mdps, whole, 30, seed=6, jobs=1, progress=False)
    assert history.settings["algorithms"] == ["ucrl2_mc"]
    for jobs in (2, 3):
        other = cede.simulate_fleet(mdps, make(), 30, seed=6, jobs=jobs, progress=False)
        np.testing.assert_array_equal(history.expected_cost, other.expected_cost)
    parts = make()
    cede.simulate_fleet(mdps, parts, 14, seed=6, progress=False, checkpoint=tmp_path / "run.npz")
    again = make()
    resumed = cede.simulate_fleet(
        mdps, again, 30, seed=6, progress=False, checkpoint=cede.Checkpoint(tmp_path / "run.npz", resume=True)
    )
    np.testing.assert_array_equal(history.expected_cost, resumed.expected_cost)
    for one, two in zip(whole, again, strict=True):
        np.testing.assert_array_equal(one.counts.agents.toarray(), two.counts.agents.toarray())
    assert whole.environment.sum() == 5 * 30 * 20  # the environment forgets nothing


def test_who_forgets_the_environment_does_not_share_it():
    mdps = cede.worlds.riverswim_teams(2, seed=4)
    fleet = cede.Fleet([cede.ucrl2_mc(mdps[0].task, forget_environment=cede.Window(5)), cede.ucrl2_mc(mdps[1].task)])
    cede.simulate_fleet(mdps, fleet, 10, progress=False)
    assert fleet.environment.sum() == 200
    assert fleet.learners[0].counts.environment.sum() == 100


def with_human(mdp, sigma):
    """The same problem with another human."""
    human = cede.worlds.lane_driving(sigma=sigma).team.agents[1]
    return cede.TwoLayerMDP(mdp.environment, cede.Team([mdp.team.agents[0], human]), mdp.horizon, mdp.start_agent)


def test_the_forgetting_learner_recovers_and_the_plain_one_does_not():
    """A human learns to drive. Who remembers how it was before does not hand over, and so never finds out."""
    before = cede.worlds.lane_driving(sigma=4.0)
    after = with_human(before, 0.3)
    late = {}
    for name, forget in (("plain", None), ("forgetting", cede.HalfLife(150))):
        known = {"machine": before.team.agents[0].policy}
        learner = cede.posterior_sampling(before.task, structure=before.structure, forget=forget, known_agents=known)
        cede.simulate(before, learner, 1500, seed=0, evaluate_every=500, progress=False)
        history = cede.simulate(after, learner, 800, seed=1, evaluate_every=25, progress=False)
        late[name] = history.regret[-1] - history.regret[-200]
    assert late["forgetting"] < 0.4 * late["plain"]


def test_refused_with_reasons():
    task = cede.worlds.riverswim().task
    for text, ways in {
        "belief is 'bernstein', must be 'printed' or 'calibrated' with forget": {"belief": "bernstein"},
        "planning is 'greedy', must be 'full' with forget": {"planning": "greedy"},
        "replan is 'doubling', must be 'every' or a number with forget": {"replan": "doubling"},
    }.items():
        with pytest.raises(ValueError, match=text):
            cede.ucrl2_mc(task, forget=cede.HalfLife(5), **ways)
    for text, make in {
        "HalfLife: episodes is 0.0, must be more than 0": lambda: cede.HalfLife(0),
        "Window: episodes is 2.5, must be an integer": lambda: cede.Window(2.5),
        "an agent of forget is 'eve', must be one of": lambda: cede.greedy(task, forget={"eve": cede.Window(3)}),
        "forget is 30, must be a HalfLife or a Window": lambda: cede.greedy(task, forget=30),
        r"forget\['p=0'\] is 30, must be a HalfLife or a Window": lambda: cede.greedy(task, forget={"p=0": 30}),
        "forget_environment is 3, must be a HalfLife or a Window": lambda: cede.greedy(task, forget_environment=3),
    }.items():
        with pytest.raises(ValueError, match=text):
            make()


def test_rules_for_all_hold_for_newcomers():
    first, second = cede.worlds.riverswim([0.3, 0.7]), cede.worlds.riverswim([0.2, 0.8])
    fleet = cede.Fleet([cede.ucrl2_mc(first.task, forget=cede.HalfLife(50))])
    assert fleet.welcome(second.task).settings.forgetting.agents == dict.fromkeys(second.task.agents, cede.HalfLife(50))
    named = cede.Fleet([cede.ucrl2_mc(first.task, forget={"p=0.3": cede.HalfLife(50)})])
    assert named.welcome(second.task).settings.forgetting.agents == {}
    assert cede.ucrl2_mc(first.task, forget={"p=0.3": None}, belief="bernstein").about["forget"] is None


def test_rare_outcomes_fade_away():
    """What was seen once, long ago, in a row that is still in use."""
    mdp = cede.worlds.riverswim([0.0, 1.0])
    learner = cede.ucrl2_mc(mdp.task, forget_environment=cede.HalfLife(0.5))
    step = {"t": [0], "agent": [1], "action": [1], "state": [1]}
    learner.learn_from({**step, "next_state": [2]})
    for _ in range(60):
        learner.learn_from({**step, "next_state": [1]})
    assert learner.counts.environment.nnz == 1
    assert learner.counts.environment.data.min() > 1e-9


def test_copies_are_equal_to_the_bit():
    """Sums of many faded counts depend on their order: it is the same everywhere."""
    mdp = random_mdp(0, n_states=30, n_actions=1, n_agents=1, horizon=20, kinds=[None])
    learner = cede.ucrl2_mc(mdp.task, forget=cede.HalfLife(2.7), forget_environment=cede.HalfLife(2.7), scale=0.05)
    for episode in play(mdp, 9, 0):
        learner.observe_episode(episode)
        learner.end_episode()
    again = copy.deepcopy(learner)
    again.replan()
    learner.replan()
    np.testing.assert_array_equal(learner.plan.value, again.plan.value)


def test_counts_that_do_not_fit_are_refused():
    task = cede.worlds.riverswim().task
    fading, plain = cede.ucrl2_mc(task, forget=cede.HalfLife(3)), cede.ucrl2_mc(task)
    cede.simulate(cede.worlds.riverswim(), fading, 5, progress=False)
    with pytest.raises(ValueError, match=r"a count of agent/p=0 is .*, must be whole, or a multiple of 1/1024: it forgets nothing"):
        Learner(task, plain.settings, counts=fading.counts)
    with pytest.raises(ValueError, match=r"counts is given, must be left out with Window\(episodes=3\)"):
        Learner(task, cede.ucrl2_mc(task, forget=cede.Window(3)).settings, counts=plain.counts)
