"""No slowdown by accident: the work of the kernels is counted, not timed. Backups, outcomes touched, passes, agents' minima."""

import threading

import numpy as np
import pytest

import cede
from cede.beliefs.belief import Belief
from cede.beliefs.truth import true_environment
from cede.planning import passes
from cede.planning.passes import Work, set_threads, work_done
from cede.planning.planner import optimistic_plan
from problems import random_mdp, random_rows


class Counted:
    """The work done inside a with-block."""

    def __enter__(self):
        self.before = work_done()
        return self

    def __exit__(self, *_):
        self.work = work_done() - self.before


def dense_belief(seed, *, n_states=40, n_actions=3, n_agents=2, horizon=6, switch_cost=0.3, successors=9):
    """Every row seen, every width positive, all values different: nothing can be left out."""
    rng = np.random.default_rng(seed)
    task = cede.Task(
        env_cost=rng.random((n_states, n_actions)),
        agents=[f"agent {d}" for d in range(n_agents)],
        horizon=horizon,
        control_cost=rng.random(n_agents) * 0.1,
        switch_cost=switch_cost,
    )
    rows = np.zeros((n_states * n_actions, n_states))
    for row in rows:
        row[rng.choice(n_states, successors, replace=False)] = rng.integers(1, 30, successors)
    agents = Belief.of(rng.integers(1, 9, (n_agents * n_states, n_actions)), 0.3, (n_agents, n_states))
    return task, agents, Belief.of(rows, 0.4037, (n_states, n_actions)), int((rows > 0).sum())


def test_a_plan_touches_each_outcome_once_per_agent_and_step():
    task, agents, environment, nonzeros = dense_belief(0)
    steps = task.horizon - 1  # after the last step nothing follows: no row is backed up for it
    with Counted() as first:
        optimistic_plan(task, agents, environment)
    assert first.work.rows == steps * 40 * 3 * 2
    assert first.work.outcomes == steps * nonzeros * 2
    assert first.work.agents == task.horizon * 40 * 2
    with Counted() as again:
        optimistic_plan(task, agents, environment)
    assert again.work._replace(looked_at=0) == first.work._replace(looked_at=0)
    assert again.work.looked_at == again.work.outcomes  # every search ends at its first guess
    assert first.work.looked_at < 5 * first.work.outcomes


def test_agents_with_equal_values_share_every_row():
    """Without switching costs all previous agents are the same: one backup serves them."""
    task, agents, environment, nonzeros = dense_belief(1, n_agents=4, switch_cost=0.0)
    with Counted() as c:
        optimistic_plan(task, agents, environment)
    assert c.work.outcomes == (task.horizon - 1) * nonzeros


def test_rows_that_say_nothing_cost_nothing():
    task, agents, environment, _ = dense_belief(2)
    with Counted() as c:
        optimistic_plan(task, agents, Belief(environment.centre, np.full(120, 2.0), environment.row))
    assert c.work.rows == c.work.outcomes == 0


def test_unseen_rows_share_one_backup():
    task, agents, _, _ = dense_belief(3)
    unseen = Belief.of(np.zeros((120, 40)), 0.4, (40, 3))
    with Counted() as c:
        optimistic_plan(task, agents, unseen)
    assert c.work.outcomes == (task.horizon - 1) * 40 * 2


def test_only_actions_that_a_known_agent_takes_are_backed_up():
    task, _, environment, _ = dense_belief(4)
    certain = np.zeros((2, 40, 3))
    certain[:, :, 1] = 1.0
    with Counted() as c:
        optimistic_plan(task, Belief.of(certain.reshape(-1, 3), 0.0, (2, 40)), environment)
    assert c.work.rows == (task.horizon - 1) * 40 * 2


def test_equal_rows_of_the_truth_are_backed_up_once():
    mdp = cede.worlds.lane_driving(control_cost=0.2, switch_cost=0.1)
    different = true_environment(mdp.environment).centre.n_rows
    with Counted() as c:
        cede.solve(mdp)
    assert different == 36
    assert c.work.rows <= mdp.horizon * different * 2


def test_a_policy_that_did_not_change_is_not_evaluated_again():
    mdp = random_mdp(3, n_states=6, n_agents=2, n_actions=2, horizon=5, kinds=[None])
    with Counted() as once:
        cede.evaluate(mdp, np.ones((5, 6, 2), dtype=int))
    with Counted() as solved:
        cede.solve(mdp)
    with Counted() as run:
        cede.simulate(mdp, cede.fixed(mdp.task, 1), 100)
    assert run.work == Work(*(a + b for a, b in zip(once.work, solved.work, strict=True)))


def test_of_a_changed_policy_only_what_rests_on_the_change_is_evaluated():
    """A learner that has settled changes its ties alone; their value stays, and nothing before them is computed again."""
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    known = {a.name: a.policy for a in mdp.team.agents}
    learner = cede.ucrl2_mc(mdp.task, known_agents=known, known_environment=mdp.environment)
    cede.simulate(mdp, learner, 1)
    with Counted() as plans:
        for _ in range(50):
            learner.replan()
    with Counted() as first:
        history = cede.simulate(mdp, learner, 1)
    with Counted() as run:
        again = cede.simulate(mdp, learner, 51)
    evaluations = run.work.agents - first.work.agents - plans.work.agents
    assert evaluations < 0.2 * 50 * first.work.agents
    np.testing.assert_array_equal(again.expected_cost, history.expected_cost[0])


@pytest.mark.parametrize(("replan", "plans"), [("every", 30), (10, 3), (7, 5)])
def test_there_are_as_many_plans_as_the_rule_says(replan, plans):
    mdp = random_mdp(8, n_states=5, n_agents=2, n_actions=2, horizon=4, kinds=[None])
    learner = cede.ucrl2_mc(mdp.task, replan=replan)
    with Counted() as one:
        cede.ucrl2_mc(mdp.task).plan  # noqa: B018
    with Counted() as run:
        cede.simulate(mdp, learner, 30, evaluate_every=10**6)
    with Counted() as other:
        cede.solve(mdp)
        cede.evaluate(mdp, cede.ucrl2_mc(mdp.task).plan.policy)
    assert run.work.agents == plans * one.work.agents + other.work.agents - one.work.agents


def test_greedy_planning_backs_up_what_it_visits():
    """One backup per step: of the visited state's actions, for each agent. No work grows with the number of states."""
    mdp = cede.worlds.lane_driving(control_cost=0.2, switch_cost=0.1)
    learner = cede.ucrl2_mc(mdp.task, scale=cede.Scale(0.1, 0.01), planning="greedy")
    cede.simulate(mdp, learner, 200, evaluate_every=10**6, progress=False)
    with Counted() as full:
        cede.ucrl2_mc(mdp.task, scale=cede.Scale(0.1, 0.01)).plan  # noqa: B018
    episodes = 100
    state = mdp.environment.start.argmax()
    with Counted() as visits:
        for k in range(episodes):
            learner.choose(k % 10, state, 0)
    assert visits.work.rows <= episodes * 3 * 2
    assert visits.work.agents == episodes * 2
    assert full.work.agents == 10 * 1152 * 2


def test_helpers_work_is_counted_too():
    task, agents, environment, nonzeros = dense_belief(5, n_states=800, successors=20)
    before = set_threads(2)
    try:
        with Counted() as c:
            optimistic_plan(task, agents, environment)
    finally:
        set_threads(before)
    assert c.work.outcomes == (task.horizon - 1) * nonzeros * 2


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_any_number_of_threads_gives_the_same_bits(threads, monkeypatch):
    monkeypatch.setattr(passes, "WORTH_THREADS", 0)
    rng = np.random.default_rng(threads)
    task, agents, environment, _ = dense_belief(6, n_states=900, n_agents=3, successors=30)
    transition = random_rows(rng, (300, 2, 300), sparse=0.8)
    env = cede.Environment(transition, rng.random((300, 2)), random_rows(rng, (1, 300))[0])
    pair = cede.Team([cede.Agent(name, random_rows(rng, (300, 2)), 0.1 * i) for i, name in enumerate("ab")], 0.2)
    large = cede.TwoLayerMDP(env, pair, 10)
    found = []
    before = set_threads(1)
    try:
        for n in (1, threads):
            set_threads(n)
            plan, best = optimistic_plan(task, agents, environment, seed=3), cede.solve(large)
            found.append([plan.policy, plan.value, best.policy, best.value, cede.evaluate(large, best.policy)])
            for way in ({}, {"replan": "doubling"}, {"replan": 4}, {"planning": "greedy"}):
                run = cede.simulate(large, cede.ucrl2_mc(large.task, scale=0.05, **way), 12, progress=False)
                found[-1] += [run.expected_cost, run.cost, run.control]
    finally:
        set_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_interrupted_plan_spoils_no_other(monkeypatch):
    """Helpers may still be at work when the plan was given up: the next one must not meet them."""
    task, agents, environment, _ = dense_belief(8, n_states=900, successors=30)
    alone = optimistic_plan(task, agents, environment)
    kernel, calls = passes.run_backward, []

    def interrupted(*arguments):
        calls.append(threading.current_thread())
        if calls[-1] is threading.main_thread():
            raise KeyboardInterrupt
        return kernel(*arguments)

    before = set_threads(2)
    try:
        for _ in range(5):
            with monkeypatch.context() as patch:
                patch.setattr(passes, "run_backward", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    optimistic_plan(task, agents, environment)
            np.testing.assert_array_equal(optimistic_plan(task, agents, environment).value, alone.value)
    finally:
        set_threads(before)


def test_plans_of_several_threads_at_once():
    """Who plans beside others shares the helpers, and waits for nobody who waits for him."""
    from concurrent.futures import ThreadPoolExecutor

    task, agents, environment, _ = dense_belief(7, n_states=700, successors=20)
    alone = optimistic_plan(task, agents, environment)
    before = set_threads(3)
    try:
        with ThreadPoolExecutor(4) as pool:
            plans = list(pool.map(lambda _: optimistic_plan(task, agents, environment), range(12)))
    finally:
        set_threads(before)
    for plan in plans:
        np.testing.assert_array_equal(plan.value, alone.value)
        np.testing.assert_array_equal(plan.policy, alone.policy)


def test_set_threads_checks_and_tells_what_was_before():
    before = set_threads(2)
    assert set_threads(before) == 2
    with pytest.raises(ValueError, match="set_threads: threads is 0, must be an integer from 1 to 1024"):
        set_threads(0)
