"""Gymnasium in: encoders, actors, and the loop. What goes out is in test_switching_env.py."""

import io
import os
import time

import gymnasium
import numpy as np
import pytest

import cede
from cede.features.encode import Grid
from cede.gym.actors import keyboard as lines_typed
from cede.gym.live import encoder_of

# ------------------------------------------------------------------------------------------------- encoders


def test_spaces_of_whole_numbers_need_no_help():
    assert encoder_of("test", gymnasium.spaces.Discrete(5, start=2))(np.int64(4)) == 2
    grid = encoder_of("test", gymnasium.spaces.MultiDiscrete([2, 3]))
    assert [grid(place) for place in ([0, 0], [0, 2], [1, 0], [1, 2])] == [0, 2, 3, 5]
    assert grid.n_states == 6
    assert grid.names[5] == "1 2"
    with pytest.raises(ValueError, match=r"the observation is \[2, 0\], must be whole numbers below \(2, 3\)"):
        Grid((2, 3), (0, 0))([2, 0])
    with pytest.raises(ValueError, match=r"run: encode is None for Box.*, must be given: a function from observations to states"):
        encoder_of("run", gymnasium.spaces.Box(0, 1))


def test_uniform_bins():
    bins = cede.gym.uniform_bins([-1, 0], [1, 10], [4, 5], labels=["x", "y"])
    assert bins.n_states == 20
    assert [bins([x, 0]) // 5 for x in (-9, -1, -0.51, -0.5, 0, 0.5, 1, 9)] == [0, 0, 0, 1, 2, 3, 3, 3]
    assert bins.names[0] == "x=below -0.5, y=below 2"
    assert bins.names[-1] == "x=from 0.5, y=from 8"
    assert len(set(bins.names)) == 20
    with pytest.raises(ValueError, match=r"low and high is .* must be finite numbers"):
        cede.gym.uniform_bins([-np.inf], [1], 3)
    with pytest.raises(ValueError, match="must be 2 numbers"):
        bins([1.0])


def test_too_many_states_and_names_that_differ():
    with pytest.raises(ValueError, match="the number of states is 18446744073709551616, must be at most"):
        encoder_of("test", gymnasium.spaces.MultiDiscrete([65536] * 4))
    assert len(set(cede.gym.uniform_bins(1000, 1001, 4).names)) == 4
    with pytest.raises(ValueError, match="must be whole numbers"):
        Grid((3,), (0,))(0.5)


def test_quantile_bins():
    data = np.random.default_rng(0).exponential(size=(10_000, 2))
    bins = cede.gym.quantile_bins(data, [4, 5])
    found = np.bincount([bins(row) for row in data], minlength=20)
    assert found.min() > 350
    assert found.max() < 650
    assert cede.gym.quantile_bins(np.zeros((10, 1)), 4).n_states <= 2  # nothing to tell apart
    with pytest.raises(ValueError, match=r"observations is .* must be a"):
        cede.gym.quantile_bins([[[1.0]]], 3)
    with pytest.raises(ValueError, match="the number of states is 10000000000, must be at most"):
        cede.gym.uniform_bins([0] * 10, [1] * 10, 10)


# ------------------------------------------------------------------------------------------------- actors


def test_anything_acts():
    rng = np.random.default_rng(0)
    for how in ([[0.0, 1.0]], cede.Agent("a", [[0.0, 1.0]]), lambda state: 1, lambda state: [0.0, 1.0], lambda state: np.int64(1)):
        assert cede.gym.actor("a", how).act(None, 0, rng) == 1
    assert cede.gym.actor("a", lambda state: np.array([1])).act(None, 0, rng) == 1  # as policies for batches give it
    assert cede.gym.actor("a", lambda o: int(o > 3), sees="observation").act(5, 0, rng) == 1
    with pytest.raises(ValueError, match=r"actor 'a': what it answered is 0.5, must be an action, or the probabilities"):
        cede.gym.actor("a", lambda state: 0.5).act(None, 0, rng)
    with pytest.raises(ValueError, match=r"what it answered sums to 0.9"):
        cede.gym.actor("a", lambda state: [0.4, 0.5]).act(None, 0, rng)


def test_functions_become_tables():
    agent = cede.gym.tabulated("a", lambda s: s % 2 if s else [0.3, 0.7], 3, 2, control_cost=0.1)
    np.testing.assert_array_equal(agent.policy, [[0.3, 0.7], [0, 1], [1, 0]])
    assert agent.control_cost == 0.1
    with pytest.raises(ValueError, match="what it answered in state 0 is 2, must be an integer from 0 to 1"):
        cede.gym.tabulated("a", lambda s: 2, 3, 2)


class Model:
    """Has what is used of a model of Stable-Baselines3."""

    def predict(self, observation, deterministic=False):
        return np.array([int(observation[0] > 0)]), None


def test_models_act():
    agent = cede.gym.agent_from_sb3(Model(), lambda observation: -np.asarray(observation), name="net")
    assert agent.act([-1.0], 0, np.random.default_rng(0)) == 1
    agent = cede.gym.agent_from_sb3(type("Steering", (), {"predict": lambda *_, **__: (np.array([0.9, -3.0]), None)})())
    with pytest.raises(ValueError, match=r"what the model predicted is .*, must be one of the actions"):
        agent.act([0.0], 0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="model is 3, must be a model with predict"):
        cede.gym.agent_from_sb3(3)


@pytest.fixture
def keyboard():
    """A person's keyboard: a pipe."""
    read, write = os.pipe()
    with os.fdopen(read) as source, os.fdopen(write, "w") as keys:
        yield source, keys


def type_in(keys, text):
    keys.write(text)
    keys.flush()


def test_a_person_answers_or_is_stood_in_for(keyboard):
    source, keys = keyboard
    screen = io.StringIO()
    rng = np.random.default_rng(0)
    person = cede.gym.ConsoleAgent("you", ["left", "right"], lambda state: 0, timeout=0.3, source=source, target=screen)
    assert person.act(None, 7, rng) == 0  # nobody typed
    assert person.taken_by_fallback == 1
    assert "you: state 7. 0 left, 1 right? (0.3 s)" in screen.getvalue()
    type_in(keys, "right\n")  # too late: no answer to the next question
    while lines_typed(source).empty():
        time.sleep(0.01)
    assert person.act(None, 7, rng) == 0

    class Screen(io.StringIO):
        text = ""  # what the person types at the next question

        def flush(self):
            if self.text:
                type_in(keys, self.text)
                self.text = ""

    screen = Screen()
    patient = cede.gym.ConsoleAgent("you", ["left", "right"], lambda state: 0, timeout=600, source=source, target=screen)

    def answer(text):
        screen.text = text
        return patient.act(None, 1, rng)

    assert answer("right\n") == 1
    assert answer("up\n1\n") == 1  # asked again
    assert "'up' is none of them" in screen.getvalue()
    keys.close()  # they have gone
    assert patient.act(None, 1, rng) == 0
    assert patient.act(None, 1, rng) == 0
    with pytest.raises(ValueError, match="actions is 'left', must be names"):
        cede.gym.ConsoleAgent("you", "left", lambda state: 0)


# ------------------------------------------------------------------------------------------------- the loop


class Corridor(gymnasium.Env):
    """Cells 0 to 4; action 1 goes right. The last cell ends it; after `limit` steps it is cut off."""

    observation_space = gymnasium.spaces.Discrete(5)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, limit=100):
        self.limit = limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.t = 0, 0
        return self.cell, {}

    def step(self, action):
        self.cell += int(action)
        self.t += 1
        return self.cell, -1.0, self.cell == 4, self.t == self.limit, {}


def corridor_task(env, horizon, **more):
    return cede.gym.task_for(env, ["walker", "sitter"], horizon, cost=1.0, **more)


WALKERS = {"walker": lambda state: 1, "sitter": lambda state: 0}


def test_the_end_is_a_state_of_its_own():
    env = Corridor()
    task = corridor_task(env, 8, over_cost=0.25, control_cost=[0.5, 0.0], switch_cost=0.125)
    assert task.n_states == 6
    assert task.state_names[-1] == "over"
    np.testing.assert_array_equal(task.env_cost[:, 0], [1, 1, 1, 1, 1, 0.25])
    learner = cede.fixed(task, "walker")
    history = cede.gym.run(env, WALKERS, learner, episodes=3)
    assert history.returns.tolist() == [-4] * 3
    assert history.lengths.tolist() == [4] * 3
    assert history.terminated.all()
    assert history.cost.tolist() == [4 * 1.5 + 4 * 0.25] * 3  # after the end every step that is left costs 0.25, and nothing else
    assert history.control.tolist() == [[4, 0]] * 3
    counts = learner.counts.environment.toarray().reshape(6, 2, 6)
    assert counts[3, 1, 5] == 3  # into the end
    assert counts[5].sum() == 0  # where nothing is left to learn
    assert learner.counts.agents.sum() == 3 * 4  # of agents only what they did


def test_cut_off_is_not_the_end():
    env = Corridor(limit=3)
    learner = cede.fixed(corridor_task(env, 8), "sitter")
    history = cede.gym.run(env, WALKERS, learner, episodes=2)
    assert not history.terminated.any()
    assert history.switches.tolist() == [1, 1]
    counts = learner.counts.environment.toarray().reshape(6, 2, 6)
    assert counts[5].sum() == 0
    assert counts.sum() == 2 * 3
    assert learner.episode == 3


def test_longer_than_the_horizon_is_a_row_of_episodes():
    env = Corridor(limit=10)
    learner = cede.fixed(corridor_task(env, 4), "sitter")
    history = cede.gym.run(env, WALKERS, learner, episodes=1)
    assert history.lengths.tolist() == [10]
    assert learner.episode == 1 + 3
    assert history.switches.tolist() == [1]  # control is not handed back in between


def test_it_learns():
    env = Corridor(limit=30)
    learner = cede.posterior_sampling(corridor_task(env, 12))
    history = cede.gym.run(env, WALKERS, learner, episodes=100)
    assert history.lengths[-10:].tolist() == [4] * 10
    assert history.settings["environment_seed"] == 0


def test_a_problem_from_a_table_is_run_as_it_is_simulated():
    """FrozenLake, by its table and by its own steps: the same mean cost of a policy."""
    env = gymnasium.make("FrozenLake-v1")
    rng = np.random.default_rng(0)
    agents = [cede.Agent(name, rng.dirichlet(np.ones(4), size=16)) for name in ("a", "b")]
    mdp = cede.gym.from_toy_text(env, agents, 20)
    plan = cede.solve(mdp)
    history = cede.gym.run(env, mdp.team, cede.fixed(mdp.task, plan.policy), episodes=3000)
    assert -history.returns.mean() == pytest.approx(cede.expected_cost(mdp, plan.policy), abs=4 * history.returns.std() / 3000**0.5)
    again = cede.gym.run(gymnasium.make("FrozenLake-v1"), mdp.team, cede.fixed(mdp.task, plan.policy), episodes=50)
    np.testing.assert_array_equal(again.cost, history.cost[:50])  # same seed, same numbers


def test_limits_are_of_steps_that_somebody_takes():
    """What comes after the end is nobody's control: it cannot make room for more of it."""
    env = Corridor(limit=3)
    task = cede.gym.task_for(env, ["walker", "sitter"], 20, cost=[4, 3, 2, 1, 0])
    learner = cede.posterior_sampling(task, at_most={"walker": 0.5})
    env.limit = 4
    history = cede.gym.run(env, WALKERS, learner, episodes=400)
    assert history.control[:, 0].sum() / history.lengths.sum() < 0.6


def test_agents_that_look_alike_everywhere_are_learned_from_what_they_did():
    env = Corridor()
    told = cede.Structure(agents={"walker": [0] * 6, "sitter": [0] * 6})
    learner = cede.posterior_sampling(corridor_task(env, 10), structure=told)
    cede.gym.run(env, WALKERS, learner, episodes=20)
    (_, walked), (sat, _) = learner.counts.agents.toarray()
    assert learner.counts.agents.sum() == walked + sat


@pytest.mark.parametrize("ways", [{}, {"planning": "greedy"}, {"baseline": "walker", "alpha": 0.5}])
def test_the_end_is_learned_by_all_learners(ways):
    """Falling off is dear for every step that is left; whoever walks there is not let walk."""
    env = Corridor(limit=12)
    learner = cede.ucrl2_mc(corridor_task(env, 12, over_cost=1.0), **ways)
    cede.gym.run(env, WALKERS, learner, episodes=30)
    assert learner.episode == 31
    record = learner.state.record
    if record.size:  # the steps after the end cost, too
        assert record[1] + record[4] == pytest.approx(30 * 12 * 1.0)


def test_a_plain_function_as_encoder():
    lake = gymnasium.make("FrozenLake-v1")
    walkers = [cede.gym.tabulated(name, lambda s, a=a: a, 16, 4) for name, a in (("down", 1), ("right", 2))]
    mdp = cede.gym.from_toy_text(lake, walkers, 20)
    by_space, by_function = (cede.posterior_sampling(mdp.task) for _ in range(2))
    cede.gym.run(lake, mdp.team, by_space, episodes=30)
    cede.gym.run(lake, mdp.team, by_function, episodes=30, encode=int)
    assert (by_space.counts.environment != by_function.counts.environment).nnz == 0
    env = Corridor()
    with pytest.raises(ValueError, match="the state of an observation is 5, must be an integer from 0 to 4"):
        cede.gym.run(env, WALKERS, cede.fixed(corridor_task(env, 8), 0), episodes=1, encode=lambda o: 5)


def test_after_a_failure_the_learner_is_as_before():
    env, calls = Corridor(), []

    def sometimes(state):
        calls.append(state)
        if len(calls) == 6:
            raise RuntimeError("out of order")
        return 1

    learner = cede.fixed(corridor_task(env, 8), "walker")
    with pytest.raises(RuntimeError, match="out of order"):
        cede.gym.run(env, {**WALKERS, "walker": sometimes}, learner, episodes=3)
    assert learner.observed == 0
    assert learner.episode == 2
    cede.gym.run(env, WALKERS, learner, episodes=1)


def test_teams_with_a_way_of_taking_over():
    env = Corridor(limit=8)
    walk, sit = (np.tile(row, (5, 1)) for row in ([0.0, 1.0], [1.0, 0.0]))
    team = cede.Team([cede.Agent("sitter", sit), cede.Agent("walker", walk, takeover_delay=2, on_takeover=sit)])
    task = cede.gym.task_for(env, ["sitter", "walker"], 8, takeover_delay={"walker": 2}, on_takeover=["walker"])
    history = cede.gym.run(env, team, cede.fixed(task, "walker"), episodes=1)
    assert history.lengths.tolist() == [2 + 4]
    slow = cede.gym.task_for(env, ["walker", "sitter"], 8, takeover_delay={"walker": 2}, start_agent="sitter")
    history = cede.gym.run(env, WALKERS, cede.fixed(slow, "sitter"), episodes=1, override=lambda *_: "walker")
    assert np.isfinite(history.cost).all()
    assert history.control.tolist() == [[4, 2]]


def test_somebody_else_decides():
    env = Corridor()
    learner = cede.fixed(corridor_task(env, 8), "sitter")
    env.limit = 6
    history = cede.gym.run(env, WALKERS, learner, episodes=1, override=lambda t, state, prev, chosen: "walker" if t < 2 else chosen)
    assert history.control[0, 0] == 2
    with pytest.raises(ValueError, match="run: the agent that override gave is 7, must be an integer from 0 to 1"):
        cede.gym.run(env, WALKERS, learner, episodes=1, override=lambda *_: 7)


def test_reaction_times_in_the_loop():
    env = Corridor()
    task = corridor_task(env, 8, takeover_delay={"walker": 2}, start_agent="sitter")
    history = cede.gym.run(env, WALKERS, cede.fixed(task, "walker"), episodes=1)
    assert history.lengths.tolist() == [2 + 4]
    assert history.control.tolist() == [[4, 2]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"team": {"walker": lambda s: 1}},
            r"run: the names of team is \['walker'\], must be those whose policies the learner's task has",
        ),
        ({"team": [lambda s: 1]}, r"run: team\[0\] is .*, must be an Actor or an Agent"),
        (
            {"team": {"walker": lambda s: 5, "sitter": lambda s: 0}},
            "run: the action of 'walker' is 5, must be an integer from 0 to 1",
        ),
        ({"episodes": 0}, "run: episodes is 0, must be an integer of at least 1"),
        ({"encode": lambda o: 77}, "run: the state of an observation is 77, must be an integer from 0 to 4"),
        ({"env": "CartPole-v1"}, "run: env is 'CartPole-v1', must be an environment, as gymnasium.make gives one"),
        ({"learner": WALKERS}, "run: learner is .*, must be a Learner"),
        (
            {"team": {"walker": [[0.5, 0.25, 0.25]] * 6, "sitter": lambda s: 0}},
            "actions of 'walker' is 3, must be 2",
        ),
        ({"env": gymnasium.make("FrozenLake-v1")}, "run: the number of actions of env is 4, must be 2, as in the learner's task"),
        ({"env": gymnasium.make("Pendulum-v1")}, "run: encode is None for Box"),
    ],
)
def test_bad_runs(change, message):
    env = Corridor()
    given = {"env": env, "team": WALKERS, "learner": cede.fixed(corridor_task(env, 8), "walker"), "episodes": 1, **change}
    with pytest.raises(ValueError, match=message):
        cede.gym.run(**given)


def test_bad_tasks():
    with pytest.raises(ValueError, match="cost is 'x', must be a finite number"):
        cede.gym.task_for(Corridor(), ["a"], 3, cost="x")
    assert cede.gym.task_for(Corridor(), ["a"], 3, state_names=list("abcdef")).state_names[5] == "f"
    with pytest.raises(ValueError, match="one that moves by its table P"):
        cede.gym.from_toy_text(gymnasium.make("Taxi-v4", fickle_passenger=True), [], 3)
    with pytest.raises(ValueError, match=r"the shape of cost is \(3,\), must be"):
        cede.gym.task_for(Corridor(), ["a"], 3, cost=[1, 2, 3])
    with pytest.raises(ValueError, match=r"encode is .*, must be a function that says how many states there are"):
        cede.gym.task_for(Corridor(), ["a"], 3, encode=lambda o: 0)
    with pytest.raises(ValueError, match=r"the action space of env is .*, must be Discrete"):
        cede.gym.task_for(gymnasium.make("Pendulum-v1"), ["a"], 3, encode=cede.gym.uniform_bins([-1] * 3, [1] * 3, 2))


# ------------------------------------------------------------------------------------------------- written down


@pytest.mark.parametrize("horizon", [3, 8, None])
def test_a_run_is_recorded(horizon, tmp_path):
    """A learner of the record is the one that ran; overrides are there as such."""
    more = {} if horizon else {"discount": 0.9}
    env, path = Corridor(limit=7), tmp_path / "steps.jsonl"
    task = corridor_task(env, horizon, **more)
    one, two = (cede.ucrl2_mc(task, scale=0.1) for _ in range(2))
    sitting = {"override": lambda t, state, prev, chosen: "sitter" if state == 2 and t % 2 else chosen}
    history = cede.gym.run(env, WALKERS, one, episodes=6, record=path, progress=False, **sitting)
    assert one.recorder is None
    record = cede.read_record(path)
    two.learn_from(record)
    for layer in ("agents", "environment"):
        np.testing.assert_array_equal(getattr(one.counts, layer).toarray(), getattr(two.counts, layer).toarray())
    table = record.episodes()
    assert (table.lengths.sum(), table.switches.sum()) == (history.lengths.sum(), history.switches.sum())
    np.testing.assert_array_equal(table.control.sum(axis=0), history.control.sum(axis=0))
    again = cede.gym.run(env, WALKERS, one, episodes=2, seed=1, record=path, progress=False)
    assert len(cede.read_record(path)) == history.lengths.sum() + again.lengths.sum()


def test_what_fails_in_an_episode_is_recorded_as_dropped(tmp_path):
    env, path = Corridor(), tmp_path / "steps.jsonl"
    learner = cede.ucrl2_mc(corridor_task(env, 8))
    broken = {"walker": lambda state: 1 if state < 2 else 1 / 0, "sitter": lambda state: 1 if state < 2 else 1 / 0}
    with pytest.raises(ZeroDivisionError):
        cede.gym.run(env, broken, learner, episodes=1, record=path, progress=False)
    record = cede.read_record(path)
    assert (len(record), record.dropped.tolist(), learner.recorder) == (2, [True], None)
    assert len(record.log(unfinished=True)["t"]) == 0


def test_a_gym_history_in_other_forms(tmp_path):
    import pandas

    env = Corridor()
    history = cede.gym.run(env, WALKERS, cede.fixed(corridor_task(env, 8), "walker"), episodes=3, progress=False)
    frame = history.to_frame()
    assert frame["returns"].tolist() == history.returns.tolist() == [-4.0] * 3
    assert frame["terminated"].tolist() == [True] * 3
    assert frame["control[walker]"].tolist() == [4] * 3
    assert pandas.read_csv(history.save(tmp_path / "run.csv"))["lengths"].tolist() == [4] * 3
    assert len(history.plot().axes) == 3
    assert len(repr(history)) < 300
    assert "control: walker 100%, sitter 0%" in repr(history)
