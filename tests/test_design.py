"""The snippets of the design, as written."""

import inspect

import gymnasium
import numpy as np
import pytest
import scipy.sparse as sp

import cede

P = np.tile(np.array([[0.9, 0.1], [0.3, 0.7]])[:, None, :], (1, 2, 1))
C = np.array([[0.0, 0.1], [1.0, 0.9]])
start = np.array([1.0, 0.0])
policy_m = np.array([[0.9, 0.1], [0.5, 0.5]])
policy_h = np.array([[0.2, 0.8], [0.8, 0.2]])


def problem():
    env = cede.Environment(transition=P, cost=C, start=start)
    machine = cede.Agent("machine", policy_m)
    human = cede.Agent("human", policy_h, control_cost=0.2)
    return cede.TwoLayerMDP(env, cede.Team([machine, human], switch_cost=0.1), horizon=10, start_agent=0)


def test_a_problem_from_arrays():
    mdp = problem()
    sizes = (
        mdp.environment.n_states,
        mdp.environment.n_actions,
        mdp.team.n_agents,
        mdp.team.agents[1].name,
        mdp.horizon,
        mdp.start_agent,
    )
    assert sizes == (2, 2, 2, "human", 10, 0)
    sparse = cede.Environment(transition=sp.coo_matrix(P.reshape(4, 2)), cost=C, start=start)
    np.testing.assert_array_equal(sparse.transition.toarray(), mdp.environment.transition.toarray())


def test_the_best_policy_and_what_any_policy_costs():
    mdp = problem()
    plan = cede.solve(mdp)
    value = cede.evaluate(mdp, plan.policy)
    assert plan.policy.shape == (10, 2, 2)
    assert plan.value.shape == (11, 2, 2)
    assert (plan.value[-1] == 0).all()
    np.testing.assert_allclose(value, plan.value)


@pytest.mark.parametrize(
    "algorithm",
    [
        lambda task: cede.ucrl2_mc(task, delta=0.1),
        lambda task: cede.ucrl2_mc(task, scale=cede.Scale(agents=0.1, environment=0.01), known_agents={"machine": policy_m}),
        lambda task: cede.ucrl2_mc(task, scale=cede.Scale.authors(episodes=20_000)),
        lambda task: cede.ucrl2(task, radius="same-form"),
    ],
)
def test_learning_it(algorithm):
    mdp = problem()
    history = cede.simulate(mdp, algorithm(mdp.task), episodes=200, seed=0)
    shapes = [a.shape for a in (history.regret, history.cost, history.control, history.switches)]
    assert shapes == [(200,), (200,), (200, 2), (200,)]


def test_inside_ones_own_system():
    mdp = problem()
    task, learner, rng = mdp.task, cede.ucrl2_mc(mdp.task), np.random.default_rng(0)

    def your_system(agent, state):
        action = rng.choice(2, p=(policy_m, policy_h)[agent][state])
        return action, rng.choice(2, p=P[state, action])

    for _ in range(3):
        state = 0
        agent = task.start_agent
        for t in range(task.horizon):
            prev_agent, agent = agent, learner.choose(t, state, agent)
            action, next_state = your_system(agent, state)
            learner.observe(t, state, prev_agent, agent, action, next_state)
            state = next_state
        learner.end_episode()
    assert learner.counts.environment.sum() == 30


def test_many_teams_one_environment():
    mdps = [problem(), problem()]
    task = problem().task
    fleet = cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps])
    history = cede.simulate_fleet(mdps, fleet, episodes=1000, seed=0)
    newcomer = fleet.welcome(task)
    assert history.regret.shape == (1000,)
    assert newcomer.counts.environment_episodes == 2000
    assert inspect.signature(cede.simulate_fleet).parameters["engine"].default == "threads"  # "ray": test_engines.py


def test_keep_it_and_ask_it_why(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task)
    learner.save("driver.cede")
    learner = cede.load("driver.cede")
    assert cede.explain(learner, t=0, state=3, prev_agent=0).options[1].agent == "p=0.7"


def test_worlds_and_gymnasium():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    mdp = cede.worlds.lane_driving(sigma=2.0, control_cost=0.2, switch_cost=0.1)
    agents = [cede.Agent(name, np.full((16, 4), 0.25)) for name in ("a", "b")]
    mdp = cede.gym.from_toy_text(gymnasium.make("FrozenLake-v1"), agents=agents, horizon=30)
    env = cede.gym.SwitchingEnv(mdp)
    assert env.action_space.n == 2


def test_real_systems():
    """Snippet 8: ends, learned costs, no horizon."""
    task = cede.Task(
        n_states=60,
        n_actions=4,
        cost_range=(0, 10),
        agents=["robot", "operator"],
        control_cost={"operator": 0.2},
        switch_cost=0.1,
        horizon=40,
        terminal=[58, 59],
    )
    learner = cede.ucrl2_mc(task)
    learner.observe(0, 3, 0, 1, 2, 7, cost=1.3)
    learner.observe(1, 7, 1, 1, 0, 59, cost=0.0)
    learner.end_episode()
    assert learner.counts.environment.sum() == 2
    task = cede.Task(env_cost=np.ones((5, 2)), agents=["robot", "operator"], horizon=None, discount=0.98)
    learner = cede.ucrl2_mc(task)
    agent = learner.choose(3, 0)  # no t where there is no horizon
    learner.observe(3, 0, agent, 1, 2)
    assert learner.plan.policy.shape == (5, 2)
