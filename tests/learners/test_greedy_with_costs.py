"""Greedy planning with costs of arriving, discounts, ends, costs that depend on the state and tables for each time."""

import numpy as np
import pytest

import cede
from planning.test_costs_ends_time import rich_mdp


@pytest.mark.parametrize("seed", range(20))
def test_bounds_stay_below_the_truth_and_come_up_to_it_where_it_is_played(seed):
    mdp = rich_mdp(seed)
    known = {agent.name: agent.policy for agent in mdp.team.agents}
    learner = cede.ucrl2_mc(mdp.task, planning="greedy", known_agents=known, known_environment=mdp.environment)
    best = cede.solve(mdp)
    history = cede.simulate(mdp, learner, 300, seed=seed, progress=False)
    bounds = learner.state.bounds
    assert (bounds <= best.value + 1e-9).all()
    start = mdp.environment.start > 0
    assert history.expected_cost[-1] == pytest.approx(history.optimum, abs=1e-6 + 0.05 * np.ptp(best.value))
    often = start & (mdp.environment.start > 0.2)
    np.testing.assert_allclose(
        bounds[0, often, mdp.start_agent], best.value[0, often, mdp.start_agent], atol=0.1 * np.ptp(best.value) + 1e-6
    )


@pytest.mark.parametrize("seed", range(6))
def test_by_hand_and_in_a_run_it_is_the_same(seed):
    mdp = rich_mdp(seed)
    run, hand = (cede.ucrl2_mc(mdp.task, planning="greedy", scale=0.2) for _ in range(2))
    rng = np.random.default_rng(seed)
    episodes = []
    for _ in range(5):  # let it choose, and act as the tables say
        prev, state, steps = mdp.start_agent, int(rng.choice(mdp.task.n_states, p=mdp.environment.start)), []
        for t in range(mdp.horizon):
            agent = hand.choose(t, state, prev)
            policy = mdp.team.agents[agent]
            chances = policy.policy if policy.varies_with is None else policy.policy[t if policy.varies_with == "time" else prev]
            action = int(rng.choice(mdp.task.n_actions, p=chances[state]))
            table = mdp.environment.tables[0 if mdp.environment.periods is None else mdp.environment.periods[t]]
            to = int(rng.choice(mdp.task.n_states, p=table[[state * mdp.task.n_actions + action]].toarray()[0]))
            hand.observe(t, state, prev, agent, action, to)
            steps.append((t, state, prev, agent, action, to))
            state, prev = to, agent
            if mdp.task.is_terminal[to]:
                break
        hand.end_episode()
        episodes.append(np.array(steps).T)
    log = {
        name: np.concatenate([one[i] for one in episodes])
        for i, name in enumerate(("t", "state", "prev_agent", "agent", "action", "next_state"))
    }
    run.learn_from({**log, "episode": np.repeat(np.arange(5), [one.shape[1] for one in episodes])}, progress=False)
    np.testing.assert_array_equal(run.state.bounds, hand.state.bounds)
    assert (run.counts.environment != hand.counts.environment).nnz == 0
