"""The learners: that they learn, what they are told, and how they compare (printed radii, RiverSwim)."""

import inspect
from itertools import pairwise

import numpy as np
import pytest

import cede
from cede.beliefs.constants import put_radii
from cede.beliefs.costs import UCRL2_INTERVALS, cost_constant_of
from cede.learners.arrays import load_counts, new_arrays, radius_sizes
from cede.learners.compiled import believe
from cede.learners.state import Sizes
from cede.planning.planner import optimistic_plan
from problems import play, random_mdp


def exponent(regret):
    """Fitted growth exponent over the second half."""
    k = np.arange(1, len(regret) + 1)[len(regret) // 2 :]
    return np.polyfit(np.log(k), np.log(regret[len(regret) // 2 :]), 1)[0]


@pytest.mark.slow
@pytest.mark.parametrize("agents", [[0.3, 0.7], [0.0, 0.5, 1.0]])
def test_regret_on_riverswim_with_printed_radii(agents):
    """UCRL2-MC is sublinear and below UCRL2 with either radius; agents alone are linear."""
    mdp = cede.worlds.riverswim(agents=agents)
    runs = {
        "mc": cede.ucrl2_mc(mdp.task),
        "appendix": cede.ucrl2(mdp.task),
        "same-form": cede.ucrl2(mdp.task, radius="same-form"),
    }
    regret = {name: cede.simulate(mdp, learner, 8000, seed=1, progress=False).regret for name, learner in runs.items()}
    assert exponent(regret["mc"]) < 0.5
    assert regret["mc"][-1] < regret["same-form"][-1] < regret["appendix"][-1]
    worst = cede.simulate(mdp, cede.fixed(mdp.task, 0), 2000, seed=1).regret
    assert exponent(worst) == pytest.approx(1.0, abs=1e-6)


def test_oracle_has_no_regret_and_greedy_settles():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    np.testing.assert_allclose(cede.simulate(mdp, cede.oracle(mdp), 50).regret, 0, atol=1e-10)
    greedy = cede.simulate(mdp, cede.greedy(mdp.task), 300)
    assert greedy.regret[-1] < cede.simulate(mdp, cede.fixed(mdp.task, "p=0.3"), 300).regret[-1]


def test_everything_known_is_solved_at_once():
    mdp = random_mdp(5, n_states=4, n_agents=3)
    known = {a.name: a.policy for a in mdp.team.agents}
    learner = cede.ucrl2_mc(mdp.task, known_agents=known, known_environment=mdp.environment)
    np.testing.assert_allclose(learner.plan.value, cede.solve(mdp).value, atol=1e-12)


def test_known_time_varying_agent_has_width_zero_and_its_own_rows():
    mdp = random_mdp(2, kinds=["time"], n_states=3, n_agents=2, n_actions=2, horizon=4)
    first = mdp.team.agents[0]
    learner = cede.ucrl2_mc(mdp.task, known_agents={first.name: first.policy})
    agents, _ = learner.beliefs
    rows = agents.row[:4]
    assert (agents.width[rows] == 0).all()
    np.testing.assert_allclose(agents.centre.matrix().toarray()[rows], first.policy)
    assert (agents.width[agents.row[4:]] > 2).all()


def test_unknown_agents_that_vary_are_learned_with_a_table_for_each_case():
    """After many random episodes the greedy plan is close to the best one, for agents that vary with time or prev_agent."""
    for kind in ("time", "prev_agent"):
        mdp = random_mdp(9, kinds=[kind], n_states=3, n_agents=2, n_actions=2, horizon=3)
        learner = cede.greedy(mdp.task)
        for e in play(mdp, 4000, 1):
            learner.observe_episode(e)
            learner.end_episode(replan=False)
        learner.replan()
        spread = np.ptp(cede.solve(mdp).value)
        assert cede.expected_cost(mdp, learner.plan.policy) - cede.expected_cost(mdp, cede.solve(mdp).policy) < 0.02 * spread


def test_greedy_takes_frequencies_for_the_truth():
    mdp = random_mdp(4, n_states=3, n_agents=2, n_actions=2, horizon=3, kinds=[None])
    learner = cede.greedy(mdp.task)
    episodes = play(mdp, 50, 0)
    for e in episodes:
        learner.observe_episode(e)
        learner.end_episode()
    counts = learner.counts

    def frequencies(matrix):
        n = matrix.toarray().astype(float)
        total = n.sum(axis=1, keepdims=True)
        return np.where(total > 0, n / np.maximum(total, 1), 1 / n.shape[1])

    environment = cede.Environment(frequencies(counts.environment).reshape(3, 2, 3), mdp.task.env_cost, mdp.environment.start)
    policies = frequencies(counts.agents).reshape(2, 3, 2)
    agents = [cede.Agent(a.name, p, a.control_cost) for a, p in zip(mdp.team.agents, policies, strict=True)]
    believed = cede.TwoLayerMDP(environment, cede.Team(agents, mdp.team.switch_cost), 3, mdp.start_agent)
    np.testing.assert_allclose(learner.plan.value, cede.solve(believed).value, atol=1e-12)


def test_ucrl2_bounds_the_mean_cost_of_an_agent_where_it_depends_on_the_action():
    mdp = random_mdp(8, n_states=3, n_agents=2, n_actions=3, horizon=4, kinds=[None])
    task = mdp.task
    learner = cede.ucrl2(task, scale=0.05)
    for e in play(mdp, 40, 0):
        learner.observe_episode(e)
        learner.end_episode()
    learner.replan()
    arrays = new_arrays(sizes := Sizes(learner.task, learner.settings), load_counts(sizes, learner.state, None))
    put_radii(
        arrays.radii,
        learner.settings.scale,
        radius_sizes(Sizes(learner.task, learner.settings)),
        learner.episode,
        *[learner.episode - 1] * 2,
    )
    believe(arrays, 0)
    lower = arrays.model.problem.env_cost
    counts = learner.counts.agents.toarray().reshape(2, 3, 3)
    constant = cost_constant_of(UCRL2_INTERVALS, 40 * 4, 6, 0.1)
    for d in range(2):
        for s in range(3):
            n = counts[d, s].sum()
            least, most = task.env_cost[s].min(), task.env_cost[s].max()
            mean = counts[d, s] @ task.env_cost[s] / n if n else least
            radius = 0.05 * (most - least) * np.sqrt(constant / max(1, n))
            assert lower[s, d] == pytest.approx(
                max(least, mean - radius) if n else least, abs=1e-9
            )  # costs are kept in units of 2^-30


def test_ucrl2_learns_macro_riverswim_where_costs_depend_on_the_action():
    mdp = cede.worlds.riverswim(agents=[0.0, 1.0], macro=2)
    history = cede.simulate(mdp, cede.ucrl2(mdp.task, radius="same-form"), 3000, progress=False)
    worst = cede.simulate(mdp, cede.fixed(mdp.task, 0), 3000, progress=False)
    assert history.regret[-1] < 0.7 * worst.regret[-1]
    tenth = len(history.regret) // 10
    assert history.regret[-1] - history.regret[-tenth] < 0.5 * history.regret[tenth]


def test_learners_never_see_the_truth():
    """Every algorithm but oracle takes a task, and no array of a task depends on the probabilities."""
    for algorithm in (cede.ucrl2_mc, cede.ucrl2, cede.greedy, cede.fixed):
        assert next(iter(inspect.signature(algorithm).parameters)) == "task"
        with pytest.raises(ValueError, match=r"must be a Task, as in mdp\.task"):
            algorithm(cede.worlds.riverswim(), *(["p=0"] if algorithm is cede.fixed else []))
    one, other = cede.worlds.riverswim(agents=[0.25, 0.75]), cede.worlds.riverswim(agents=[0.25, 0.75], version="strehl-littman")
    for name, value in vars(one.task).items():
        np.testing.assert_array_equal(value, getattr(other.task, name))


def test_a_learner_in_ones_own_system():
    """Snippet 4 of the design, with a task that was never part of an mdp."""
    task = cede.Task(env_cost=[[0.0], [1.0]], agents=["person", "program"], horizon=3, switch_cost=0.1, start_agent="program")
    learner = cede.ucrl2_mc(task, scale=0.1)
    rng = np.random.default_rng(0)
    for _ in range(40):
        agent, state = task.start_agent, 0
        for t in range(task.horizon):
            prev_agent, agent = agent, learner.choose(t, state, agent)
            action, next_state = 0, int(rng.random() < 0.5)
            learner.observe(t, state, prev_agent, agent, action, next_state)
            state = next_state
        learner.end_episode()
    assert learner.counts.episodes == 40
    assert learner.episode == 41
    assert learner.counts.environment.sum() == 120


def test_an_override_counts_for_who_really_acted():
    task = cede.worlds.riverswim().task
    learner = cede.ucrl2_mc(task)
    chosen = learner.choose(0, 0, 0)
    learner.observe(0, 0, 0, 1 - chosen, 1, 1)
    learner.end_episode()
    assert learner.counts.agents[(1 - chosen) * task.n_states + 0, 1] == 1
    assert learner.counts.agents.sum() == 1


def test_keeping_the_plan_for_an_episode():
    mdp = cede.worlds.riverswim()
    learner = cede.ucrl2_mc(mdp.task)
    plan = learner.plan
    learner.observe_episode(play(mdp, 1, 0)[0])
    learner.end_episode(replan=False)
    assert learner.plan is plan
    assert learner.counts.episodes == 1


def test_ties_of_neighbouring_seeds_and_episodes_are_unrelated():
    mdp = cede.worlds.riverswim(agents=[0.5, 0.5])
    flat = [cede.ucrl2_mc(mdp.task, seed=seed).plan.policy[:, :, 0].ravel() for seed in range(6)]
    for a, b in pairwise(flat):
        for shift in (-1, 0, 1):
            assert 0.3 < np.mean(np.roll(a, shift) == b) < 0.7


def test_a_known_agent_that_flips_coins_still_ties():
    """Where all actions are equal, an agent's mean is that value, without rounding."""
    mdp = cede.worlds.riverswim(agents=[0.1, 0.7])
    known = {a.name: a.policy for a in mdp.team.agents}
    learner = cede.ucrl2_mc(mdp.task, known_agents=known)  # nothing is known of the river: all is a tie
    shares = np.bincount(learner.plan.policy.ravel(), minlength=2) / learner.plan.policy.size
    assert (shares > 0.3).all()


def test_what_is_observed_counts_when_the_episode_ends():
    mdp = cede.worlds.riverswim()
    learner = cede.ucrl2_mc(mdp.task)
    episode = play(mdp, 1, 0)[0]
    learner.observe_episode(episode)
    assert learner.counts.environment.sum() == 0
    with pytest.raises(ValueError, match="the number of steps observed already is 20, must be 0"):
        learner.observe_episode(episode)
    with pytest.raises(ValueError, match="observe: this episode is observed already"):
        learner.observe(0, 0, 0, 0, 0, 0)
    learner.end_episode()
    assert learner.counts.environment.sum() == 20


def test_a_schedule_that_fails_loses_nothing():
    mdp = cede.worlds.riverswim()
    learner = cede.ucrl2_mc(mdp.task, scale=cede.Scale(agents=lambda k: 1.0 if k == 1 else -1.0))
    learner.observe_episode(play(mdp, 1, 0)[0])
    plan = learner.plan
    with pytest.raises(ValueError, match=r"Scale, episode 2: agents is -1\.0"):
        learner.end_episode()
    assert learner.episode == 1
    assert learner.counts.environment.sum() == 0
    assert learner.plan is plan


def test_beliefs_are_snapshots():
    mdp = cede.worlds.riverswim()
    learner = cede.ucrl2_mc(mdp.task)
    cede.simulate(mdp, learner, 5)
    agents, environment = learner.beliefs
    before = optimistic_plan(mdp.task, agents, environment).value
    cede.simulate(mdp, learner, 200)
    np.testing.assert_array_equal(optimistic_plan(mdp.task, agents, environment).value, before)
