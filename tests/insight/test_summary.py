"""What a learner knows, at a glance: sums and shares against the counts and the plan."""

from dataclasses import replace

import numpy as np
import pytest

import cede
from cede.beliefs.truth import true_beliefs
from cede.insight.occupancy import occupancy
from cede.planning.control_shares import shares_of
from problems import random_mdp, random_rows, random_structured


def met_slow(mdp, policy, start):
    """How often each (t, s, prev) comes up under the truth: loops over all that can happen."""
    task = mdp.task
    now = {(s, task.start_agent): p for s, p in enumerate(start) if p > 0 and not task.is_terminal[s]}
    met = np.zeros((task.horizon, task.n_states, task.n_agents))
    tables = [table.toarray().reshape(task.n_states, -1, task.n_states) for table in mdp.environment.tables]
    for t in range(task.horizon):
        after = {}
        for (s, prev), p in now.items():
            met[t, s, prev] += p
            d = int(policy[t, s, prev])
            own = mdp.policies[task.table[d]]
            acts = own[s] if own.ndim == 2 else own[{"time": t, "prev_agent": prev}[task.varies_with[d]], s]
            table = tables[0 if task.periods is None else task.periods[t]]
            for a, to in np.ndindex(task.n_actions, task.n_states):
                if acts[a] * table[s, a, to] > 0 and not task.is_terminal[to]:
                    after[to, d] = after.get((to, d), 0.0) + p * acts[a] * table[s, a, to]
        now = after
    return met


@pytest.mark.parametrize("seed", range(6))
def test_occupancy_against_loops(seed):
    mdp = random_mdp(seed, n_states=4, n_agents=3)
    policy = np.random.default_rng(seed).integers(3, size=mdp.task.policy_shape).astype(np.int16)
    found = occupancy(mdp.task, *true_beliefs(mdp), policy, mdp.environment.start)
    np.testing.assert_allclose(found, met_slow(mdp, policy, mdp.environment.start), atol=1e-12)
    shares = [found[mdp.task.acting[policy] == d].sum() for d in range(3)]
    np.testing.assert_allclose(shares / np.sum(shares), shares_of(mdp, policy))  # the Bellman operator says the same


def test_occupancy_with_ends_periods_and_slow_hand_overs():
    environment = cede.Environment(
        np.stack([random_rows(np.random.default_rng(i), (4, 2, 4), sparse=0.2) for i in range(2)]),
        np.zeros(4),
        [0.5, 0.5, 0, 0],
        terminal=[3],
        periods=[0, 1, 1, 0, 1],
    )
    rng = np.random.default_rng(5)
    agents = [cede.Agent("slow", random_rows(rng, (4, 2)), takeover_delay=2), cede.Agent("quick", random_rows(rng, (4, 2)))]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents, 0.1), 5, start_agent="quick")
    policy = mdp.task.always("slow")
    found = occupancy(mdp.task, *true_beliefs(mdp), policy, environment.start)
    np.testing.assert_allclose(found, met_slow(mdp, policy, environment.start), atol=1e-12)
    steps = [found[mdp.task.acting[policy] == member].sum() for member in range(2)]
    np.testing.assert_allclose(np.array(steps) / mdp.horizon, shares_of(mdp, policy))
    learner = cede.fixed(mdp.task, "slow")
    cede.simulate(mdp, learner, 300, progress=False)
    shown = cede.insight.summarise(learner, start=environment.start)
    assert shown.agents == ("slow", "quick")  # not the steps of hand-overs
    assert shown.planned[0] == pytest.approx(steps[0] / sum(steps), abs=0.05)


@pytest.mark.parametrize("discount", [None, 0.9])
def test_endless_occupancy(discount):
    mdp = replace(random_mdp(3, n_states=4, n_agents=2, kinds=[None]), horizon=None, discount=discount)
    policy = np.random.default_rng(1).integers(2, size=(1, 4, 2)).astype(np.int16)
    found = occupancy(mdp.task, *true_beliefs(mdp), policy, mdp.environment.start)
    shares = np.array([found[mdp.task.acting[policy] == d].sum() for d in range(2)])
    np.testing.assert_allclose(shares / shares.sum(), shares_of(mdp, policy), atol=1e-6)
    assert found.sum() == pytest.approx(1.0 if discount is None else 10.0)


@pytest.mark.parametrize("structured", [False, True])
def test_numbers(structured):
    mdp = random_structured(7)
    learner = cede.ucrl2_mc(mdp.task, structure=mdp.structure if structured else None)
    history = cede.simulate(mdp, learner, 25, progress=False)
    found = cede.insight.summarise(learner, by=lambda name: name[-1], start=mdp.environment.start)
    assert found.episodes == 25
    assert found.starts == "as given"
    np.testing.assert_allclose(found.control, history.control.sum(axis=0))
    assert sum(group.states for group in found.groups) == mdp.task.n_states
    assert sum(group.steps for group in found.groups) == pytest.approx(mdp.horizon)
    assert sum(found.planned) == pytest.approx(1.0)
    for s, group in enumerate(found.groups):  # one state each
        low, high = group.cost
        truth = cede.evaluate(mdp, learner.plan.policy)[0, s, mdp.start_agent]
        assert low - 1e-9 <= truth <= high + 1e-9
        assert low - 1e-9 <= group.expected <= high + 1e-9
        assert group.shares is None or sum(group.shares) == pytest.approx(1.0)
    whole = np.sum([np.multiply(group.shares or 0.0, group.steps) for group in found.groups], axis=0)
    np.testing.assert_allclose(whole / mdp.horizon, found.planned)
    assert all(row.width > 0 and row.matters > 0 for row in found.widest)
    if not structured:
        assert sum(group.visits for group in found.groups) == history.control.sum()


@pytest.mark.parametrize("make", [cede.recommended, cede.posterior_sampling, cede.ucrl2])
@pytest.mark.parametrize("world", ["support_desk", "riverswim"])
def test_planned_shares_are_those_of_the_world(make, world):
    """What is shown is what comes: not a mean over situations that hardly ever come up, nor over steps after an end."""
    mdp = cede.worlds.support_desk() if world == "support_desk" else cede.worlds.riverswim([0.3, 0.7], switch_cost=0.1)
    learner = make(mdp.task)
    history = cede.simulate(mdp, learner, 1000, progress=False)
    found, truth = cede.insight.summarise(learner), shares_of(mdp, learner.plan.policy)
    np.testing.assert_allclose(found.planned, truth / truth.sum(), atol=0.03)
    assert sum(group.visits for group in found.groups) == history.control.sum()  # each real step once
    if world == "support_desk":
        assert [group.name for group in found.groups if group.ends] == ["solved", "lost"]
        assert all(group.shares is None and not group.is_met for group in found.groups if group.ends)


@pytest.mark.parametrize("structured", [False, True])
def test_planned_shares_of_lane_driving(structured):
    mdp = cede.worlds.lane_driving(control_cost=0.2, switch_cost=0.1)
    known = {"machine": mdp.team.agents[0].policy}
    learner = cede.posterior_sampling(mdp.task, known_agents=known, structure=mdp.structure if structured else None, replan=20)
    cede.simulate(mdp, learner, 1000, progress=False, evaluate_every=1000)
    truth = shares_of(mdp, learner.plan.policy)
    assert cede.insight.summarise(learner).planned[1] == pytest.approx(truth[1], abs=0.03)
    assert cede.insight.summarise(learner, start=mdp.environment.start).planned[1] == pytest.approx(truth[1], abs=0.02)
    assert 0.05 < truth[1] < 0.2
    shown = [group.visits for group in cede.insight.summarise(learner).groups]
    assert shown == [None] * 3 if structured else sum(shown) == 10_000


def test_scaled_sets_promise_nothing():
    mdp = random_structured(7)
    for learner in (cede.recommended(mdp.task), cede.ucrl2_mc(mdp.task, scale=0.1)):
        cede.simulate(mdp, learner, 20, progress=False)
        assert all(group.cost is None and group.expected is not None for group in cede.insight.summarise(learner).groups)


def test_what_was_never_met_is_not_drawn_as_if_it_counted(tmp_path):
    """State 2 is never entered; state 1 is not where the plan leads."""
    chances = [[[1, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 0, 1]]]
    environment = cede.Environment(chances, [0.0, 1.0, 0.0], [1, 0, 0])
    team = cede.Team([cede.Agent("stays", [[1, 0]] * 3), cede.Agent("goes", [[0, 1]] * 3, 0.1)])
    mdp = cede.TwoLayerMDP(environment, team, 4)
    learner = cede.greedy(mdp.task)
    learner.learn_from([cede.rollout(mdp, mdp.task.always(d), seed) for d in (0, 1) for seed in range(30)], progress=False)
    found = cede.insight.summarise(learner)
    assert [group.visits for group in found.groups] == [150, 90, 0]
    assert [group.is_met for group in found.groups] == [True, False, False]
    assert found.planned == (1.0, 0.0)
    found.draw(tmp_path / "who.svg")
    drawn = (tmp_path / "who.svg").read_text()
    assert "never met" in drawn
    assert "hardly ever, by the plan" in drawn


@pytest.mark.parametrize("make", [cede.recommended, cede.ucrl2])
def test_how_episodes_ended(tmp_path, make):
    """Shares by terminal state, against the last states of a log; what never comes is not said of what ends an episode."""
    mdp = cede.worlds.support_desk()
    learner, log = make(mdp.task), [cede.rollout(mdp, mdp.task.always(seed % 3), seed) for seed in range(200)]
    learner.learn_from(log, progress=False)
    last = [int(one.states[-1]) for one in log]
    found = cede.insight.summarise(learner)
    assert found.ended == tuple((mdp.task.state_names[s], last.count(s) / 200) for s in mdp.task.terminal)
    solved, lost = (group for group in found.groups if group.ends)
    assert (solved.ended, lost.ended) == tuple(part for _, part in found.ended)
    assert solved.how_often == f"{last.count(9) / 2:.0f}% of episodes ended"
    assert found.groups[0].ended is None
    assert found.endings() == [f"how episodes ended: solved {last.count(9) / 200:.0%}, lost {last.count(10) / 200:.0%}"]
    assert replace(found, ended=(("solved", 0.75),)).endings() == ["how episodes ended: solved 75%, by the horizon 25%"]
    found.draw(tmp_path / "who.svg")
    assert "(0)" not in (tmp_path / "who.svg").read_text()
    assert cede.insight.summarise(cede.greedy(mdp.task)).ended == ()
    assert cede.insight.summarise(cede.greedy(cede.worlds.riverswim().task)).endings() == []


def test_printed_it_is_a_table():
    mdp = cede.worlds.support_desk()
    learner = cede.recommended(mdp.task)
    cede.simulate(mdp, learner, 100, progress=False)
    found = cede.insight.summarise(learner)
    text, lines = str(found), str(found).splitlines()
    assert lines[0] == "In control in 100 episodes"
    assert lines[1].split("  ")[0] == "agent"
    assert sum(line.startswith("easy, 0 wrong answers ") for line in lines) == 1
    assert all(f"{name} " in text for name in mdp.task.members)
    assert len({len(line) for line in lines[1:5]}) == 1  # columns are aligned
    assert "where episodes start: as counted in 100 episodes" in lines
    assert any(line.startswith("how episodes ended: solved ") for line in lines)
    assert "\n" not in repr(found)
    odd = cede.Task([[0.0], [1.0]], ["a\x1b[2J", "b"], 3)
    assert "\x1b" not in str(cede.insight.summarise(cede.greedy(odd)))


def test_groups_by_default():
    lane = cede.worlds.lane_driving()
    found = cede.insight.summarise(cede.greedy(lane.task))
    assert [group.name for group in found.groups] == ["no-car", "light", "heavy"]
    assert all(group.cost is None for group in found.groups)
    river = cede.insight.summarise(cede.ucrl2(cede.worlds.riverswim().task))
    assert [group.name for group in river.groups] == [f"s{i}" for i in range(1, 7)]
    assert river.widest == ()
    by_cell = cede.insight.summarise(cede.greedy(lane.task), by=r"on (\w+)")
    assert [group.name for group in by_cell.groups] == ["road", "grass", "stone", "car"]


def test_forgetting_and_known_agents(tmp_path):
    mdp = random_structured(7)
    known = {"agent 0": mdp.team.agents[0].policy}
    learner = cede.ucrl2_mc(mdp.task, known_agents=known, forget=cede.HalfLife(3))
    cede.simulate(mdp, learner, 25, progress=False)
    found = cede.insight.summarise(learner)
    assert sum(found.control) < 25 * mdp.horizon
    assert all(row.layer != "agent 0" for row in found.widest)
    assert found.draw(tmp_path / "who.png").read_bytes().startswith(b"\x89PNG")


def test_bad_input():
    learner = cede.greedy(cede.worlds.riverswim().task)
    with pytest.raises(ValueError, match="summarise: by is 3, must be a function"):
        cede.insight.summarise(learner, by=3)
    with pytest.raises(ValueError, match="summarise: start sums to 2"):
        cede.insight.summarise(learner, start=[1, 1, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="must be a regular expression"):
        cede.insight.summarise(learner, by="(")


def test_what_was_forgotten_is_not_shown_as_what_was():
    """Faded counts were shown as steps and shares "so far": 14.7% of control as 62%."""
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.posterior_sampling(mdp.task, forget={"p=0.3": cede.HalfLife(5)})
    cede.simulate(mdp, learner, 60, seed=0)
    found = cede.insight.summarise(learner)
    assert found.remembered
    assert "steps remembered" in str(found)
    assert "so far" not in str(found)
    assert "remembered of control" in repr(found)
    assert "steps so far" in str(cede.insight.summarise(cede.posterior_sampling(mdp.task)))


def test_a_plan_that_rests_on_guesses_says_so():
    """A log in which people took every alarm: that the plan leaves alarms to the machine was shown as if it were known."""
    task = cede.Task(
        env_cost=[[0.0, 0.0], [1.0, 1.0]],
        agents=["auto", "person"],
        horizon=4,
        control_cost={"person": 5.0},
        state_names=["calm", "alarm"],
    )
    log = {"episode": [], "state": [], "agent": [], "action": [], "next_state": []}
    for k in range(40):
        for t in range(4):
            row = (k, t % 2, t % 2, 0, (t + 1) % 2)
            for name, value in zip(log, row, strict=True):
                log[name].append(value)
    learner = cede.recommended(task)
    learner.learn_from(log, progress=False)
    learner.replan()
    plan = learner.plan.policy
    found = cede.insight.summarise(learner, start=[1.0, 0.0])
    relies = [text for text in found.warnings if "never seen acting there, first of all auto in alarm" in text]
    assert (plan[1::2, 1] == 0).all()
    assert len(relies) == 1
    assert relies[0].startswith("in 5")  # half of the steps, and what an unknown action makes of it
    told = cede.recommended(task, known_agents={"auto": [[1.0, 0.0], [1.0, 0.0]]})
    told.learn_from(log, progress=False)
    assert not any("never seen acting there" in text for text in cede.insight.summarise(told, start=[1.0, 0.0]).warnings)
