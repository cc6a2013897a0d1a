"""Planning less: greedy planning against its slow twin, the replanning rules, evaluation at intervals."""

import copy
import importlib
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cede
from problems import play, random_mdp
from reference import greedy_start_slow, greedy_visit_slow


def dense(learner):
    """A learner's beliefs as full tables: (D, slots, S, A) centres and widths, (S, A, S) and widths."""
    agents, environment = learner.beliefs
    result = []
    for belief in (agents, environment):
        n = belief.centre.matrix().toarray()
        total = n.sum(axis=1, keepdims=True)
        centre = np.where(total > 0, n / np.maximum(total, 1e-300), 1 / n.shape[1])
        result += [centre[belief.row], belief.width[belief.row]]
    return result


def bounds_of(learner):
    """The values of greedy planning, (L + 1, S, D); a look at its beliefs makes a new learner put them up."""
    assert len(learner.beliefs) == 2
    return learner.state.bounds


@pytest.mark.parametrize("seed", range(6))
def test_greedy_planning_against_its_slow_twin(seed):
    """One backup per visit, by loops: the same bounds after every step, and the chosen agent is one of the best."""
    mdp = random_mdp(seed, n_states=4, n_agents=3, n_actions=3, horizon=4)
    task = mdp.task
    learner = cede.ucrl2_mc(task, scale=0.15, planning="greedy")
    bounds = greedy_start_slow(task)
    rng = np.random.default_rng(seed)
    raised = 0
    for _ in range(25):
        tables = dense(learner)
        state, agent = int(rng.choice(4, p=mdp.environment.start)), task.start_agent
        for t in range(task.horizon):
            before = bounds.copy()
            q = greedy_visit_slow(task, tables, bounds, t, state)
            prev, agent = agent, learner.choose(t, state, agent)
            np.testing.assert_allclose(bounds_of(learner), bounds, atol=1e-10)
            assert (bounds >= before).all()
            raised += (bounds > before).any()
            assert q[prev, agent] == pytest.approx(q[prev].min(), abs=1e-10)
            table = mdp.team.agents[agent].policy
            kind = mdp.team.agents[agent].varies_with
            row = table[state] if kind is None else table[{"time": t, "prev_agent": prev}[kind]][state]
            action = int(rng.choice(3, p=row))
            after = int(rng.choice(4, p=mdp.environment.transition.toarray()[state * 3 + action]))
            learner.observe(t, state, prev, agent, action, after)
            state = after
        learner.end_episode()
    assert raised > 10


@pytest.mark.parametrize("algorithm", [cede.ucrl2_mc, cede.ucrl2, cede.greedy])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_is_visited_is_what_the_whole_plan_says(algorithm, seed):
    """In an episode the compiled loop chooses as `plan` would: one step ahead of the bounds with which the episode began."""
    mdp = random_mdp(seed, n_states=5, n_agents=3, n_actions=2, horizon=5)
    options = {} if algorithm is cede.greedy else {"scale": 0.1}
    one, other = (algorithm(mdp.task, planning="greedy", seed=3, **options) for _ in range(2))
    run = cede.simulate(mdp, one, 40, seed=np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    for k in range(40):
        policy = other.plan.policy.copy()
        assert cede.expected_cost(mdp, policy) == run.expected_cost[k]
        episode = cede.rollout(mdp, policy, rng)
        assert episode.cost == pytest.approx(run.cost[k])
        for t, (s, prev) in enumerate(zip(episode.states[:-1], episode.prev_agents, strict=True)):
            assert other.choose(t, int(s), int(prev)) == episode.agents[t]
        other.observe_episode(episode)
        other.end_episode()
    np.testing.assert_array_equal(bounds_of(one), bounds_of(other))
    assert (one.counts.environment != other.counts.environment).nnz == 0


def test_bounds_stay_optimistic_with_the_printed_radii():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, planning="greedy")
    best, start = cede.solve(mdp).value, bounds_of(learner).copy()
    np.testing.assert_allclose(start, greedy_start_slow(mdp.task))
    for _ in range(8):
        cede.simulate(mdp, learner, 250, evaluate_every=250, progress=False)
        assert (bounds_of(learner) <= best + 1e-9).all()
    assert bounds_of(learner)[0, 0, 0] > start[0, 0, 0] + 3.0


def test_greedy_planning_starts_from_what_is_known():
    """With everything known the start is the optimum, and stays it."""
    mdp = random_mdp(5, n_states=4, n_agents=3)
    known = {a.name: a.policy for a in mdp.team.agents}
    learner = cede.ucrl2_mc(mdp.task, known_agents=known, known_environment=mdp.environment, planning="greedy")
    np.testing.assert_allclose(learner.plan.value, cede.solve(mdp).value, atol=1e-12)
    np.testing.assert_allclose(cede.simulate(mdp, learner, 30).regret, 0, atol=1e-10)


@pytest.mark.slow
def test_greedy_planning_and_doubling_cost_little_regret():
    """The figure `planning` shows how much; here only that neither breaks learning. Printed radii, RiverSwim."""
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])

    def regret(**options):
        return cede.simulate(mdp, cede.ucrl2_mc(mdp.task, **options), 6000, seed=1, progress=False).regret

    full, greedy, doubling = regret(), regret(planning="greedy"), regret(replan="doubling")
    for other in (greedy, doubling):
        assert other[-1] < 2 * full[-1]
        assert other[-1] - other[3000] < 0.5 * other[3000]


def test_greedy_planning_in_a_fleet_and_with_ucrl2():
    mdps = [cede.worlds.riverswim(agents=[p, 1 - p]) for p in (0.1, 0.2, 0.3)]
    fleet = cede.Fleet([cede.ucrl2_mc(m.task, scale=0.3, planning="greedy") for m in mdps])
    history = cede.simulate_fleet(mdps, fleet, 800, seed=1, progress=False)
    alone = cede.simulate_fleet(mdps, cede.Fleet([cede.fixed(m.task, 0) for m in mdps]), 800, seed=1, progress=False)
    assert history.regret[-1] < 0.3 * alone.regret[-1]
    mdp = cede.worlds.riverswim(agents=[0.0, 1.0], macro=2)  # costs depend on the action: UCRL2 must learn them
    run = cede.simulate(mdp, cede.ucrl2(mdp.task, radius="same-form", scale=0.3, planning="greedy"), 1500, progress=False)
    worst = cede.simulate(mdp, cede.fixed(mdp.task, 0), 1500, progress=False)
    assert run.regret[-1] < 0.5 * worst.regret[-1]


def doubled(now, then):
    return bool((now >= then + np.maximum(1, then)).any())


@pytest.mark.parametrize("algorithm", [cede.ucrl2_mc, cede.ucrl2])
def test_the_doubling_rule_is_that_of_ucrl2(algorithm):
    """A new plan before an episode if and only if, of some row of either table, the visits since the plan reach those before it."""
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = algorithm(mdp.task, replan="doubling")
    then = [np.zeros(layer.shape[0]) for layer in (learner.counts.agents, learner.counts.environment)]
    plan, plans = learner.plan, 1
    for episode in play(mdp, 400, 3):
        learner.observe_episode(episode)
        learner.end_episode()
        counts = learner.counts
        now = [np.asarray(layer.sum(axis=1)).ravel() for layer in (counts.agents, counts.environment)]
        due = any(doubled(a, b) for a, b in zip(now, then, strict=True))
        assert (learner.plan is not plan) == due
        if due:
            plan, then, plans = learner.plan, now, plans + 1
    assert 12 < plans < 60


def test_doubling_in_a_fleet_sees_what_others_saw():
    mdps = [cede.worlds.riverswim(agents=[p, 1 - p]) for p in (0.1, 0.4)]
    learners = [cede.ucrl2_mc(m.task, replan="doubling") for m in mdps]
    fleet = cede.Fleet(learners)
    assert all(learner.plan is learner.plan for learner in learners)
    before = [learner.plan for learner in learners]
    learners[0].observe_episode(play(mdps[0], 1, 0)[0])
    learners[0].end_episode()
    learners[1]._count_episode(None)  # has seen nothing itself
    assert all(learner.plan is not plan for learner, plan in zip(learners, before, strict=True))
    history = cede.simulate_fleet(mdps, fleet, 200, progress=False)
    assert history.settings["replan"] == "doubling"


@pytest.mark.parametrize("replan", ["every", "doubling", 3])
def test_simulate_plans_as_a_loop_of_ones_own_would(replan):
    mdp = cede.worlds.riverswim(agents=[0.2, 0.9], switch_cost=0.1)
    one, other = (cede.ucrl2_mc(mdp.task, scale=0.5, replan=replan, seed=4) for _ in range(2))
    run = cede.simulate(mdp, one, 60, seed=np.random.default_rng(1))
    rng = np.random.default_rng(1)
    for k in range(60):
        assert cede.expected_cost(mdp, other.plan.policy) == run.expected_cost[k]
        other.observe_episode(cede.rollout(mdp, other.plan, rng))
        other.end_episode()
    np.testing.assert_array_equal(one.plan.policy, other.plan.policy)
    np.testing.assert_array_equal(one.plan.value, other.plan.value)


@pytest.mark.parametrize("options", [{}, {"replan": 4}, {"replan": "doubling"}, {"planning": "greedy"}])
def test_simulate_starts_from_the_plan_that_there_is(options):
    """A plan made by hand, or kept against the rule, is the plan of the next episode, in `simulate` too."""
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, scale=0.3, **options)
    cede.simulate(mdp, learner, 10)
    learner.replan()
    plan = learner.plan
    assert cede.simulate(mdp, learner, 1).expected_cost[0] == cede.expected_cost(mdp, plan.policy)
    if options != {"planning": "greedy"}:
        plan = learner.plan
        learner.observe_episode(cede.rollout(mdp, plan, 3))
        learner.end_episode(replan=False)
        assert learner.plan is plan
        assert cede.simulate(mdp, learner, 1).expected_cost[0] == cede.expected_cost(mdp, plan.policy)


def test_a_plan_handed_out_is_never_overwritten():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    for options in ({}, {"replan": 5}, {"replan": "doubling"}, {"planning": "greedy"}):
        learner = cede.ucrl2_mc(mdp.task, scale=0.2, **options)
        cede.simulate(mdp, learner, 20, progress=False)
        plan = learner.plan
        policy, value = plan.policy.copy(), plan.value.copy()
        cede.simulate(mdp, learner, 50, progress=False)
        np.testing.assert_array_equal(plan.policy, policy)
        np.testing.assert_array_equal(plan.value, value)


def test_readonly_policies_are_taken():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    policy = np.zeros((20, 6, 2), dtype=np.int16)
    policy.flags.writeable = False
    assert cede.expected_cost(mdp, policy) == cede.expected_cost(mdp, policy.copy())
    cede.simulate(mdp, cede.fixed(mdp.task, policy), 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"planning": "lazy"}, "ucrl2_mc: planning is 'lazy', must be one of 'full', 'greedy'"),
        ({"replan": "often"}, "ucrl2_mc: replan is 'often', must be one of 'every', 'doubling'"),
        ({"replan": 0}, "ucrl2_mc: replan is 0, must be an integer from 1 to"),
        ({"replan": 2.5}, "ucrl2_mc: replan is 2.5, must be an integer from 1 to"),
        ({"replan": 2**70}, "ucrl2_mc: replan is 1180591620717411303424, must be an integer from 1 to"),
        ({"replan": "doubling", "planning": "greedy"}, "ucrl2_mc: replan is 'doubling', must be 'every': greedy planning"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        cede.ucrl2_mc(cede.worlds.riverswim().task, **options)


def test_evaluate_every_is_checked():
    mdp = cede.worlds.riverswim()
    with pytest.raises(ValueError, match="simulate: evaluate_every is 0, must be an integer from 1 to"):
        cede.simulate(mdp, cede.greedy(mdp.task), 5, evaluate_every=0)


def test_a_running_episode_must_end_before_a_simulation():
    mdp = cede.worlds.riverswim()
    learner = cede.ucrl2_mc(mdp.task)
    learner.observe(0, 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="simulate: the number of steps of the learner's running episode is 1, must be 0"):
        cede.simulate(mdp, learner, 3)
    learner.end_episode()
    cede.simulate(mdp, learner, 3)
    assert learner.counts.environment.sum() == 61


def test_a_scale_that_fails_later_stops_the_run_there():
    mdp = cede.worlds.riverswim()
    learner = cede.ucrl2_mc(mdp.task, scale=cede.Scale(agents=lambda k: 1.0 if k < 40 else -1.0))
    with pytest.raises(ValueError, match=r"Scale, episode 40: agents is -1\.0"):
        cede.simulate(mdp, learner, 100, progress=False)
    assert learner.episode == 40
    assert learner.counts.environment.sum() == 39 * 20


def test_long_episodes_are_counted_in_pieces():
    """More steps than are counted at once, and pools that must grow in the middle of one."""
    rng = np.random.default_rng(0)
    transition = np.full((30, 2, 30), 1 / 30)
    env = cede.Environment(transition, rng.random((30, 2)), np.full(30, 1 / 30))
    team = cede.Team([cede.Agent("a", np.full((30, 2), 0.5)), cede.Agent("b", np.full((30, 2), 0.5))])
    mdp = cede.TwoLayerMDP(env, team, 300)
    learner = cede.ucrl2_mc(mdp.task, replan=5)
    history = cede.simulate(mdp, learner, 6, seed=np.random.default_rng(2), progress=False)
    rng, other = np.random.default_rng(2), cede.ucrl2_mc(mdp.task, replan=5)
    for _ in range(6):
        other.observe_episode(cede.rollout(mdp, other.plan, rng))
        other.end_episode()
    assert (learner.counts.environment != other.counts.environment).nnz == 0
    assert (learner.counts.agents != other.counts.agents).nnz == 0
    assert history.control.sum() == learner.counts.environment.sum() == 1800


# ------------------------------------------------------------------------------------------ nothing is lost, nothing is trusted


@pytest.mark.parametrize("options", [{}, {"replan": "doubling"}, {"planning": "greedy"}])
def test_an_interrupt_leaves_the_books_in_order(options):
    """Whenever Ctrl-C comes: every episode that was counted is counted as one."""

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, **options)
    cede.simulate(mdp, learner, 5)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(4):
            signal.setitimer(signal.ITIMER_REAL, 0.13)
            with pytest.raises(Stop):
                cede.simulate(mdp, learner, 10**7, evaluate_every=10**7, progress=False)
            assert learner.counts.environment.sum() == (learner.episode - 1) * 20 == learner.counts.agents.sum()
            assert learner.episode > 6
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    cede.simulate(mdp, learner, 5)


@pytest.mark.parametrize(
    "where", ["cede.fleet.run.Run.enter", "cede.fleet.shard.WorkingGroup.begin", "cede.fleet.run.Run.set_pace"]
)
def test_an_interrupt_anywhere_in_a_round(monkeypatch, where):
    """The round is finished, and counts."""
    mdps = [cede.worlds.riverswim(agents=[p, 1 - p]) for p in (0.1, 0.2, 0.3)]
    whole, broken = ([cede.ucrl2_mc(m.task) for m in mdps] for _ in range(2))
    cede.simulate_fleet(mdps, cede.Fleet(whole), 7)
    owner, name = where.rsplit(".", 1)
    module, cls = owner.rsplit(".", 1)
    method, calls = getattr(getattr(importlib.import_module(module), cls), name), []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 7:
            signal.raise_signal(signal.SIGINT)
        return method(*arguments)

    monkeypatch.setattr(where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        cede.simulate_fleet(mdps, cede.Fleet(broken), 1000, jobs=1, progress=False)
    for one, other in zip(whole, broken, strict=True):
        assert other.episode == 8
        assert (one.counts.agents != other.counts.agents).nnz == 0
        assert (one.counts.environment != other.counts.environment).nnz == 0


def test_an_error_in_the_middle_of_a_round_leaves_the_learners_as_they_were(monkeypatch):
    mdps = [cede.worlds.riverswim(agents=[p, 1 - p]) for p in (0.1, 0.2, 0.3)]
    learners = [cede.ucrl2_mc(m.task) for m in mdps]
    fleet = cede.Fleet(learners)
    cede.simulate_fleet(mdps, fleet, 4)

    def full(*_):
        raise MemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr("cede.fleet.shard.WorkingGroup.begin", full)
        with pytest.raises(MemoryError):
            cede.simulate_fleet(mdps, fleet, 4)
    assert all(learner.episode == 5 and learner.observed == 0 for learner in learners)
    cede.simulate_fleet(mdps, fleet, 4)
    assert learners[0].counts.environment.sum() == 3 * 8 * 20


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda learner: pickle.loads(pickle.dumps(learner))])
@pytest.mark.parametrize("options", [{}, {"replan": "doubling"}, {"planning": "greedy"}])
@pytest.mark.parametrize("algorithm", [cede.ucrl2_mc, cede.ucrl2])
def test_a_copy_goes_on_like_the_original(algorithm, options, twin):
    mdp = cede.worlds.riverswim(agents=[0.1, 0.9], macro=2)
    learner = algorithm(mdp.task, scale=0.3, **options)
    cede.simulate(mdp, learner, 20)
    other = twin(learner)
    one, two = (cede.simulate(mdp, a, 200, seed=3, progress=False) for a in (learner, other))
    np.testing.assert_array_equal(one.regret, two.regret)
    np.testing.assert_array_equal(learner.plan.value, other.plan.value)


def test_greedy_planning_keeps_no_plan():
    """What `simulate` evaluates is what is played, whatever was asked of the plan before."""
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    runs = []
    for meddle in (lambda a: None, lambda a: a.replan(), lambda a: (a.plan, a.choose(0, 3, 0))):
        learner = cede.ucrl2_mc(mdp.task, scale=0.1, planning="greedy")
        cede.simulate(mdp, learner, 60)
        learner.observe_episode(cede.rollout(mdp, mdp.task.always(1), 3))
        learner.end_episode(replan=False)
        meddle(learner)
        runs.append((learner, cede.simulate(mdp, learner, 1).expected_cost[0]))
    assert runs[0][1] == runs[1][1]


def test_a_plan_that_could_not_be_made_is_not_taken_for_made():
    mdp = cede.worlds.riverswim()
    learner = cede.ucrl2_mc(mdp.task, scale=cede.Scale(agents=lambda k: 1.0 if k < 12 else -1.0))
    cede.simulate(mdp, learner, 11)
    for _ in range(2):
        with pytest.raises(ValueError, match="Scale, episode 12"):
            learner.plan  # noqa: B018


def test_a_schedule_that_ends_stops_the_run_where_it_ends():
    mdp = cede.worlds.riverswim()
    schedule = [1.0] * 12
    learner = cede.ucrl2_mc(mdp.task, scale=cede.Scale(agents=lambda k: schedule[k - 1]))
    with pytest.raises(IndexError):
        cede.simulate(mdp, learner, 100, progress=False)
    assert learner.episode == 13


def test_what_was_checked_cannot_be_changed_behind_the_learners_back():
    mdp = cede.worlds.riverswim()
    policy = np.zeros((20, 6, 2), dtype=np.int16)
    learner = cede.fixed(mdp.task, policy)
    policy[:] = 99
    cede.simulate(mdp, learner, 3)
    with pytest.raises(ValueError, match="read-only"):
        learner.plan.policy[0, 0, 0] = 99
    learner, episode = cede.ucrl2_mc(mdp.task), play(mdp, 1, 0)[0]
    learner.observe_episode(episode)
    with pytest.raises(ValueError, match="read-only"):
        episode.states[:] = 10**6
    learner.end_episode()
    assert learner.counts.environment.sum() == 20


def test_scratch_of_other_problems_is_never_used():
    """Same number of rows, more outcomes: what is remembered of one would lie outside the rows of the other."""
    one = random_mdp(1, n_states=100, n_actions=2, n_agents=2, horizon=9, kinds=[None])
    env = cede.Environment(np.full((20, 10, 20), 0.05), np.ones((20, 10)), np.full(20, 0.05))
    varying = cede.Agent("a", np.full((9, 20, 10), 0.1), varies_with="time")
    two = cede.TwoLayerMDP(env, cede.Team([varying, cede.Agent("b", np.full((20, 10), 0.1))]), 9)
    for mdp in (one, two, one, two):
        cede.simulate(mdp, cede.ucrl2_mc(mdp.task, scale=0.01), 3)
    fresh = cede.simulate(two, cede.ucrl2_mc(two.task, scale=0.01), 3)
    with ThreadPoolExecutor(1) as pool:  # a thread that has planned nothing yet
        alone = pool.submit(cede.simulate, two, cede.ucrl2_mc(two.task, scale=0.01), 3).result()
    np.testing.assert_array_equal(fresh.expected_cost, alone.expected_cost)
