"""Learners without horizon: by hand, by log, from files, in runs and in fleets."""

from dataclasses import replace

import numpy as np
import pytest

import cede
from problems import random_mdp

AVERAGE = cede.worlds.riverswim(agents=[0.2, 0.8], horizon=None, switch_cost=0.05)
DISCOUNTED = cede.worlds.riverswim(agents=[0.2, 0.8], horizon=None, discount=0.95, switch_cost=0.05)


def walk(mdp, learner, steps, seed=0, begin=(0, 0)):
    """Use a learner by hand; return where it ended."""
    rng, (state, agent) = np.random.default_rng(seed), begin
    task = mdp.task
    for _ in range(steps):
        prev, agent = agent, learner.choose(state, agent)
        action = int(rng.choice(task.n_actions, p=mdp.team.agents[agent].policy[state]))
        to = int(rng.choice(task.n_states, p=mdp.environment.transition[[state * task.n_actions + action]].toarray()[0]))
        learner.observe(state, prev, agent, action, to)
        state = to
    return state, agent


TOLD = [{}, {"replan": 7}, {"belief": "bernstein"}, {"forget": cede.HalfLife(100.0), "replan": 5}]


@pytest.mark.parametrize(
    ("mdp", "told"),
    [*((mdp, told) for mdp in (AVERAGE, DISCOUNTED) for told in TOLD), (AVERAGE, {"at_most": {"p=0.8": 0.5}, "replan": 11})],
)
def test_a_file_in_the_middle_changes_nothing(mdp, told, tmp_path):
    one, other = (cede.ucrl2_mc(mdp.task, scale=0.1, **told) for _ in range(2))
    place = walk(mdp, one, 60)
    walk(mdp, other, 60)
    other.save(tmp_path / "a.cede")
    other = cede.load(tmp_path / "a.cede")
    with pytest.raises(ValueError, match="observe: prev_agent"):
        other.observe(0, 1 - place[1], 0, 0, 0)
    assert walk(mdp, one, 60, 1, place) == walk(mdp, other, 60, 1, place)
    assert one.steps == other.steps == 120
    np.testing.assert_array_equal(one.plan.value, other.plan.value)
    np.testing.assert_array_equal(one.plan.policy, other.plan.policy)
    assert (one.plan.gain, one.plan.error) == (other.plan.gain, other.plan.error)


@pytest.mark.parametrize("mdp", [AVERAGE, DISCOUNTED], ids=["average", "discount"])
@pytest.mark.parametrize("told", [{}, {"replan": 7}, {"forget_environment": cede.Window(40), "replan": 9}])
def test_a_log_is_as_good_as_being_there(mdp, told):
    live, read = (cede.ucrl2_mc(mdp.task, scale=0.1, **told) for _ in range(2))
    rng, state, agent, log = (
        np.random.default_rng(1),
        0,
        0,
        {"state": [], "agent": [], "action": [], "next_state": [], "prev_agent": []},
    )
    for _ in range(150):
        prev, agent = agent, live.choose(state, agent)
        action, to = int(rng.integers(2)), int(rng.integers(6))
        live.observe(state, prev, agent, action, to)
        for name, value in zip(log, (state, agent, action, to, prev), strict=True):
            log[name].append(value)
        state = to
    assert read.learn_from({**log, "t": np.arange(150)}, progress=False) == 1
    np.testing.assert_array_equal(live.plan.value, read.plan.value)
    assert (live.counts.environment != read.counts.environment).nnz == 0
    assert live.episode == read.episode


def test_when_it_plans_again():
    learner = cede.ucrl2_mc(AVERAGE.task)
    assert learner.about["replan"] == "doubling"
    first = learner.plan
    learner.observe(0, 0, 0, 1, 1)
    second = learner.plan
    assert second is not first  # a row was seen for the first time
    learner.observe(1, 0, 0, 1, 1)
    learner.observe(1, 0, 0, 1, 1)
    third = learner.plan
    learner.observe(1, 0, 0, 1, 1)
    assert learner.plan is third  # three times after two is not twice as often
    learner.observe(1, 0, 0, 1, 1)
    assert learner.plan is not third
    every = cede.ucrl2_mc(AVERAGE.task, replan=3)
    before = every.plan
    for _ in range(2):
        every.observe(1, 0, 0, 1, 1)
        assert every.plan is before
    every.observe(1, 0, 0, 1, 1)
    assert every.plan is not before
    told = every.plan
    every.replan()
    assert every.plan is not told


def test_radii_have_the_number_of_steps_for_t():
    learner = cede.ucrl2_mc(AVERAGE.task, delta=0.2)
    walk(AVERAGE, learner, 50)
    agents, environment = learner.beliefs
    visits = np.maximum(1.0, learner.counts.agents.sum(axis=1))
    wanted = np.sqrt(2 * (7 * np.log(50) + np.log(6 * 2) + 3 * np.log(2) - np.log(0.2)) / visits)
    np.testing.assert_allclose(agents.width, wanted, rtol=1e-12)
    visits = np.maximum(1.0, learner.counts.environment.sum(axis=1))
    wanted = np.sqrt(2 * (7 * np.log(50) + np.log(6 * 2) + 7 * np.log(2) - np.log(0.2)) / visits)
    np.testing.assert_allclose(environment.width, wanted, rtol=1e-12)


@pytest.mark.parametrize("mdp", [AVERAGE, DISCOUNTED], ids=["average", "discount"])
def test_optimism(mdp):
    """The value of a plan with valid sets is at most the truth, up to the error that it states; and the sets narrow down to it."""
    best = cede.solve(mdp)
    learner = cede.ucrl2_mc(mdp.task)
    for _ in range(5):
        cede.simulate(mdp, learner, steps=400, progress=False)
        plan = learner.plan
        if mdp.discount is None:
            assert plan.gain - plan.error <= best.gain + 1e-9
        else:
            assert (plan.value - plan.error <= best.value + 1e-9).all()
        low, high = cede.insight.bounds(learner, best).of_episode(mdp.environment.start)
        assert low <= cede.expected_cost(mdp, best) <= high


@pytest.mark.parametrize("mdp", [AVERAGE, DISCOUNTED], ids=["average", "discount"])
@pytest.mark.parametrize(
    "make",
    [cede.posterior_sampling, lambda task: cede.ucrl2_mc(task, scale=0.1), cede.ucrl2, lambda task: cede.greedy(task, replan=50)],
)
def test_runs_do_not_depend_on_how_they_are_cut(mdp, make):
    one, two, three = (make(mdp.task) for _ in range(3))
    whole = cede.simulate(mdp, one, steps=600, record_every=600, progress=False)
    fine = cede.simulate(mdp, two, steps=600, record_every=20, progress=False)
    assert whole.cost[0] == pytest.approx(fine.cost.sum())
    assert whole.regret[-1] == pytest.approx(fine.regret[-1], abs=1e-6)
    assert (one.counts.environment != two.counts.environment).nnz == 0
    np.testing.assert_array_equal(one.plan.value, two.plan.value)
    assert whole.settings["record_every"] == 600
    rng = np.random.default_rng(5)
    cede.simulate(mdp, three, steps=100, seed=rng, progress=False)
    assert three.steps == 100


def test_history_counts_what_happened():
    learner = cede.fixed(AVERAGE.task, "p=0.8")
    history = cede.simulate(AVERAGE, learner, steps=3000, record_every=100, progress=False)
    assert history.control.sum(axis=1).tolist() == [100] * 30
    assert history.switches.sum() == 1
    exact = cede.expected_cost(AVERAGE, AVERAGE.task.always("p=0.8"))
    np.testing.assert_allclose(history.expected_cost, exact, atol=1e-9)
    assert history.regret[-1] == pytest.approx(3000 * (exact - history.optimum), abs=1e-6)
    assert history.cost.sum() / 3000 == pytest.approx(exact, abs=0.02)
    oracle = cede.simulate(DISCOUNTED, cede.oracle(DISCOUNTED), steps=500, progress=False)
    assert abs(oracle.regret[-1]) < 1e-6
    assert oracle.optimum == pytest.approx(cede.expected_cost(DISCOUNTED, cede.solve(DISCOUNTED)))


def test_runs_end_and_begin_anew():
    """A goal and a trap: after them a run begins anew; nothing is counted there."""
    transition = np.zeros((4, 2, 4))
    transition[:2, 0, 2] = transition[:2, 1, 1] = 0.5
    transition[:2, 0, 0] = transition[:2, 1, 3] = 0.5
    transition[2:, :, 0] = 1.0
    environment = cede.Environment(
        transition, np.full((4, 2), 0.1) * [[1], [1], [0], [0]], [1, 0, 0, 0], terminal=[2, 3], enter_cost={3: 5.0}
    )
    agents = [cede.Agent("careful", [[1, 0]] * 4, 0.3), cede.Agent("bold", [[0, 1]] * 4)]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents), None, discount=0.9)
    learner = cede.posterior_sampling(mdp.task)
    history = cede.simulate(mdp, learner, steps=2000, progress=False)
    assert learner.counts.environment.toarray().reshape(4, 2, 4)[2:].sum() == 0
    assert learner.plan.policy[0, 0] == 0
    assert history.expected_cost[-1] == pytest.approx(history.optimum, abs=0.05)
    hand = cede.ucrl2_mc(mdp.task)
    hand.observe(0, 0, 1, 1, 3)
    hand.observe(0, 0, 1, 1, 1)  # a new run: prev_agent may be anybody
    with pytest.raises(ValueError, match="observe: state is 3, must be one in which an episode goes on"):
        hand.observe(3, 1, 1, 0, 0)
    with pytest.raises(ValueError, match="choose: state is 2"):
        hand.choose(2, 0)
    hand.end_episode()
    hand.observe(0, 0, 0, 0, 0)
    assert hand.steps == 3


def test_limits_are_kept():
    mdp = AVERAGE
    learner = cede.posterior_sampling(mdp.task, at_most={"p=0.8": 0.4}, replan=20)
    history = cede.simulate(mdp, learner, steps=20_000, progress=False)
    late = history.control[len(history.control) // 2 :]
    assert late[:, 1].sum() / late.sum() < 0.5
    assert cede.ucrl2_mc(mdp.task, at_most={"p=0.8": 0.4}).about["replan"] == 1000


@pytest.mark.parametrize("mdp", [AVERAGE, DISCOUNTED], ids=["average", "discount"])
def test_fleets(mdp, tmp_path):
    """Every engine gives the same bits; so does a run that was resumed; a newcomer begins with what all know."""
    mdps = [replace(mdp, team=cede.worlds.riverswim(agents=[p, 1 - p]).team) for p in (0.1, 0.3, 0.45)]

    def fleet():
        return cede.Fleet([cede.ucrl2_mc(one.task, scale=0.1, seed=i) for i, one in enumerate(mdps)])

    def run(made, steps=300, **more):
        return cede.simulate_fleet(mdps, made, steps=steps, record_every=50, progress=False, **more)

    first = fleet()
    wanted = run(first, jobs=1)
    assert wanted.control.sum() == 3 * 300
    assert first.environment_episodes == 3 * 300
    for more in ({"jobs": 2}, {"engine": "processes", "jobs": 2}):
        again = run(fleet(), **more)
        for name in ("cost", "regret", "expected_cost", "control"):
            np.testing.assert_array_equal(getattr(again, name), getattr(wanted, name))
    run(fleet(), steps=150, checkpoint=tmp_path / "run.npz")
    resumed = run(fleet(), checkpoint=cede.Checkpoint(tmp_path / "run.npz", resume=True))
    np.testing.assert_array_equal(resumed.cost, wanted.cost)
    np.testing.assert_array_equal(resumed.regret, wanted.regret)
    newcomer = first.welcome(mdps[0].task)
    assert newcomer.task.horizon is None
    assert newcomer.counts.environment.sum() == 3 * 300
    first.save(tmp_path / "fleet.cede")
    assert len(cede.load(tmp_path / "fleet.cede")) == 4


def test_agents_that_vary_and_hand_overs_that_take_time():
    mdp = random_mdp(4, n_states=3, n_actions=2, n_agents=2, kinds=["prev_agent"])
    endless = replace(mdp, horizon=None, discount=0.8)
    learner = cede.posterior_sampling(endless.task)
    history = cede.simulate(endless, learner, steps=6000, progress=False)
    assert (history.regret[-1] - history.regret[-200]) < 0.3 * history.regret[200]
    slow = [replace(agent, takeover_delay=2 if i else 0) for i, agent in enumerate(AVERAGE.team.agents)]
    delayed = cede.TwoLayerMDP(AVERAGE.environment, cede.Team(slow, 0.05), None)
    assert cede.solve(delayed).gain >= cede.solve(AVERAGE).gain - 1e-9
    cede.simulate(delayed, cede.ucrl2_mc(delayed.task, scale=0.1), steps=200, progress=False)


def test_it_explains_itself():
    learner = cede.ucrl2_mc(DISCOUNTED.task, scale=0.1)
    cede.simulate(DISCOUNTED, learner, steps=500, progress=False)
    found = cede.explain(learner, state=2, prev_agent=0)
    assert found.t is None
    assert found.chosen == learner.choose(2, 0)
    assert all(one.optimistic <= one.plain + 1e-9 <= one.pessimistic + 2e-9 for one in found.options)
    assert "in the long run" in str(found)
    average = cede.ucrl2_mc(AVERAGE.task, scale=0.1)
    cede.simulate(AVERAGE, average, steps=500, progress=False)
    assert len(cede.explain(average, state=2, prev_agent="p=0.2").options) == 2
    assert cede.insight.summarise(average).episodes == 500
    with pytest.raises(ValueError, match="explain: t is 1, must be left out"):
        cede.explain(average, 1, 2, 0)


def test_what_cannot_be_is_refused_with_the_reason():
    task = AVERAGE.task
    for more, reason in (
        ({"baseline": 0}, "baseline is .* left out without a horizon"),
        ({"planning": "greedy"}, "planning is 'greedy', must be 'full' without a horizon"),
        ({"replan": "every"}, "replan is 'every', must be 'doubling' or a number of steps"),
        ({"scale": cede.Scale.authors(100)}, "scale is .* must be numbers without a horizon"),
        ({"at_most": {"p=0.8": 0.5}, "replan": "doubling"}, "replan is 'doubling', must be 'every' or a number"),
    ):
        with pytest.raises(ValueError, match=reason):
            cede.ucrl2_mc(task, **more)
    with pytest.raises(ValueError, match=r"Task: discount is 1\.0, must be a number in"):
        replace(task, discount=1.0)
    with pytest.raises(ValueError, match=r"Task: terminal is .* must be left out for averages"):
        replace(task, terminal=[5])
    with pytest.raises(ValueError, match=r"Task: varies_with\[0\] is 'time'"):
        replace(task, varies_with=["time", None])
    with pytest.raises(ValueError, match="Task: horizon is missing"):
        cede.Task(np.zeros((1, 1)), ["a"])
    with pytest.raises(ValueError, match=r"Task: env_cost\[1\] is 1.0, must be 0 where an episode ends and there is no horizon"):
        cede.Task([[0.0], [1.0]], ["a"], None, discount=0.5, terminal=[1])
    learner = cede.ucrl2_mc(task)
    with pytest.raises(ValueError, match="simulate: episodes is 5, must be left out"):
        cede.simulate(AVERAGE, learner, 5)
    river = cede.worlds.riverswim()
    with pytest.raises(ValueError, match="simulate: steps is 5, must be left out"):
        cede.simulate(river, cede.greedy(river.task), 3, steps=5)
    with pytest.raises(ValueError, match="a multiple of record_every"):
        cede.simulate(AVERAGE, learner, steps=10, record_every=3)
    with pytest.raises(ValueError, match="rollout: the horizon of mdp is None"):
        cede.rollout(AVERAGE, cede.solve(AVERAGE).policy)
