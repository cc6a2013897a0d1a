"""Declared structure: counting, planning and learning by cases, against slow twins, linear programming and the truth."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import cede
from cede.beliefs.belief import holds
from cede.beliefs.truth import true_beliefs
from cede.insight.structure.checking import homogeneity, moments
from cede.learners.learner import Learner
from cede.rows.stored import Counts
from cede.rows.working import count
from problems import play, random_rows, random_structured
from reference import count_structured_slow, least_mean_lp, plan_slow

RULES = st.builds(random_structured, st.integers(0, 10**6), labels=st.booleans())


@given(mdp=RULES, seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_counts_pool_per_case(mdp, seed):
    task, structure = mdp.task, mdp.structure
    episodes = play(mdp, 6, seed)
    agents, environment = count_structured_slow(task, structure, episodes)
    counts = count(task, episodes, structure=structure)
    found = {tuple(int(i) for i in key): int(counts.environment[key]) for key in zip(*counts.environment.nonzero(), strict=True)}
    assert found == environment
    expected = np.zeros(counts.agents.shape)
    for (d, slot, case, outcome), n in agents.items():
        expected[2 * (task.layout.slot[d] + slot) + case, outcome] = n
    np.testing.assert_array_equal(counts.agents.toarray(), expected)


def closed_twin(mdp, learner):
    """The slow planner on the belief of a structured learner: every row restricted to what it can lead to."""
    agents, environment = learner.beliefs
    task, outcomes = mdp.task, mdp.structure.environment

    def rows(belief):
        dense, total = belief.centre.matrix().toarray(), belief.centre.total
        return dense / np.where(total > 0, total, 1)[:, None] + (total == 0)[:, None] / dense.shape[1]

    centre_e, centre_a = rows(environment), rows(agents)
    tables = {}
    for s, a in np.ndindex(task.n_states, task.n_actions):
        support = outcomes.states_from(s, a)
        tables[s, a] = (centre_e[environment.row[s, a]], np.array(support))
    width_e = environment.width[environment.row]
    by_agent = [slice(task.layout.slot[d], task.layout.slot[d] + task.layout.n_slots[d]) for d in range(task.n_agents)]
    tables_a = [{(c, s): (centre_a[r], None) for (c, s), r in np.ndenumerate(agents.row[part])} for part in by_agent]
    widths_a = [agents.width[agents.row[part]] for part in by_agent]

    def least(row, width, values):
        centre, support = row
        where = slice(None) if support is None else support
        return least_mean_lp(centre[where], width, values[where])

    costs = (task.env_cost, task.control_cost, task.switch_cost, task.horizon, task.varies_with)
    return plan_slow(tables_a, widths_a, tables, width_e, *costs, least)


@given(mdp=RULES, seed=st.integers(0, 1000), scale=st.sampled_from([0.05, 0.2, 1.0]))
@settings(max_examples=15, deadline=None)
def test_planning_with_cases_is_exact(mdp, seed, scale):
    """Rows that share a case, with known support, against loops and linear programming."""
    learner = cede.ucrl2_mc(mdp.task, structure=mdp.structure, scale=scale)
    for episode in play(mdp, 8, seed):
        learner.observe_episode(episode)
        learner.end_episode(replan=False)
    learner.replan()
    value, q = closed_twin(mdp, learner)
    np.testing.assert_allclose(learner.plan.value, value, atol=1e-8)
    chosen = np.take_along_axis(q, learner.plan.policy[..., None].astype(int), axis=-1)[..., 0]
    np.testing.assert_allclose(chosen, value[:-1], atol=1e-8)


@given(mdp=RULES)
@settings(max_examples=20, deadline=None)
def test_a_structure_that_declares_nothing_new_changes_nothing(mdp):
    """Every state and pair its own case, all states possible: the plain learner."""
    task, n, a = mdp.task, mdp.task.n_states, mdp.task.n_actions
    own = cede.Outcomes.of(np.arange(n * a).reshape(n, a), np.broadcast_to(np.arange(n), (n, a, n)))
    trivial = cede.Structure({name: np.arange(n) for name in task.agents}, own)
    plain, cased = cede.ucrl2_mc(task, seed=3), cede.ucrl2_mc(task, structure=trivial, seed=3)
    for learner in (plain, cased):
        cede.simulate(mdp, learner, 30, seed=1, progress=False)
    for layer in ("agents", "environment"):
        np.testing.assert_array_equal(getattr(plain.counts, layer).toarray(), getattr(cased.counts, layer).toarray())
    np.testing.assert_allclose(plain.plan.value, cased.plan.value, atol=1e-9)
    np.testing.assert_array_equal(plain.plan.policy, cased.plan.policy)


def test_radii_follow_from_cases_and_outcomes():
    mdp = cede.worlds.lane_driving()
    learner = cede.ucrl2_mc(mdp.task, structure=mdp.structure, known_agents={"machine": mdp.team.agents[0].policy})
    cede.simulate(mdp, learner, 50, seed=0, progress=False)
    agents, environment = learner.beliefs
    outcomes, counts = mdp.structure.environment, learner.counts
    steps = 50 * 10
    for case in range(6):
        n, m = counts.environment[[case]].sum(), outcomes.n_outcomes[case]
        expected = np.sqrt(2 * (7 * np.log(steps) + np.log(6) + (m + 1) * np.log(2) - np.log(0.1)) / max(1, n))
        widths = environment.width[outcomes.case == case]
        np.testing.assert_allclose(widths, expected, rtol=1e-12)
    human = agents.width[agents.row[10]]  # behind the ten tables of the machine
    visits = counts.agents.sum(axis=1)[-30:][mdp.structure.agents["human"].case[mdp.structure.agents["human"].row]]
    constant = 2 * (7 * np.log(steps) + np.log(30) + 4 * np.log(2) - np.log(0.1))
    np.testing.assert_allclose(human, np.sqrt(constant / np.maximum(1, visits)), rtol=1e-12)
    assert (agents.width[agents.row[:10]] == 0).all()


@pytest.mark.parametrize("make", [lambda: cede.worlds.riverswim(agents=[0.3, 0.7]), lambda: cede.worlds.riverswim(macro=2)])
def test_the_rivers_structure_is_true(make):
    obeys(make())


def test_the_roads_structure_is_true():
    mdp = cede.worlds.lane_driving(sigma=1.3)
    assert str(mdp.structure) == "human sees 30 cases; environment has 6 cases of up to 155 outcomes"
    obeys(mdp)


def obeys(mdp):
    """All places of a case have the same true distribution, outcome by outcome, and nothing else happens."""
    outcomes, dense = mdp.structure.environment, mdp.environment.transition
    first = {}
    for s, a in np.ndindex(outcomes.row.shape):
        row = outcomes.row[s, a]
        to = outcomes.states_from(s, a)
        p = dense[[s * mdp.task.n_actions + a]].toarray()[0]
        np.testing.assert_allclose(first.setdefault(int(outcomes.case[row]), p[to]), p[to], atol=1e-15)
        assert p[to].sum() == pytest.approx(1.0)
    for name, seen in mdp.structure.agents.items():
        policy = next(agent.policy for agent in mdp.team.agents if agent.name == name)
        first = {}
        for s, row in enumerate(seen.row):
            p = policy[s][seen.to[row]]
            np.testing.assert_allclose(first.setdefault(int(seen.case[row]), p), p, atol=1e-12)


@pytest.mark.parametrize("belief", ["printed", "bernstein"])
@pytest.mark.parametrize("world", ["river", "lane"])
def test_the_truth_stays_inside_and_the_optimum_below(world, belief):
    """Coverage with structure: no set is left, and no optimistic value exceeds the optimum, in all of many looks."""
    for seed in range(4 if world == "river" else 2):
        mdp = cede.worlds.riverswim(agents=[0.2, 0.9]) if world == "river" else cede.worlds.lane_driving(switch_cost=0.1)
        learner = cede.ucrl2_mc(mdp.task, structure=mdp.structure, belief=belief, seed=seed)
        optimum = cede.solve(mdp).value
        for _ in range(8):
            cede.simulate(mdp, learner, 40 if world == "river" else 12, seed=seed, progress=False)
            assert all(holds(set_, truth) for set_, truth in zip(learner.beliefs, true_beliefs(mdp), strict=True))
            assert (learner.plan.value <= optimum + 1e-9).all()


def test_structure_learns_lane_driving_with_the_printed_radii():
    """Where the plain learner with the printed radii learns nothing."""
    mdp = cede.worlds.lane_driving(control_cost=0.2, switch_cost=0.1)
    known = {"machine": mdp.team.agents[0].policy}
    regret = {}
    for name, structure in (("plain", None), ("structured", mdp.structure)):
        learner = cede.ucrl2_mc(mdp.task, structure=structure, known_agents=known)
        regret[name] = cede.simulate(mdp, learner, 400, seed=0, evaluate_every=20, progress=False).regret[-1]
    assert regret["structured"] < 20
    assert regret["plain"] > 1000


def test_fleets_share_counts_by_case():
    mdps = cede.worlds.riverswim_teams(4, seed=1)
    fleet = cede.Fleet([cede.ucrl2_mc(m.task, structure=m.structure, seed=i) for i, m in enumerate(mdps)])
    cede.simulate_fleet(mdps, fleet, 25, seed=5, progress=False)
    outcomes = mdps[0].structure.environment
    assert fleet.environment.shape == (outcomes.n_cases, 3)
    assert fleet.environment.sum() == 4 * 25 * 20
    newcomer = fleet.welcome(mdps[0].task)
    assert newcomer.counts.environment.sum() == 2000
    assert newcomer.settings.structure.environment is outcomes
    with pytest.raises(ValueError, match=r"Fleet\.add: the environment's structure of the learner is none, must be the same"):
        fleet.add(cede.ucrl2_mc(mdps[0].task))
    with pytest.raises(ValueError, match="Fleet: the environment's structure of learner 1 is one where environment has 6 cases"):
        cede.Fleet([cede.ucrl2_mc(mdps[0].task), cede.ucrl2_mc(mdps[0].task, structure=mdps[0].structure)])


def test_a_fleet_of_one_by_hand():
    """Round by round, a fleet with structure is what its learners do when each is told the same by hand."""
    mdp = random_structured(5, labels=False)
    learner, other = (cede.ucrl2_mc(mdp.task, structure=mdp.structure, scale=0.1, seed=2) for _ in range(2))
    cede.simulate(mdp, learner, 20, seed=9, progress=False)
    rng = np.random.default_rng(np.random.SeedSequence(9, spawn_key=(0,)))
    for _ in range(20):
        other.observe_episode(cede.rollout(mdp, other.plan, rng))
        other.end_episode()
    for layer in ("agents", "environment"):
        np.testing.assert_array_equal(getattr(learner.counts, layer).toarray(), getattr(other.counts, layer).toarray())
    np.testing.assert_array_equal(learner.plan.policy, other.plan.policy)
    np.testing.assert_array_equal(learner.plan.value, other.plan.value)


def test_greedy_planning_with_structure_stays_optimistic():
    mdp = cede.worlds.riverswim(agents=[0.2, 0.9])
    learner = cede.ucrl2_mc(mdp.task, structure=mdp.structure, planning="greedy")
    history = cede.simulate(mdp, learner, 400, seed=0, progress=False)
    assert (learner.state.bounds <= cede.solve(mdp).value + 1e-9).all()
    assert history.regret[-1] < cede.simulate(mdp, cede.fixed(mdp.task, 0), 400, progress=False).regret[-1] / 2


def test_declared_by_functions():
    """A corridor: from a function of names, and of features."""
    names = ["left end", "middle 1", "middle 2", "right end"]

    def walk(state, action):
        i, step = names.index(state), {"back": -1, "on": 1}[action]
        if 0 <= i + step < 4:
            return "free", {"slips": state, "moves": names[i + step]}
        return "wall", {"stays": state}

    structure = cede.Structure.by(names, ["back", "on"], agents={"ann": lambda name: name.split()[0]}, environment=walk)
    np.testing.assert_array_equal(structure.agents["ann"], [0, 1, 1, 2])
    assert structure.environment.states_from(1, 1) == [1, 2]
    assert structure.environment.states_from(0, 0) == [0]
    assert structure.environment.n_cases == 2
    features = cede.Structure.by([(0, "a"), (1, "a"), (1, "b")], agents={"ann": lambda f: f[0], "bob": lambda f: f})
    np.testing.assert_array_equal(features.agents["ann"], [0, 1, 1])
    np.testing.assert_array_equal(features.agents["bob"], [0, 1, 2])
    mirrored = cede.Structure.by([0, 1], ["l", "r"], agents={"ann": lambda s: ("all", {"near": "lr"[s], "far": "rl"[s]})})
    np.testing.assert_array_equal(mirrored.agents["ann"].to[mirrored.agents["ann"].row], [[0, 1], [1, 0]])


def test_bad_declarations():
    mdp = cede.worlds.riverswim()
    task, fits = mdp.task, mdp.structure.environment
    for text, make in {
        r"Outcomes: to\[0\] is 3 for two outcomes, must be another one": lambda: cede.Outcomes.of([[0]] * 4, [[[3, 3]]] * 4),
        r"Outcomes\.of: to\[0, 0, 1\] is 7, must be an integer from -1 to 1": lambda: cede.Outcomes.of(
            [[0], [0]], [[[0, 7]], [[0, 1]]]
        ),
        "the number of outcomes of to\\[1\\] is 2, must be 1, as in row 0": lambda: cede.Outcomes.of(
            [[0], [0]], [[[0, -1]], [[0, 1]]]
        ),
        "outcomes of rule\\(1, 0\\) is \\['b'\\], must be \\['a'\\], as before in case 'x'": lambda: cede.Outcomes.by(
            [0, 1], [0], lambda s, a: ("x", {"ab"[s]: s})
        ),
        "outcome 'a' is 9, must be one of": lambda: cede.Outcomes.by([0, 1], [0], lambda s, a: ("x", {"a": 9})),
        "an agent of structure is 'eve', must be one of": lambda: cede.ucrl2_mc(task, structure=cede.Structure({"eve": range(6)})),
        "agent 'p=0' is 5, must be 6, as of the task": lambda: cede.ucrl2_mc(task, structure=cede.Structure({"p=0": range(5)})),
        r"\(S, A\) of structure.environment is \(2, 1\)": lambda: cede.greedy(
            task, structure=cede.Structure(environment=cede.Outcomes.of([[0], [0]], [[[0]], [[1]]]))
        ),
        "ucrl2_mc: structure is 3, must be a Structure": lambda: cede.ucrl2_mc(task, structure=3),
        "labels is 'abc', must be a sequence": lambda: cede.Structure({"ann": "abc"}),
        "one for each action": lambda: cede.Outcomes.of([0, 0], [[0, -1], [0, -1]]),
    }.items():
        with pytest.raises(ValueError, match=text):
            make()
    learner = cede.ucrl2_mc(task, structure=cede.Structure(environment=fits))
    with pytest.raises(ValueError, match=r"observe: next_state is 4, must be one of \[0, 1\]: the declared structure"):
        learner.observe(0, 0, 0, 0, 1, 4)
    assert learner.observed == 0
    jumps = np.eye(6)[np.random.default_rng(0).integers(6, size=(6, 2))]
    other = cede.TwoLayerMDP(cede.Environment(jumps, mdp.environment.cost, mdp.environment.start), mdp.team, 20)
    with pytest.raises(ValueError, match=r"simulate: the next state .* is possible in mdp, must be one of"):
        cede.simulate(other, learner, 1, progress=False)


# --------------------------------------------------------------------------------------- is it true?


def test_moments_of_the_statistic():
    """Against all tables with the same sums, drawn by SciPy."""
    rng = np.random.default_rng(0)
    for rows, columns in (([3, 5, 9, 1], [4, 4, 10]), ([2, 2, 2, 2, 2], [5, 5]), ([40, 7, 1], [20, 20, 8])):
        sums = np.array(rows), np.array(columns)
        tables = stats.random_table(*sums).rvs(40_000, random_state=rng)
        expected = np.outer(*sums) / sum(rows)
        statistic = ((tables - expected) ** 2 / expected).sum(axis=(1, 2))
        mean, variance = moments(*(part.astype(float) for part in sums))
        assert statistic.mean() == pytest.approx(mean, rel=0.02)
        assert statistic.var() == pytest.approx(variance, rel=0.05)


def test_p_values_of_few_counts():
    """True tables are suspected about as often as the level says."""
    rng = np.random.default_rng(1)
    p_values = []
    for _ in range(3000):
        p = random_rows(rng, (1, 5), sparse=0.2)[0]
        table = np.array([rng.multinomial(n, p) for n in rng.integers(0, 9, size=8)], dtype=float)
        p_values.append(homogeneity(table, 1000, rng))
    for level in (0.01, 0.05, 0.15):
        assert level / 3 < np.mean(np.array(p_values) <= level) <= level + 3 * np.sqrt(level / 3000)


@pytest.mark.parametrize("table", [[[1999, 1], [1, 0]], [[4999, 1], [1, 0]], [[19999, 1], [1, 0]], [[200, 0], [2, 0]]])
def test_a_rare_outcome_is_no_alarm(table):
    assert homogeneity(np.array(table, dtype=float), 1000, np.random.default_rng(0)) == 1.0


def test_uneven_visits_and_a_rare_outcome():
    """Where the gamma law alone would raise an alarm in most tables."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        table = np.array([[n - k, k] for n in (2000, 1, 1, 1) for k in [rng.binomial(n, 0.001)]], dtype=float)
        found.append(homogeneity(table, 1000, rng))
    assert np.mean(np.array(found) <= 0.05) < 0.08


def test_a_true_structure_passes_and_a_wrong_one_is_found():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    episodes = play(mdp, 400, 3)
    check = cede.insight.check_structure(mdp.task, mdp.structure, episodes)
    assert check.passed, check
    assert check.tested > 0
    assert str(check).startswith(f"0 of {check.tested} cases look wrong")
    alike = cede.Structure.by(range(6), range(2), agents={"p=0.3": lambda s: 0}, environment=careless)
    wrong = cede.insight.check_structure(mdp.task, alike, episodes)
    assert {(found.layer, found.place) for found in wrong.suspicions} == {("environment", (5, 1))}
    assert "state 5 (s6), action 1 (right) is least like the others" in str(wrong)
    strangers = cede.TwoLayerMDP(mdp.environment, cede.Team([moody(mdp.team.agents[0]), mdp.team.agents[1]]), 20)
    wrong = cede.insight.check_structure(mdp.task, cede.Structure({"p=0.3": [0] * 6}), count(mdp.task, play(strangers, 400, 3)))
    assert [(found.layer, found.place) for found in wrong.suspicions] == [("p=0.3", (2,))]
    small = cede.Structure(environment=cede.Outcomes.by(range(6), range(2), lambda s, a: ((s, a), {"back": max(s - 1, 0)})))
    impossible = cede.insight.check_structure(mdp.task, small, episodes)
    assert "was seen, but is not declared" in str(impossible)
    assert impossible.suspicions[0].p_value == 0


def careless(s, a):
    """The far bank taken for the middle, but for what it leads to: forward means the near bank here."""
    if a == 0:
        return ("left", s == 0), {"back": max(s - 1, 0)}
    if s == 0:
        return "near", {"stay": 0, "forward": 1}
    return "middle", {"back": s - 1, "stay": s, "forward": (s + 1) % 6}


def moody(agent):
    policy = agent.policy.copy()
    policy[2] = policy[2][::-1]
    return replace(agent, policy=policy)


def test_counts_of_a_structure_go_on():
    """A learner may start from counts that were made with the same structure, and no other."""
    mdp = cede.worlds.riverswim()
    like = cede.ucrl2_mc(mdp.task, structure=mdp.structure)
    counts = count(mdp.task, play(mdp, 5, 0), structure=mdp.structure)
    assert Learner(mdp.task, like.settings, counts=counts).counts.environment.sum() == 100
    with pytest.raises(ValueError, match="the shape of environment in counts is"):
        Learner(mdp.task, like.settings, counts=count(mdp.task, play(mdp, 5, 0)))


# --------------------------------------------------------------------------------------- what a reviewer found


def test_rows_that_serve_no_place_are_refused():
    outcomes = cede.worlds.riverswim().structure.environment
    with pytest.raises(ValueError, match=r"Outcomes: the number of places of row \d+ is 0, must be at least 1"):
        cede.Outcomes(outcomes.row, np.r_[outcomes.case, [0]], np.r_[outcomes.to, outcomes.to[:1]])


def test_numbers_too_large_for_a_state_are_refused():
    with pytest.raises(ValueError, match="must be an integer from -1 to 5"):
        cede.Outcomes(np.zeros((6, 2), dtype=int), [0], [[2**32]])


def test_a_shard_whose_teams_share_nothing():
    """Beside a structured fleet, on a worker of its own."""
    mdps = cede.worlds.riverswim_teams(2, seed=1)
    results = []
    for jobs in (1, 2):
        fleet = cede.Fleet([cede.ucrl2_mc(mdps[0].task, structure=mdps[0].structure), cede.ucrl2(mdps[1].task)])
        results.append(cede.simulate_fleet(mdps, fleet, 12, jobs=jobs, progress=False).expected_cost)
    np.testing.assert_array_equal(*results)


def test_counts_of_another_structure_are_refused():
    """Of the same shape, but with the numbers of outcomes of its cases swapped."""
    mdp = cede.worlds.riverswim()
    where = np.zeros((6, 2), dtype=int)
    where[:, 1] = 1
    everything = np.broadcast_to(np.arange(6), (6, 6))

    def declare(first_is_certain):
        to = np.full((6, 2, 6), -1)
        to[:, int(first_is_certain)] = everything
        to[:, 1 - int(first_is_certain), 0] = np.arange(6)
        return cede.Structure(environment=cede.Outcomes.of(where, to))

    wide = count(mdp.task, play(mdp, 20, 0), structure=mdp.structure)
    assert wide.environment.shape == (6, 3)
    algorithm = cede.ucrl2_mc(mdp.task, structure=declare(True)).settings
    other = Counts.zeros(mdp.task, structure=declare(False))
    table = other.environment.tolil()
    table[0, 5] = 3
    counts = Counts.of(mdp.task, other.agents, table.tocsr(), 3, structure=declare(False))
    with pytest.raises(ValueError, match="a counted outcome of case 0 is 5, must be from 0 to 0: it has 1"):
        Learner(mdp.task, algorithm, counts=counts)
    with pytest.raises(ValueError, match="count: structure is given, must be left out with flat"):
        count(mdp.task, play(mdp, 2, 0), flat=True, structure=mdp.structure)


def test_unclear_declarations_get_clear_errors():
    states = range(3)
    for text, make in {
        r"rule\(0, 0\) is None, must be \(case, \{outcome": lambda: cede.Outcomes.by(states, [0], lambda s, a: None),
        r"rule\(0, 0\) is \('x', \[1\]\), must be \(case": lambda: cede.Outcomes.by(states, [0], lambda s, a: ("x", [1])),
        r"rule\(0, 0\) is \('x', \{\}\), must be": lambda: cede.Outcomes.by(states, [0], lambda s, a: ("x", {})),
        r"outcome 'a' is \[1\], must be one of": lambda: cede.Outcomes.by(states, [0], lambda s, a: ("x", {"a": [1]})),
        "Outcomes.of: to is .*, must be an array of integers": lambda: cede.Outcomes.of([[0], [0]], [[[0, 1]], [[0]]]),
        r"Structure.by: agents\['ann'\] is .*, must be a function": lambda: cede.Structure.by(states, agents={"ann": [1, 2, 3]}),
        "the label of state 1 is nan, must be there": lambda: cede.Structure({"ann": [0.0, np.nan, np.nan]}),
        "check_structure: task is 'TwoLayerMDP', must be a Task": lambda: cede.insight.check_structure(
            cede.worlds.riverswim(), cede.Structure(), []
        ),
    }.items():
        with pytest.raises(ValueError, match=text):
            make()
    with pytest.raises(ValueError, match="actions is empty, must be the actions"):
        cede.Structure.by(states, environment=lambda s, a: ("x", {"a": s}))
    pandas = pytest.importorskip("pandas")
    np.testing.assert_array_equal(cede.Structure({"ann": pandas.Series(["a", "b", "a"])}).agents["ann"], [0, 1, 0])


def test_a_check_takes_what_learners_take():
    mdp = cede.worlds.riverswim([0.5, 0.9])
    episodes = play(mdp, 200, 0)
    one = cede.insight.check_structure(mdp.task, mdp.structure, (episode for episode in episodes))
    log = {
        "episode": np.repeat(np.arange(200), 20),
        "state": np.concatenate([e.states[:-1] for e in episodes]),
        "agent": np.concatenate([e.agents for e in episodes]),
        "action": np.concatenate([e.actions for e in episodes]),
        "next_state": np.concatenate([e.states[1:] for e in episodes]),
    }
    two = cede.insight.check_structure(mdp.task, mdp.structure, log)
    assert (one.passed, one.tested, one.untested) == (two.passed, two.tested, two.untested)
