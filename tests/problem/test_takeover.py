"""Hand-overs that take time: the folded problem against a recursion written from the words, loop by loop."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cede
from cede.planning.flatten import flatten
from cede.problem.takeover import handovers_until, next_agent_towards
from problems import random_mdp, random_rows


def with_delays(mdp, delays, own, seed=0):
    """The same problem with people who need time; some act in a way of their own meanwhile."""
    rng = np.random.default_rng(seed)
    agents = []
    for agent, delay, differs in zip(mdp.team.agents, delays, own, strict=True):
        policy = random_rows(rng, (mdp.task.n_states, mdp.task.n_actions)) if differs and delay else None
        agents.append(replace(agent, takeover_delay=int(delay), on_takeover=policy))
    return cede.TwoLayerMDP(mdp.environment, cede.Team(agents, mdp.team.switch_cost), mdp.horizon, mdp.start_agent)


def best_cost_slow(mdp):
    """value(t, s, settled): who is settled may stay or begin a hand-over, which then takes its steps, whatever happens."""
    agents, switch = mdp.team.agents, mdp.team.switch_cost
    dense, cost = mdp.environment.transition.toarray(), mdp.environment.cost
    n_actions, n_states = mdp.task.n_actions, mdp.task.n_states

    def step(t, s, who, policy, after):
        """`who` acts by `policy`, and then comes after(next state)."""
        total = agents[who].control_cost
        for a in range(n_actions):
            if policy[s, a]:
                rest = sum(dense[s * n_actions + a, to] * after(to) for to in range(n_states) if dense[s * n_actions + a, to])
                total += policy[s, a] * (cost[s, a] + rest)
        return total

    def policy_of(who, t):
        return agents[who].policy[t] if agents[who].varies_with == "time" else agents[who].policy

    @cache
    def settled(t, s, who):
        if t == mdp.horizon:
            return 0.0
        found = [switch[who, who] + step(t, s, who, policy_of(who, t), lambda to: settled(t + 1, to, who))]
        for d in range(len(agents)):
            if d != who and agents[d].takeover_delay:
                found.append(switch[who, d] + under_way(t, s, who, d, 1))
            elif d != who:
                found.append(switch[who, d] + step(t, s, d, policy_of(d, t), lambda to, d=d: settled(t + 1, to, d)))
        return min(found)

    @cache
    def under_way(t, s, before, d, number):
        """Step `number` of the hand-over from `before` to d."""
        if t == mdp.horizon:
            return 0.0
        own = agents[d].on_takeover
        who, policy = (before, policy_of(before, t)) if own is None else (d, own)
        if number == agents[d].takeover_delay:
            return step(t, s, who, policy, lambda to: settled(t + 1, to, d))
        return step(t, s, who, policy, lambda to: stay(t + 1, to, before, d, number + 1))

    def stay(t, s, before, d, number):
        return 0.0 if t == mdp.horizon else switch[d, d] + under_way(t, s, before, d, number)

    return np.array([[[settled(t, s, d) for d in range(len(agents))] for s in range(n_states)] for t in range(mdp.horizon)])


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_best_cost_is_that_of_the_words(seed):
    rng = np.random.default_rng(seed)
    plain = random_mdp(seed, n_agents=int(rng.integers(1, 4)), horizon=int(rng.integers(1, 6)), kinds=[None, "time"])
    mdp = with_delays(plain, rng.integers(0, 4, size=plain.team.n_agents), rng.random(plain.team.n_agents) < 0.5, seed)
    members = slice(0, plain.team.n_agents)
    np.testing.assert_allclose(cede.solve(mdp).value[:-1, :, members], best_cost_slow(mdp), atol=1e-9)
    assert mdp.task.members == plain.task.agents


def test_without_delay_nothing_changes():
    plain = random_mdp(3, n_agents=3, kinds=[None])
    assert with_delays(plain, [0, 0, 0], [True] * 3).task.agents == plain.task.agents


def slow_human(delay=2, **more):
    mdp = cede.worlds.lane_driving(control_cost=0.2, switch_cost=0.1)
    machine, human = mdp.team.agents
    team = cede.Team([machine, replace(human, takeover_delay=delay, **more)], mdp.team.switch_cost)
    return cede.TwoLayerMDP(mdp.environment, team, mdp.horizon, mdp.start_agent)


def test_reaction_time_costs():
    costs = [cede.expected_cost(mdp, cede.solve(mdp).policy) for mdp in (slow_human(n) for n in range(4))]
    assert costs == sorted(costs)
    assert costs[1] - costs[0] > 0.01


def swim(delay=2, own=False):
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7], switch_cost=0.05)
    first, second = mdp.team.agents
    taking_over = np.tile([0.5, 0.5], (mdp.task.n_states, 1)) if own else None
    team = cede.Team([first, replace(second, takeover_delay=delay, on_takeover=taking_over)], mdp.team.switch_cost)
    return cede.TwoLayerMDP(mdp.environment, team, mdp.horizon, mdp.start_agent)


def test_names_say_what_goes_on():
    steps = [f"p=0.7 (taking over from p=0.3, {i} of 2)" for i in (1, 2)]
    assert swim().task.agents == ("p=0.3", "p=0.7", *steps)
    assert swim(own=True).task.tables == ("p=0.3", "p=0.7", "p=0.7 (taking over)")


@pytest.mark.parametrize("own", [False, True])
def test_a_hand_over_as_it_is_played(own):
    mdp = swim(own=own)
    task, policy = mdp.task, mdp.task.always(1)
    episode = cede.rollout(mdp, policy, seed=1)
    assert episode.agents[:4].tolist() == [2, 3, 1, 1]
    assert task.acting[episode.agents[:3]].tolist() == ([1, 1, 1] if own else [0, 0, 1])
    assert episode.costs[0] >= 0.05  # the hand-over is paid when it begins
    history = cede.simulate(mdp, cede.fixed(task, "p=0.7"), 10)
    assert (history.control == ([0, 20] if own else [2, 18])).all()
    assert (history.switches == 1).all()  # one hand-over, however long it takes
    assert history.agents == ("p=0.3", "p=0.7")
    assert history.expected_cost[0] == pytest.approx(cede.expected_cost(mdp, policy))


def test_what_is_learned_is_counted_where_it_belongs():
    """Who still acts is counted as acting, in its own table."""
    mdp = swim()
    learner = cede.fixed(mdp.task, "p=0.7")
    cede.simulate(mdp, learner, 10)
    rows = learner.counts.agents.sum(axis=1).reshape(len(mdp.task.tables), -1).sum(axis=1)
    assert rows.tolist() == [20, 180]


def test_nothing_to_learn_nothing_to_regret():
    for own in (False, True):
        mdp = swim(own=own)
        known = dict(zip(mdp.task.tables, mdp.policies, strict=True))
        learner = cede.ucrl2_mc(mdp.task, known_agents=known, known_environment=mdp.environment)
        assert cede.simulate(mdp, learner, 20).regret[-1] == pytest.approx(0, abs=1e-9)


def test_it_is_learned():
    mdp = swim()
    history = cede.simulate(mdp, cede.posterior_sampling(mdp.task), 2000)
    early, late = history.regret[199], history.regret[-1] - history.regret[-201]
    assert late < early / 3


@pytest.mark.parametrize("own", [False, True])
def test_by_hand_as_simulated(own):
    """The loop of one's own system, where `agent` is whatever the learner says, comes to the same counts and plans."""
    mdp = swim(own=own)
    simulated, by_hand = cede.ucrl2_mc(mdp.task, seed=3), cede.ucrl2_mc(mdp.task, seed=3)
    rng = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(0,)))
    for _ in range(30):
        episode = cede.rollout(mdp, by_hand.plan, rng)
        for t in range(mdp.horizon):
            agent = by_hand.choose(t, episode.states[t], episode.prev_agents[t])
            assert agent == episode.agents[t]
            by_hand.observe(t, episode.states[t], episode.prev_agents[t], agent, episode.actions[t], episode.states[t + 1])
        by_hand.end_episode()
    cede.simulate(mdp, simulated, 30, seed=5)
    assert (simulated.counts.agents != by_hand.counts.agents).nnz == 0
    np.testing.assert_array_equal(simulated.plan.policy, by_hand.plan.policy)


def test_fleets_files_bounds_and_ucrl2(tmp_path):
    """Slow and quick teams live in one environment; all that works for agents works for these."""
    slow, quick = swim(own=True), cede.worlds.riverswim(agents=[0.3, 0.7], switch_cost=0.05)
    quick = cede.TwoLayerMDP(slow.environment, quick.team, quick.horizon, quick.start_agent)
    fleet = cede.Fleet([cede.ucrl2_mc(slow.task), cede.ucrl2_mc(quick.task)])
    history = cede.simulate_fleet([slow, quick], fleet, 20)
    assert history.control.shape == (2, 20, 2)
    assert (history.control.sum(axis=2) == slow.horizon).all()
    learner = fleet.remove(0)
    learner.save(tmp_path / "slow.cede")
    loaded = cede.load(tmp_path / "slow.cede")
    assert loaded.task.modes == slow.task.modes
    np.testing.assert_array_equal(loaded.plan.value, learner.plan.value)
    interval, truth = cede.insight.bounds(learner), cede.evaluate(slow, learner.plan.policy)
    assert (interval.low <= truth + 1e-9).all()
    assert (truth <= interval.high + 1e-9).all()
    explanation = cede.explain(learner, 3, 0, 2)  # a hand-over is under way: there is nothing to choose
    assert [option.agent for option in explanation.options] == ["p=0.7 (taking over, 2 of 2)"]
    flat = flatten(slow)
    np.testing.assert_allclose(cede.solve(flat).value, cede.solve(slow).value, atol=1e-9)
    assert cede.simulate(slow, cede.ucrl2(slow.task), 5).regret[-1] >= 0


def test_shares_count_who_acts():
    mdp = swim()
    mixture = cede.solve(mdp, at_most={"p=0.3": 0.5})
    assert mixture.shares[0] <= 0.5 + 1e-6
    with pytest.raises(ValueError, match=r"the nearest that shares can come to the limits is .* must be within them"):
        cede.solve(mdp, at_most={"p=0.3": 0.05})  # the first two of twenty steps are its own, whatever one does


def test_hand_overs_that_cannot_be():
    """An infinite switching cost bars a hand-over, for everybody."""
    mdp = random_mdp(7, n_agents=3, n_states=3, horizon=3, kinds=[None])
    barred = np.array([[0, 1, np.inf], [np.inf, 0, 1], [1, 1, np.inf]], dtype=float)
    mdp = cede.TwoLayerMDP(mdp.environment, cede.Team(mdp.team.agents, barred), mdp.horizon, 0)
    plan = cede.solve(mdp)
    assert np.isfinite(plan.value).all()
    assert not (plan.policy[:, :, 0] == 2).any()
    assert mdp.task.always(2)[0, 0].tolist() == [1, 2, 1]
    with pytest.raises(
        ValueError, match=r"policy\[0, 0, 0\] is 2 \('agent 2'\), must be an agent to whom 'agent 0' can hand control"
    ):
        cede.evaluate(mdp, np.full(plan.policy.shape, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"takeover_delay": -1}, "Agent 'a': takeover_delay is -1, must be an integer from 0 to 1000"),
        ({"on_takeover": [[1.0]]}, "Agent 'a': takeover_delay is 0, must be at least 1 where on_takeover is given"),
        ({"takeover_delay": 1, "on_takeover": [[0.5]]}, r"Agent 'a': on_takeover\[0\] sums to 0.5"),
        ({"takeover_delay": 1, "on_takeover": [[0.5, 0.5]]}, "the shape of on_takeover"),
    ],
)
def test_bad_agents(change, message):
    with pytest.raises(ValueError, match=message):
        cede.Agent("a", [[1.0]], **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"takeover_delay": {"c": 1}}, "Task: an agent of takeover_delay is 'c', must be one of 'a', 'b'"),
        ({"takeover_delay": 3}, "Task: takeover_delay is 3, must be steps by the agents' names"),
        ({"takeover_delay": {"a": 1.5}}, r"Task: takeover_delay\['a'\] is 1.5, must be an integer"),
        ({"on_takeover": ["b"]}, r"Task: takeover_delay\['b'\] is 0, must be at least 1"),
        ({"on_takeover": "b"}, "Task: on_takeover is 'b', must be a sequence of agents' names"),
        ({"takeover_delay": {"a": 1}, "varies_with": ["prev_agent", None]}, "must be None or 'time' in a team with takeover_delay"),
        ({"switch_cost": np.full((2, 2), np.inf)}, r"Task: switch_cost\[0\] is infinite for all agents, must be finite"),
        ({"switch_cost": np.full((2, 2), -np.inf)}, r"Task: switch_cost\[0, 0\] is -inf, must be a finite number"),
    ],
)
def test_bad_tasks(change, message):
    with pytest.raises(ValueError, match=message):
        cede.Task(env_cost=np.zeros((2, 2)), agents=["a", "b"], horizon=3, **change)


def test_tasks_can_be_changed():
    """A task is data: `replace` makes the one that would have been made, or says why not."""
    plain = cede.Task(np.zeros((2, 2)), ["a", "b"], 3)
    assert replace(plain, takeover_delay={"b": 2}).agents == (
        "a",
        "b",
        "b (taking over from a, 1 of 2)",
        "b (taking over from a, 2 of 2)",
    )
    assert replace(plain, agents=["x", "y", "z"], control_cost=0.0, switch_cost=0.0, varies_with=None).tables == ("x", "y", "z")
    folded = replace(plain, takeover_delay={"b": 2})
    assert replace(folded, horizon=5).members == ("a", "b")
    with pytest.raises(ValueError, match="must be given to a task without"):
        replace(folded, takeover_delay={"a": 1})
    with pytest.raises(ValueError, match="different from that of"):
        cede.Task(np.zeros((2, 2)), ["b", "b (taking over)"], 3, takeover_delay={"b": 1}, on_takeover=["b"])


def test_nobody_can_get_there():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7], switch_cost=np.array([[0, np.inf], [0.1, 0]]))
    message = "agent is 'p=0.7', must be one to whom control can come from 'p=0.3', the start agent"
    for make in (lambda: cede.fixed(mdp.task, 1), lambda: cede.ucrl2_mc(mdp.task, baseline=1)):
        with pytest.raises(ValueError, match=message):
            make()
    assert cede.solve(mdp, at_most={"p=0.7": 0.5}).shares.tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="must be within them: hand-overs that take time, or are not possible, leave no way"):
        cede.solve(mdp, at_least={"p=0.7": 0.5})
    why = cede.explain(cede.ucrl2_mc(mdp.task), 0, 0, 0)
    assert why.text == "p=0.3 is in control: there is nobody else to whom control could be handed."


@pytest.mark.parametrize("own", [False, True])
def test_the_example_of_the_docstrings(own):
    """A team of machine and human, where the human needs 2 steps; takeover.py and task.py explain all words by it."""
    task = cede.Task(
        env_cost=np.zeros((3, 2)),
        agents=["machine", "human"],
        horizon=5,
        switch_cost=0.1,
        takeover_delay={"human": 2},
        on_takeover=["human"] if own else [],
    )
    whom = "" if own else " from machine"
    assert task.agents == ("machine", "human", *(f"human (taking over{whom}, {i} of 2)" for i in (1, 2)))
    assert task.members == ("machine", "human")
    assert task.tables == (("machine", "human", "human (taking over)") if own else ("machine", "human"))
    assert task.table.tolist() == ([0, 1, 2, 2] if own else [0, 1, 0, 0])
    assert task.acting.tolist() == ([0, 1, 1, 1] if own else [0, 1, 0, 0])
    assert task.layout.aim.tolist() == [0, 1, 1, 1]
    no = np.inf
    assert task.switch_cost.tolist() == [[0, no, 0.1, no], [0.1, 0, no, no], [no, no, no, 0], [0.1, 0, no, no]]
    assert task.always(1)[0, 0].tolist() == [2, 1, 3, 1]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_way_to_an_agent_is_the_shortest(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    possible = rng.random((n, n)) < rng.choice([0.1, 0.2, 0.5, 0.9])
    possible[np.arange(n), rng.integers(0, n, n)] = True  # somebody can always get control
    agent = int(rng.integers(n))
    paths, shortest = np.eye(n, dtype=int), np.full(n, np.inf)
    for length in range(n):  # by powers of the matrix
        shortest[(paths[:, agent] > 0) & np.isinf(shortest)] = length
        paths = np.minimum(paths @ possible, 1)
    np.testing.assert_array_equal(handovers_until(possible, agent), shortest)
    for prev, to in enumerate(next_agent_towards(possible, agent)):
        assert possible[prev, to]
        best = min(shortest[d] for d in range(n) if possible[prev, d])
        assert to == next(d for d in range(n) if possible[prev, d] and shortest[d] == best)


def test_a_large_team_is_little_work():
    """Each hand-over is looked at once for each agent: a table of everybody's ways took the fourth power of the agents."""
    looked_at = []

    class Counted(np.ndarray):
        def __getitem__(self, where):
            looked_at.append(np.size(found := self.view(np.ndarray)[where]))
            return found

        def __array_function__(self, function, types, args, kwargs):
            looked_at.append(self.size)
            return function(*(one.view(np.ndarray) if one is self else one for one in args), **kwargs)

    n = 60
    chain = np.tri(n, k=1, dtype=bool).view(Counted)  # from one to the next only: the longest way
    np.testing.assert_array_equal(handovers_until(chain, n - 1), n - 1.0 - np.arange(n))
    assert sum(looked_at) <= 2 * n * n
