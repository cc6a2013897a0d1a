"""Learners that are not cede's own: whatever has choose, observe and end_episode."""

from types import SimpleNamespace

import numpy as np
import pytest

import cede
from cede.learners.protocol import SwitchingLearner
from problems import random_mdp


class Wrapped:
    """A learner of cede behind a plain object; `shows` whether it shows its plan."""

    def __init__(self, inside, shows=True):
        self.inside, self.shows, self.task = inside, shows, inside.task

    def choose(self, *place):
        return self.inside.choose(*place)

    def observe(self, *step, **charged):
        self.inside.observe(*step, **charged)

    def end_episode(self):
        self.inside.end_episode()

    @property
    def plan(self):
        return self.inside.plan if self.shows else None


class Bandit:
    """Plays one agent for whole episodes: each once, then the cheapest on average, with a little luck."""

    def __init__(self, task):
        self.task, self.sums, self.times, self.arm = task, np.zeros(task.n_agents), np.zeros(task.n_agents), 0
        self.rng, self.episodes = np.random.default_rng(0), []

    def choose(self, t, state, prev_agent):
        return self.arm

    def observe(self, t, state, prev_agent, agent, action, next_state, *, cost, enter_cost):
        self.sums[agent] += self.task.step_cost(state, prev_agent, agent, cost, enter_cost)

    def end_episode(self):
        self.times[self.arm] += 1
        self.episodes.append(self.arm)
        unseen = np.flatnonzero(self.times == 0)
        best = int(np.argmin(self.sums / np.maximum(self.times, 1)))
        self.arm = int(unseen[0]) if len(unseen) else best if self.rng.random() > 0.1 else int(self.rng.integers(len(self.times)))


class OpenBandit(Bandit):
    """The same, but it shows what it does."""

    @property
    def policy(self):
        return self.task.always(self.arm)


def with_ends():
    base = random_mdp(4, n_states=5, n_actions=2, n_agents=2, horizon=6, kinds=[None])
    costs = np.random.default_rng(1).random((5, 2, 7))
    costs[4] = 0.0
    environment = cede.Environment(
        base.environment.transition, costs, [0.5, 0.5, 0.0, 0.0, 0.0], terminal=[4], enter_cost=[0.0, 0.1, 0.0, 0.2, 1.0]
    )
    return cede.TwoLayerMDP(environment, base.team, 6, discount=0.9)


def slow():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    agents = [mdp.team.agents[0], cede.Agent("late", mdp.team.agents[1].policy, 0.1, takeover_delay=2)]
    return cede.TwoLayerMDP(mdp.environment, cede.Team(agents, 0.05), mdp.horizon)


PROBLEMS = {
    "river": lambda: cede.worlds.riverswim([0.3, 0.7]),
    "ends, random costs, a discount": with_ends,
    "slow hand-overs": slow,
    "varying agents": lambda: random_mdp(6, n_states=4, n_agents=2, horizon=4, kinds=["time", "prev_agent"]),
}
LEARNERS = {
    "ucrl2_mc": lambda task: cede.ucrl2_mc(task, scale=0.2),
    "greedy planning": lambda task: cede.ucrl2_mc(task, scale=0.2, planning="greedy"),
    "limits": lambda task: cede.ucrl2_mc(task, scale=0.2, at_most={task.members[1]: 0.5}),
    "costs not known": lambda task: cede.ucrl2_mc(task.with_unknown_costs((-50.0, 50.0)), scale=0.2),
    "fixed": lambda task: cede.fixed(task, 1),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_wrapped_learner_has_the_history_of_the_compiled_run(problem, name):
    mdp = PROBLEMS[problem]()
    own, inside = LEARNERS[name](mdp.task), LEARNERS[name](mdp.task)
    compiled = cede.simulate(mdp, own, 25, seed=5, progress=False)
    called = cede.simulate(mdp, Wrapped(inside), 25, seed=5, progress=False)
    for column in ("cost", "control", "switches"):
        np.testing.assert_array_equal(getattr(called, column), getattr(compiled, column))
    np.testing.assert_allclose(called.expected_cost, compiled.expected_cost, rtol=1e-12)
    if name != "limits":  # whose optimum is that of the limits, of which nobody outside knows
        assert called.optimum == pytest.approx(compiled.optimum, rel=1e-12)
        np.testing.assert_allclose(called.regret, compiled.regret, rtol=1e-9, atol=1e-9)
    assert called.settings["regret"] == "exact"
    assert called.agents == compiled.agents
    np.testing.assert_array_equal(inside.counts.environment.toarray(), own.counts.environment.toarray())


@pytest.mark.parametrize("discount", [0.9, None])
def test_a_wrapped_learner_without_horizon(discount):
    river = cede.worlds.riverswim([0.3, 0.7], horizon=None, discount=discount)
    own, inside = (cede.ucrl2_mc(river.task, scale=0.2) for _ in range(2))
    compiled = cede.simulate(river, own, steps=600, record_every=60, seed=2, progress=False)
    called = cede.simulate(river, Wrapped(inside), steps=600, record_every=60, seed=2, progress=False)
    for column in ("cost", "control", "switches"):
        np.testing.assert_array_equal(getattr(called, column), getattr(compiled, column))
    for column in ("expected_cost", "regret"):
        np.testing.assert_allclose(getattr(called, column), getattr(compiled, column), rtol=1e-6, atol=1e-6)
    assert called.optimum == pytest.approx(compiled.optimum, rel=1e-6)
    with pytest.raises(ValueError, match="History: realised_regret is asked for, must be asked for where episodes have an end"):
        called.realised_regret  # noqa: B018


def test_a_run_that_ends_and_begins_again():
    mdp = with_ends()
    mdp = cede.TwoLayerMDP(mdp.environment, mdp.team, None, discount=0.9)
    own, inside = (cede.ucrl2_mc(mdp.task, scale=0.2) for _ in range(2))
    compiled = cede.simulate(mdp, own, steps=300, record_every=30, seed=2, progress=False)
    called = cede.simulate(mdp, Wrapped(inside), steps=300, record_every=30, seed=2, progress=False)
    np.testing.assert_array_equal(called.cost, compiled.cost)
    np.testing.assert_allclose(called.regret, compiled.regret, rtol=1e-6, atol=1e-6)


def test_generators_are_left_where_the_compiled_run_leaves_them():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    for make in (np.random.default_rng, lambda seed: np.random.Generator(np.random.MT19937(seed))):
        one, two = make(3), make(3)
        first = cede.simulate(mdp, cede.fixed(mdp.task, 0), 4, seed=one, progress=False)
        second = cede.simulate(mdp, Wrapped(cede.fixed(mdp.task, 0)), 4, seed=two, progress=False)
        np.testing.assert_array_equal(first.cost, second.cost)
        assert one.random() == two.random()


def test_a_bandit_by_hand_without_a_policy_has_no_regret_that_could_be_mistaken_for_exact():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    hidden, shown = Bandit(mdp.task), OpenBandit(mdp.task)
    unknown, known = (cede.simulate(mdp, one, 60, seed=1, progress=False) for one in (hidden, shown))
    np.testing.assert_array_equal(unknown.cost, known.cost)
    assert np.isnan(unknown.regret).all()
    assert np.isnan(unknown.expected_cost).all()
    assert unknown.settings["regret"].startswith("not known: the learner shows no policy")
    assert known.settings["regret"] == "exact"
    each = [cede.expected_cost(mdp, mdp.task.always(agent)) for agent in range(2)]
    np.testing.assert_allclose(known.regret, np.cumsum([each[arm] - known.optimum for arm in shown.episodes[:60]]), rtol=1e-12)
    np.testing.assert_allclose(unknown.realised_regret, np.cumsum(known.cost) - np.arange(1, 61) * known.optimum)
    assert shown.sums.sum() == pytest.approx(known.cost.sum())  # it was told all that was charged
    assert unknown.settings["learner"] == "Bandit"
    assert isinstance(hidden, SwitchingLearner)
    assert isinstance(cede.fixed(mdp.task, 0), SwitchingLearner)


def test_a_policy_that_is_shown_now_and_then():
    """From the first episode on of which the cost is not known, the sum is not known."""
    mdp = cede.worlds.riverswim([0.3, 0.7])
    one = OpenBandit(mdp.task)
    told = Bandit(mdp.task)
    told.policy = None

    class Coy(Bandit):
        @property
        def policy(self):
            return self.task.always(self.arm) if len(self.episodes) < 10 else None

    history = cede.simulate(mdp, Coy(mdp.task), 20, seed=1, progress=False)
    whole = cede.simulate(mdp, one, 20, seed=1, progress=False)
    np.testing.assert_array_equal(np.isnan(history.regret), np.arange(20) >= 10)
    np.testing.assert_array_equal(history.regret[:10], whole.regret[:10])
    assert history.settings["regret"].startswith("not known")
    assert np.isnan(cede.simulate(mdp, told, 2, progress=False).regret).all()


def test_evaluation_at_intervals():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    own, called = cede.ucrl2_mc(mdp.task, scale=0.3), Wrapped(cede.ucrl2_mc(mdp.task, scale=0.3))
    runs = [cede.simulate(mdp, one, 20, evaluate_every=3, progress=False) for one in (own, called)]
    np.testing.assert_allclose(runs[0].regret, runs[1].regret, rtol=1e-12)
    assert runs[1].settings["regret"] == "exact in one of 3 episodes, drawn at random, which stands for all of them"


def test_a_learner_that_overrides_a_method_runs_as_it_says():
    """Compiled code would not ask it."""

    class Stubborn(cede.Learner):
        plan = None

        def choose(self, t, state, prev_agent):
            return 1

    mdp = cede.worlds.riverswim([0.3, 0.7])
    stubborn = Stubborn(mdp.task, cede.ucrl2_mc(mdp.task).settings)
    history = cede.simulate(mdp, stubborn, 5, progress=False)
    assert history.control.sum(axis=0).tolist() == [0, 100]


class Liar(Bandit):
    @property
    def policy(self):
        return self.task.always(1 - self.arm)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda task: None, "simulate: learner is None, must be a Learner, or anything with choose, observe and end_episode"),
        (lambda task: Bandit, "simulate: learner is .*, must be a Learner, or anything with choose"),
        (lambda task: SimpleNamespace(choose=len, observe=len), "end_episode: it has no end_episode"),
        (Liar, r"simulate: what choose answered at policy\[0, \d, 0\] is 0, must be 1, as the learner shows; one that chooses"),
        (lambda task: Answering(7), "simulate: what choose answered is 7, must be an integer from 0 to 1"),
        (lambda task: Answering("me"), "simulate: what choose answered is 'me', must be one of 'p=0.3', 'p=0.7'"),
        (lambda task: Answering(0, policy=np.zeros((3, 3), int)), "simulate, policy of the learner: the shape of policy is"),
        (lambda task: Answering(0, task=cede.worlds.riverswim([0.1, 0.2, 0.3]).task), "simulate: the learner's agents is"),
    ],
)
def test_wrong_learners(make, message):
    mdp = cede.worlds.riverswim([0.3, 0.7])
    with pytest.raises(ValueError, match=message):
        cede.simulate(mdp, make(mdp.task), 3, progress=False)


class Answering:
    def __init__(self, answer, **more):
        self.answer, self.dropped = answer, 0
        vars(self).update(more)

    def choose(self, t, state, prev_agent):
        return self.answer

    def observe(self, *step, cost, enter_cost):
        self.step = step

    def end_episode(self):
        pass

    def drop_episode(self):
        self.dropped += 1


def test_names_will_do_and_a_failure_drops_the_episode():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    named = Answering("p=0.7")
    assert cede.simulate(mdp, named, 3, progress=False).control[:, 1].tolist() == [20] * 3
    assert named.dropped == 0
    wrong = Answering("nobody")
    with pytest.raises(ValueError, match="what choose answered"):
        cede.simulate(mdp, wrong, 3, progress=False)
    assert wrong.dropped == 1
    late = slow()
    with pytest.raises(ValueError, match=r"what choose answered is 'late', must be an agent to whom 'p=0.3' can hand control"):
        cede.simulate(late, Answering(1), 3, progress=False)


def test_in_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    task = cede.gym.task_for(env, ["down", "right"], 20, cost=0.0, over_cost=0.5)
    team = {"down": lambda s: 1, "right": lambda s: 2}
    own, inside = cede.ucrl2_mc(task, scale=0.1), Wrapped(cede.ucrl2_mc(task, scale=0.1))
    inside.task = None
    first = cede.gym.run(env, team, own, episodes=15, seed=1, progress=False)
    second = cede.gym.run(env, team, inside, episodes=15, seed=1, task=task, progress=False)
    np.testing.assert_array_equal(first.cost, second.cost)
    np.testing.assert_array_equal(first.control, second.control)
    assert second.settings["learner"] == "Wrapped"
    with pytest.raises(ValueError, match="run: task is None, must be a Task: the learner has none of its own"):
        cede.gym.run(env, team, inside, episodes=1)
    with pytest.raises(ValueError, match="run: task is given, must be left out: the learner has its own"):
        cede.gym.run(env, team, own, episodes=1, task=cede.gym.task_for(env, ["down", "right"], 20, cost=0.0))
    with pytest.raises(ValueError, match="run: learner is 3, must be a Learner, or anything with choose"):
        cede.gym.run(env, team, 3, episodes=1)
    bandit = Bandit(task)
    assert cede.gym.run(env, team, bandit, episodes=12, progress=False).cost.shape == (12,)
    assert len(bandit.episodes) >= 12  # more where the environment went on beyond the horizon
