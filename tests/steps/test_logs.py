"""Overrides and logs: counts stay right whoever acts, and a learner that reads a log is one that saw it happen."""

import numpy as np
import pytest

import cede
from cede.rows.working import count
from cede.steps.step import Episode
from problems import play, random_mdp, random_structured
from reference import count_slow


def as_log(episodes, **without):
    """Episodes as columns."""
    parts = {
        "episode": [np.full(len(e.actions), i) for i, e in enumerate(episodes)],
        "t": [np.arange(len(e.actions)) for e in episodes],
        "state": [e.states[:-1] for e in episodes],
        "prev_agent": [e.prev_agents for e in episodes],
        "agent": [e.agents for e in episodes],
        "action": [e.actions for e in episodes],
        "next_state": [e.states[1:] for e in episodes],
    }
    return {name: np.concatenate(columns) for name, columns in parts.items() if name not in without}


def live(learner, episodes):
    """See the episodes happen, one step after the other, whatever the learner would have chosen."""
    for e in episodes:
        for t in range(len(e.actions)):
            learner.choose(t, e.states[t], e.prev_agents[t])
            learner.observe(t, e.states[t], e.prev_agents[t], e.agents[t], e.actions[t], e.states[t + 1])
        learner.end_episode()
    return learner


WAYS = {
    "full": lambda m: cede.ucrl2_mc(m.task, seed=4),
    "structured": lambda m: cede.ucrl2_mc(m.task, structure=m.structure, seed=4),
    "bernstein": lambda m: cede.ucrl2_mc(m.task, belief="bernstein", seed=4),
    "greedy planning": lambda m: cede.ucrl2_mc(m.task, planning="greedy", scale=0.1, seed=4),
    "doubling": lambda m: cede.ucrl2_mc(m.task, replan="doubling", scale=0.1, seed=4),
    "every third": lambda m: cede.ucrl2_mc(m.task, replan=3, scale=0.1, seed=4),
    "schedule": lambda m: cede.ucrl2_mc(m.task, scale=cede.Scale.authors(40), seed=4),
    "forgetting": lambda m: cede.ucrl2_mc(m.task, forget=cede.Window(5), forget_environment=cede.HalfLife(3), seed=4),
    "sampling": lambda m: cede.posterior_sampling(m.task, seed=4),
    "greedy": lambda m: cede.greedy(m.task, seed=4),
    "ucrl2": lambda m: cede.ucrl2(m.task, scale=0.1, seed=4),
    "fixed": lambda m: cede.fixed(m.task, 0),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_learner_from_a_log_is_one_that_saw_it(way):
    mdp = random_structured(7)
    episodes = play(mdp, 14, 3)
    one, two = live(WAYS[way](mdp), episodes), WAYS[way](mdp)
    assert two.learn_from(as_log(episodes)) == 14
    assert one.episode == two.episode == 15
    for layer in ("agents", "environment"):
        np.testing.assert_array_equal(getattr(one.counts, layer).toarray(), getattr(two.counts, layer).toarray())
    np.testing.assert_array_equal(one.plan.policy, two.plan.policy)
    np.testing.assert_array_equal(one.plan.value, two.plan.value)
    np.testing.assert_array_equal(one.state.bounds, two.state.bounds)
    histories = [cede.simulate(mdp, learner, 10, seed=1, progress=False) for learner in (one, two)]
    np.testing.assert_array_equal(histories[0].expected_cost, histories[1].expected_cost)


def test_every_form_of_a_log():
    pandas = pytest.importorskip("pandas")
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    episodes = play(mdp, 5, 0)
    log = as_log(episodes)
    names = {
        **log,
        "agent": np.array(mdp.task.agents)[log["agent"]],
        "state": np.array(mdp.task.state_names)[log["state"]],
        "action": np.array(mdp.task.action_names, dtype=object)[log["action"]],
        "episode": [f"day {i}" for i in log["episode"]],
    }
    structured = np.zeros(len(log["t"]), dtype=[(name, np.int64) for name in log])
    for name, column in log.items():
        structured[name] = column
    forms = {
        "arrays": log,
        "lists": {name: column.tolist() for name, column in log.items()},
        "data frame": pandas.DataFrame(log),
        "floats": pandas.DataFrame(log).astype(float),
        "names": pandas.DataFrame(names),
        "structured": structured,
        "episodes": episodes,
        "without t": as_log(episodes, t=0),
        "without episode": as_log(episodes, episode=0),
        "without prev_agent": as_log(episodes, prev_agent=0),
        "objects": {name: column.astype(object) for name, column in log.items()},
        "a generator": (episode for episode in episodes),
        "nullable integers": pandas.DataFrame(log).astype("Int64"),
        "more columns": {**log, "colour": np.zeros(len(log["t"])), "cost": mdp.task.env_cost[log["state"], log["action"]]},
    }
    expected = count(mdp.task, episodes)
    for name, form in forms.items():
        learner = cede.ucrl2_mc(mdp.task)
        assert learner.learn_from(form) == 5, name
        np.testing.assert_array_equal(learner.counts.agents.toarray(), expected.agents.toarray(), err_msg=name)
        np.testing.assert_array_equal(learner.counts.environment.toarray(), expected.environment.toarray(), err_msg=name)


def test_logs_with_gaps():
    """Steps that were not logged are not counted; the others are, at their time."""
    mdp = random_mdp(3, n_agents=2, horizon=4, kinds=["time"])
    log = as_log(play(mdp, 3, 0))
    kept = np.arange(12) % 4 != 1
    learner = cede.ucrl2_mc(mdp.task)
    assert learner.learn_from({name: column[kept] for name, column in log.items()}) == 3
    assert learner.counts.agents.sum() == 9
    with pytest.raises(ValueError, match="the column 'prev_agent', for row 1 is missing, must be there where"):
        cede.ucrl2_mc(mdp.task).learn_from({name: column[kept] for name, column in log.items() if name != "prev_agent"})


def test_bad_logs_change_nothing():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task)
    cede.simulate(mdp, learner, 3, progress=False)
    before = learner.counts
    good = as_log(play(mdp, 3, 0))

    def bad(name, row, value):
        column = good[name].astype(object if isinstance(value, str) else np.float64 if isinstance(value, float) else np.int64)
        column[row] = value
        return {**good, name: column}

    for text, log in {
        "learn_from: log is 5, must be columns by name": 5,
        "the column 'agent' of log is missing, must be there: it has": {n: c for n, c in good.items() if n != "agent"},
        r"state\[7\] is 9, must be an integer from 0 to 5": bad("state", 7, 9),
        r"action\[7\] is nan, must be an integer": bad("action", 7, np.nan),
        r"action\[7\] is 'up', must be one of 'left', 'right'": bad("action", 7, "up"),
        r"agent\[2\] is -1, must be an integer from 0 to 1": bad("agent", 2, -1),
        r"t\[3\] is 0, must be more than 2": bad("t", 3, 0),
        r"state\[5\] is \d, must be \d, where the step before led": bad("state", 5, (good["state"][5] + 1) % 6),
        r"prev_agent\[5\] is \d, must be \d, who acted in the step before": bad("prev_agent", 5, 1 - good["prev_agent"][5]),
        r"episode\[40\] is .*0.*, must be another one: that of row 0 has ended": {**good, "episode": good["episode"] % 2},
        "log is without 'episode' and 't'": {n: c for n, c in good.items() if n not in ("episode", "t")},
        "the number of steps of the episode from row 0 on is 60, must be at most 20": {
            n: (c * 0 if n == "episode" else c) for n, c in good.items() if n != "t"
        },
        "the number of rows of the columns": {**good, "t": good["t"][:5]},
        r"episode\[3\] is nan, must be there": {**good, "episode": np.where(np.arange(60) == 3, np.nan, good["episode"])},
        r"the shape of column 'episode' is \(\), must be \(steps,\)": {**good, "episode": 0},
        r"the shape of column 'state' is \(60, 1\)": {**good, "state": good["state"][:, None]},
        r"state\[0\] is None, must be one of": {**good, "state": [None] * 60},
        r"log\[1\] is 3, must be an Episode": [*play(mdp, 1, 0), 3],
    }.items():
        with pytest.raises(ValueError, match=text):
            learner.learn_from(log)
    structured = cede.ucrl2_mc(mdp.task, structure=mdp.structure)
    jump = {**as_log(play(mdp, 1, 0), prev_agent=0)}
    jump = {name: column[:1] for name, column in jump.items()}
    with pytest.raises(ValueError, match=r"next_state\[0\] is 4, must be one of"):
        structured.learn_from({**jump, "next_state": np.array([4])})
    learner.observe(0, 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="learn_from: the number of steps of the running episode is 1, must be 0"):
        learner.learn_from(good)
    learner.drop_episode()
    for layer in ("agents", "environment"):
        np.testing.assert_array_equal(getattr(before, layer).toarray(), getattr(learner.counts, layer).toarray())


def test_an_empty_log():
    learner = cede.ucrl2_mc(cede.worlds.riverswim().task)
    assert learner.learn_from([]) == 0
    assert learner.learn_from({name: np.empty(0, dtype=int) for name in ("t", "state", "agent", "action", "next_state")}) == 0
    assert learner.episode == 1


def test_people_may_take_and_refuse_control():
    """Against the decision, at random: what is counted is who really acted, and after whom."""
    mdp = random_mdp(6, n_agents=3, horizon=5, kinds=["prev_agent"])
    task, rng = mdp.task, np.random.default_rng(0)
    dense = mdp.environment.transition.toarray()
    learner, episodes = cede.ucrl2_mc(task, scale=0.1), []
    overruled = 0
    for _ in range(25):
        state, agent = int(rng.choice(task.n_states, p=mdp.environment.start)), int(task.start_agent)
        steps = {"states": [state], "prev_agents": [], "agents": [], "actions": []}
        for t in range(task.horizon):
            prev_agent, chosen = agent, learner.choose(t, state, agent)
            agent = int(rng.integers(3)) if rng.random() < 0.4 else chosen
            overruled += agent != chosen
            action = int(rng.choice(task.n_actions, p=mdp.team.agents[agent].policy[prev_agent, state]))
            after = int(rng.choice(task.n_states, p=dense[state * task.n_actions + action]))
            learner.observe(t, state, prev_agent, agent, action, after)
            for name, value in (("prev_agents", prev_agent), ("agents", agent), ("actions", action), ("states", after)):
                steps[name].append(value)
            state = after
        learner.end_episode()
        arrays = {name: np.array(values) for name, values in steps.items()}
        episodes.append(Episode(**arrays, costs=np.zeros(task.horizon)))
    assert overruled > 10
    agents, environment, _ = count_slow(task, episodes)
    np.testing.assert_array_equal(learner.counts.agents.toarray(), agents.reshape(-1, task.n_actions))
    np.testing.assert_array_equal(learner.counts.environment.toarray(), environment.reshape(-1, task.n_states))


def test_who_acted_before_is_who_really_did():
    learner = cede.ucrl2_mc(cede.worlds.riverswim(agents=[0.3, 0.7]).task)
    learner.observe(0, 0, 0, 1, 1, 1)
    with pytest.raises(ValueError, match="observe: prev_agent is 0, must be 1, who acted in the step before"):
        learner.observe(1, 1, 0, 0, 0, 0)
    learner.observe(1, 1, 1, 0, 0, 0)
    assert learner.observed == 2


def test_a_step_that_is_logged_twice_is_refused():
    task = cede.Task(env_cost=[[0.0, 1.0], [2.0, 3.0]], agents=["a", "b"], horizon=3)
    log = {
        "episode": [0, 0],
        "t": [1, 1],
        "state": [0, 0],
        "prev_agent": [0, 0],
        "agent": [0, 0],
        "action": [0, 0],
        "next_state": [0, 0],
    }
    with pytest.raises(ValueError, match=r"t\[1\] is 1, must be more than 1, that of the step before"):
        cede.ucrl2_mc(task).learn_from(log, progress=False)
