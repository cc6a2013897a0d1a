"""Replayed data and changing worlds: costs and regret are those of a slow twin; the same bits as one run where nothing changes."""

import re
from itertools import product

import numpy as np
import pytest

import cede


class Always:
    """A foreign learner that always chooses one agent; it keeps what it observed."""

    def __init__(self, agent):
        self.agent, self.seen = agent, []

    def choose(self, t, state, prev_agent):
        return self.agent

    def observe(self, t, state, prev_agent, agent, action, next_state, *, cost, enter_cost):
        self.seen.append((t, state, prev_agent, agent, action, next_state, cost))

    def end_episode(self):
        self.seen.append(None)


def data(seed=0, n=60, agents=3, states=3):
    rng = np.random.default_rng(seed)
    return rng.integers(0, states, n), rng.random((n, agents)), rng.integers(0, 17, n)


CONTROL, SWITCH = [0.0, 0.1, 0.3], [[0.0, 0.2, 0.4], [0.1, 0.0, 0.2], [0.0, 0.3, 0.0]]


def slow_cost(states, cost, episode, choice, switch):
    """The cost of each episode, by key, if the agent depends on the state alone."""
    total = {}
    for key in dict.fromkeys(episode.tolist()):
        before = 0
        for i in np.flatnonzero(episode == key):
            agent = choice[states[i]]
            total[key] = total.get(key, 0.0) + cost[i, agent] + CONTROL[agent] + switch[before][agent]
            before = agent
    return total


@pytest.mark.parametrize("switch", [np.zeros((3, 3)).tolist(), SWITCH])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_choice_in_hindsight_is_that_of_brute_force(switch, seed):
    states, cost, episode = data(seed)
    made = cede.replay(states, cost, episode=episode, control_cost=CONTROL, switch_cost=switch)
    totals = {choice: slow_cost(states, cost, episode, choice, switch) for choice in product(range(3), repeat=3)}
    best = min(totals.values(), key=lambda total: sum(total.values()))
    np.testing.assert_allclose(made.best, list(best.values()), atol=1e-12)
    np.testing.assert_allclose(made.alone, [np.mean(list(totals[(d,) * 3].values())) for d in range(3)])


def test_a_run_presents_the_items_and_charges_what_was_logged():
    states, cost, episode = data()
    made = cede.replay(states, cost, episode=episode, control_cost=CONTROL, switch_cost=SWITCH, order="given")
    learner = Always(2)
    history = cede.simulate(made, learner, made.episodes, progress=False)
    expected = slow_cost(states, cost, episode, (2, 2, 2), SWITCH)
    np.testing.assert_allclose(history.cost, list(expected.values()))
    np.testing.assert_allclose(history.regret, np.cumsum(np.array(list(expected.values())) - made.best))
    assert history.control.sum(axis=0).tolist() == [0, 0, 60]
    first = np.flatnonzero(episode == episode[0])
    steps = [
        (t, states[i], 0 if t == 0 else 2, 2, 2, *((states[first[t + 1]],) if t + 1 < len(first) else (3,)), cost[i, 2])
        for t, i in enumerate(first)
    ]
    assert learner.seen[: len(first)] == steps
    assert learner.seen[len(first)] is None
    shuffled = cede.replay(states, cost, episode=episode, control_cost=CONTROL, switch_cost=SWITCH)
    again, other, same = (cede.simulate(shuffled, Always(2), made.episodes, seed=seed, progress=False) for seed in (0, 1, 0))
    assert not np.array_equal(again.cost, other.cost)
    np.testing.assert_array_equal(again.cost, same.cost)
    np.testing.assert_allclose(np.sort(again.cost), np.sort(history.cost))
    np.testing.assert_allclose(again.regret[-1], history.regret[-1])


def test_outcomes_with_known_costs_and_names():
    kinds = ["hard", "easy", "hard", "easy"] * 20
    wrong = np.array([[True, False], [False, False]] * 40)
    made = cede.replay(
        kinds,
        outcomes=wrong,
        outcome_cost=[0.0, 1.0],
        agents=["small", "large"],
        control_cost={"large": 0.1},
        outcome_names=["right", "wrong"],
    )
    assert made.task.state_names == ("easy", "hard", "over")
    assert [made.task.agents[d] for d in made.choice[:2]] == ["small", "large"]
    assert made.best.mean() == pytest.approx(0.05)
    np.testing.assert_allclose(made.alone, [0.5, 0.1])
    learner = cede.recommended(made.task)
    history = cede.simulate(made, learner, 80, progress=False)
    assert history.regret[-1] < 40 * 0.5
    assert learner.choose(0, "hard", "small") == "large"
    result = cede.compare({"q": made}, {"learned": "recommended", "large": lambda task, seed: Always(1)}, 40, 2, progress=False)
    np.testing.assert_allclose(result.cost[0, 1], 0.1)
    assert np.isfinite(result.regret).all()


def test_what_cannot_be_replayed_is_refused():
    states, cost, _ = data(n=4)
    for arguments, text in (
        ((states,), "cost is left out, must be given"),
        ((states, cost[:3]), "the shape of cost is (3, 3), must be (N, D) = (4, any)"),
        ((["a", "", "b", "c"], cost), "states[1] is ''"),
        ((-states - 1, cost), "states is"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"replay: {text}")):
            cede.replay(*arguments)
    for options, text in (
        ({"agents": ["a"]}, "the number of agents is 1, must be 3"),
        ({"episode": [0, 1]}, "the length of episode is 2, must be 4"),
        ({"episode": [0, 1, None, 2]}, "episode[2] is None, must be a number or a name"),
        ({"order": "random"}, "order is 'random', must be one of 'shuffled', 'given'"),
        ({"switch_cost": np.where(np.eye(3) > 0, 0, np.inf)}, "switch_cost is infinite for some hand-overs"),
        ({"outcome_cost": [1.0]}, "cost is given, must be given, (N, D), or else outcomes"),
        ({"outcomes": [[0, 1]]}, "outcomes is of shape (1, 2)"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"replay: {text}")):
            cede.replay(states, cost, **options)
    made = cede.replay(states, cost)
    with pytest.raises(ValueError, match="episodes is 9, must be at most 4, those of the data"):
        cede.simulate(made, Always(0), 9)
    with pytest.raises(ValueError, match="the learner's states is"):
        cede.simulate(made, cede.recommended(cede.worlds.support_desk().task), 2)
    with pytest.raises(ValueError, match="oracle is asked for, must be left out: there is no model"):
        cede.compare({"q": made}, ["oracle"], 2, 1)


# ------------------------------------------------------------------------------------------------- changing worlds


def rivers():
    return cede.worlds.riverswim(agents=[0.3, 0.7]), cede.worlds.riverswim(agents=[0.3, 0.7])


def turned(mdp):
    """The same task, where the two agents have exchanged their ways."""
    first, second = mdp.team.agents
    agents = [cede.Agent(first.name, second.policy), cede.Agent(second.name, first.policy)]
    return cede.TwoLayerMDP(mdp.environment, cede.Team(agents, mdp.team.switch_cost), mdp.horizon)


@pytest.mark.parametrize("make", [lambda task: cede.ucrl2_mc(task, scale=0.1, seed=3), lambda task: Always(1)])
def test_a_world_that_does_not_change_gives_the_same_bits(make):
    mdp, same = rivers()
    one = cede.simulate(mdp, make(mdp.task), 30, seed=5, progress=False)
    two = cede.simulate(cede.worlds.Changing([(0, mdp), (12, same)]), make(mdp.task), 30, seed=5, progress=False)
    for name in ("cost", "control", "switches", "expected_cost"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_allclose(one.regret, two.regret, atol=1e-9)
    assert two.settings["changes"] == "[12]"


def test_regret_is_against_the_best_policy_of_the_world_in_force():
    mdp, _ = rivers()
    other = turned(mdp)
    world = cede.worlds.Changing([(0, mdp), (10, other)])
    history = cede.simulate(world, cede.fixed(mdp.task, 1), 25, seed=0, progress=False)
    lost = [cede.expected_cost(one, mdp.task.always(1)) - cede.expected_cost(one, cede.solve(one)) for one in (mdp, other)]
    np.testing.assert_allclose(history.regret, np.cumsum([lost[0]] * 10 + [lost[1]] * 15), atol=1e-9)
    result = cede.compare({"turn": world}, {"learned": "recommended", "fixed": ("fixed", {"agent": 1})}, 25, 2, progress=False)
    np.testing.assert_allclose(result.regret[0, 1, 0], history.regret)
    assert len(cede.simulate(world, cede.fixed(mdp.task, 1), 5, progress=False).cost) == 5  # ends before the change


def test_wrong_phases_are_refused():
    mdp, _ = rivers()
    for phases, text in (
        (3, "phases is 3, must be pairs"),
        ([mdp], "phases[0] is"),
        ([(5, mdp)], "phases is"),
        ([(0, mdp), (0, mdp)], "the first episode of phases[1] is 0, must be an integer of at least 1"),
        ([(0, mdp.task)], "the world of phases[0] is"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"Changing: {text}")):
            cede.worlds.Changing(phases)
    changing = cede.worlds.Changing([(0, mdp), (2, cede.worlds.support_desk())])
    with pytest.raises(ValueError, match="the learner's states"):
        cede.simulate(changing, cede.fixed(mdp.task, 1), 5)
