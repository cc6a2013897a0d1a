"""Agents that teams share by name: learned once for all, step for step as ordinary learners that are given the same counts."""

import copy
import pickle

import numpy as np
import pytest

import cede
from cede.learners.learner import Learner
from cede.rows.stored import Counts
from problems import random_rows

S, A, L = 5, 3, 4
AUTONOMY = "agent/autonomy"
WAYS = {
    "ucrl2_mc": lambda task, seed: cede.ucrl2_mc(task, scale=0.3, seed=seed),
    "recommended": lambda task, seed: cede.recommended(task, seed=seed),
    "posterior sampling": lambda task, seed: cede.posterior_sampling(task, seed=seed),
    "kl, greedy planning": lambda task, seed: cede.ucrl2_mc(task, belief="kl", planning="greedy", seed=seed),
    "doubling": lambda task, seed: cede.ucrl2_mc(task, scale=0.3, replan="doubling", seed=seed),
    "half-life": lambda task, seed: cede.recommended(
        task, forget={name: cede.HalfLife(5) for name in task.members if name != "autonomy"}, seed=seed
    ),
}


def teams(varies=None, delay=0):
    """Three teams: autonomy with Anna, Ben with autonomy, and Carl alone with Dora."""
    rng = np.random.default_rng(3)
    environment = cede.Environment(random_rows(rng, (S, A, S)), rng.random((S, A)), random_rows(rng, (1, S))[0])
    policies = dict(zip(["autonomy", "Anna", "Ben", "Carl", "Dora"], random_rows(rng, (5, L, S, A)), strict=True))

    def agent(name):
        whole = name == "autonomy" and varies
        return cede.Agent(
            name, policies[name] if whole else policies[name][0], 0.1, varies if whole else None, delay if whole else 0
        )

    names = (("autonomy", "Anna"), ("Ben", "autonomy"), ("Carl", "Dora"))
    return [cede.TwoLayerMDP(environment, cede.Team([agent(one) for one in pair], 0.05), L) for pair in names]


def fleet_of(mdps, way="ucrl2_mc", **options):
    options = {"shared_agents": ["autonomy"], **options}
    return cede.Fleet([WAYS[way](mdp.task, i) for i, mdp in enumerate(mdps)], **options)


def given_counts(learner, own, sums, episodes, crew):
    """An ordinary learner with a team's own counts, and the sums of what is shared."""
    layers = {**own.layers, **{name: layer for name, layer in sums.items() if name in own.layers}}
    others = crew - own.episodes if "autonomy" in learner.task.members else 0
    counts = Counts(layers, own.episodes, episodes, others)
    return Learner(learner.task, learner.settings, seed=learner.seed, counts=counts)


def sums_of(alone):
    """The sums of shared layers, of learners that count each team alone."""
    counts = [learner.counts for learner in alone]
    environment = counts[0].layers["environment"]
    for one in counts[1:]:
        environment = environment + one.layers["environment"]
    autonomy = [one.layers[AUTONOMY] for one in counts if AUTONOMY in one.layers]
    return {"environment": environment, AUTONOMY: autonomy[0] + autonomy[1]}


@pytest.mark.parametrize("varies", [None, "time"])
@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("half-life", "doubling", "kl, greedy planning")])
def test_by_calls_it_is_as_with_the_counts_of_all(way, varies):
    """Each team's episodes are counted by hand, too: by learners that are alone."""
    mdps = teams(varies)
    fleet, alone = fleet_of(mdps, way), [WAYS[way](mdp.task, i) for i, mdp in enumerate(mdps)]
    for k in range(8):
        for i, (mdp, learner) in enumerate(zip(mdps, fleet, strict=True)):
            episode = cede.rollout(mdp, learner.plan.policy, seed=10 * k + i)
            for one in (learner, alone[i]):
                one.observe_episode(episode)
                one.end_episode()
            if way == "recommended" and k < 2:
                continue  # trials
            twin = given_counts(learner, alone[i].counts, sums_of(alone), 3 * k + i + 1, 2 * k + min(i + 1, 2))
            np.testing.assert_array_equal(learner.plan.policy, twin.plan.policy)
            np.testing.assert_array_equal(learner.plan.value, twin.plan.value)
            for mine, other in zip(learner.beliefs, twin.beliefs, strict=True):
                np.testing.assert_array_equal(mine.width, other.width)
    assert fleet.agents_episodes == 16


@pytest.mark.parametrize("way", ["ucrl2_mc", "recommended", "posterior sampling"])
@pytest.mark.parametrize("varies", [None, "time"])
def test_in_runs_it_is_as_with_the_counts_of_all(way, varies):
    """The policy of each episode of a run is that of an ordinary learner with the counts of a run that ended before it."""
    mdps, n = teams(varies), 7
    whole = cede.simulate_fleet(mdps, fleet_of(mdps, way), n, seed=4, jobs=1, progress=False)
    for k in range(1, n):
        fleet = fleet_of(mdps, way)
        cede.simulate_fleet(mdps, fleet, k, seed=4, jobs=1, progress=False)
        for i, (mdp, learner) in enumerate(zip(mdps, fleet, strict=True)):
            counts = learner.counts
            assert counts.others_episodes == (k if i < 2 else 0)
            twin = Learner(mdp.task, learner.settings, seed=i, counts=counts)
            np.testing.assert_array_equal(twin.plan.value, learner.plan.value)
            assert cede.expected_cost(mdp, twin.plan) == pytest.approx(whole.expected_cost[i, k], rel=1e-12)


def same(one, other):
    assert one.counts.layers.keys() == other.counts.layers.keys()
    for name, layer in one.counts.layers.items():
        np.testing.assert_array_equal(layer.key, other.counts.layers[name].key)
        np.testing.assert_array_equal(layer.number, other.counts.layers[name].number)
    assert one.counts.others_episodes == other.counts.others_episodes
    np.testing.assert_array_equal(one.plan.policy, other.plan.policy)


def total(fleet, name=AUTONOMY):
    return fleet[0].counts.layers[name].total


@pytest.mark.parametrize("way", WAYS)
def test_every_engine_gives_the_same_bits(way):
    mdps = [*teams(), *teams()]
    results = []
    for engine, jobs, sync in (("threads", 1, 1), ("threads", 3, 1), ("processes", 2, 1), ("threads", 1, 3), ("processes", 2, 3)):
        fleet = fleet_of(mdps, way)
        history = cede.simulate_fleet(mdps, fleet, 9, seed=2, engine=engine, jobs=jobs, sync_every=sync, progress=False)
        results.append((history, fleet))
        assert fleet.agents_episodes == 4 * 9
        assert total(fleet) == fleet[4].counts.layers[AUTONOMY].total > fleet[0].steps_in_control[1] / 9
    for a, b in ((0, 1), (0, 2), (3, 4)):
        np.testing.assert_array_equal(results[a][0].cost, results[b][0].cost)
        for one, other in zip(results[a][1], results[b][1], strict=True):
            same(one, other)


def test_steps_of_autonomy_are_counted_once_each():
    mdps = teams()
    fleet = fleet_of(mdps)
    history = cede.simulate_fleet(mdps, fleet, 20, seed=1, progress=False)
    control = [history.control[i].sum(axis=0) for i in range(3)]
    assert total(fleet) == control[0][0] + control[1][1] > 0
    assert fleet[0].counts.layers["agent/Anna"].total == control[0][1]
    assert fleet[0].state.counts.layers.keys() == {"agent/Anna", "start"}


def test_an_agent_that_nobody_else_has_changes_no_bit():
    mdps = teams()
    one, other = fleet_of(mdps, shared_agents=["Anna"]), fleet_of(mdps, shared_agents=[])
    histories = [cede.simulate_fleet(mdps, fleet, 12, seed=1, progress=False) for fleet in (one, other)]
    np.testing.assert_array_equal(histories[0].cost, histories[1].cost)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.plan.value, b.plan.value)


def test_files_copies_and_members_who_come_and_go(tmp_path):
    mdps = teams()
    fleet = fleet_of(mdps)
    cede.simulate_fleet(mdps, fleet, 6, seed=1, progress=False)
    fleet.save(tmp_path / "fleet.cede")
    for again in (cede.load(tmp_path / "fleet.cede"), pickle.loads(pickle.dumps(fleet)), copy.deepcopy(fleet)):
        assert (again.shared_agents, again.agents_episodes) == (("autonomy",), 12)
        for one, other in zip(fleet, again, strict=True):
            same(one, other)
        histories = [cede.simulate_fleet(mdps, copy.deepcopy(each), 3, seed=2, progress=False) for each in (fleet, again)]
        np.testing.assert_array_equal(histories[0].cost, histories[1].cost)
    before = total(fleet)
    gone = fleet.remove(1)
    assert gone.counts.layers[AUTONOMY].total == before
    assert (gone.counts.episodes, gone.counts.others_episodes) == (6, 6)
    gone.save(tmp_path / "gone.cede")
    same(cede.load(tmp_path / "gone.cede"), gone)
    cede.simulate(mdps[1], gone, 2, seed=3, progress=False)
    assert total(fleet) == before
    assert gone.counts.layers[AUTONOMY].total > before
    newcomer = fleet.welcome(mdps[1].task)
    assert newcomer.counts.layers[AUTONOMY].total == before
    assert (newcomer.beliefs[0].width[S:] <= newcomer.beliefs[0].width[:S]).all()
    assert (newcomer.beliefs[0].width[S:] < newcomer.beliefs[0].width[:S]).any()
    other = fleet_of(mdps[:2])
    cede.simulate_fleet(mdps[:2], other, 4, seed=5, progress=False)
    more = total(other)
    fleet.merge(other)
    assert total(fleet) == before + more
    assert fleet.agents_episodes == 12 + 8
    with pytest.raises(ValueError, match="the shared agents of the other fleet is none, must be those of this one, autonomy"):
        fleet.merge(cede.Fleet([cede.ucrl2_mc(mdps[0].task)]))


def test_learners_bring_what_they_know():
    mdps = teams()
    learners = [cede.ucrl2_mc(mdp.task, seed=i) for i, mdp in enumerate(mdps)]
    for mdp, learner in zip(mdps, learners, strict=True):
        cede.simulate(mdp, learner, 5, seed=1, progress=False)
    alone = [learner.counts.layers.get(AUTONOMY) for learner in learners]
    fleet = cede.Fleet(learners, shared_agents=["autonomy"])
    assert total(fleet) == alone[0].total + alone[1].total
    assert fleet.agents_episodes == 10


def test_a_checkpoint_goes_on_with_the_same_bits(tmp_path):
    mdps = teams()
    whole, parts = fleet_of(mdps), [fleet_of(mdps) for _ in range(2)]
    expected = cede.simulate_fleet(mdps, whole, 9, seed=1, progress=False)
    cede.simulate_fleet(mdps, parts[0], 4, seed=1, checkpoint=tmp_path / "run.npz", progress=False)
    resume = cede.Checkpoint(tmp_path / "run.npz", resume=True)
    history = cede.simulate_fleet(mdps, parts[1], 9, seed=1, checkpoint=resume, progress=False)
    np.testing.assert_array_equal(history.cost, expected.cost)
    for one, other in zip(whole, parts[1], strict=True):
        same(one, other)
    assert parts[1].agents_episodes == 18
    unshared = fleet_of(mdps, shared_agents=[])
    with pytest.raises(ValueError, match="is of another run"):
        cede.simulate_fleet(mdps, unshared, 9, seed=1, checkpoint=resume, progress=False)


def test_a_shared_agent_changes_for_all():
    mdps = teams()
    fleet = fleet_of(mdps, "kl, greedy planning")
    cede.simulate_fleet(mdps, fleet, 10, seed=1, progress=False)
    before, own = total(fleet), fleet[0].counts.layers["agent/Anna"].total
    with pytest.raises(ValueError, match=r"name is 'autonomy', must be one that the fleet does not share"):
        fleet[0].agent_changed("autonomy")
    with pytest.raises(ValueError, match=r"Fleet.agent_changed: name is 'Anna', must be one of|must be 'autonomy'"):
        fleet.agent_changed("Anna")
    fleet.agent_changed("autonomy", keep=0.5)
    assert total(fleet) == pytest.approx(before / 2)
    fleet.agent_changed("autonomy")
    assert total(fleet) == 0
    assert fleet[0].counts.layers["agent/Anna"].total == own
    assert [len(learner.team_changes) for learner in fleet] == [2, 2, 0]
    assert (fleet[0].state.bounds.size, fleet[2].state.bounds.size > 0) == (0, True)
    cede.simulate_fleet(mdps, fleet, 3, seed=2, progress=False)


def test_an_agent_joins_a_team_whose_fleet_knows_it():
    mdps = teams()
    fleet = fleet_of(mdps)
    cede.simulate_fleet(mdps, fleet, 8, seed=1, progress=False)
    known = total(fleet)
    fleet[2].add_agent("autonomy", control_cost=0.1, switch_cost=0.05)
    assert fleet[2].counts.layers[AUTONOMY].total == known
    fleet[1].remove_agent("autonomy")
    assert total(fleet) == known
    fleet[0].add_agent("new", like="autonomy")
    assert 0 < fleet[0].counts.layers["agent/new"].total <= 3.1 * S
    with pytest.raises(ValueError, match="varies_with of 'autonomy' of the learner is 'time', must be None"):
        fleet[1].add_agent("autonomy", varies_with="time")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda m: cede.Fleet([cede.greedy(one.task) for one in m], shared_agents=["robot"]),
            "an agent of shared_agents is 'robot'",
        ),
        (
            lambda m: cede.Fleet([cede.recommended(one.task, forget=cede.HalfLife(5)) for one in m], shared_agents=["autonomy"]),
            r"forget\['autonomy'\] of learner 0 is .*, must be left out for a shared agent",
        ),
        (
            lambda m: cede.Fleet([cede.greedy(m[0].task), cede.greedy(teams("time")[1].task)], shared_agents=["autonomy"]),
            "varies_with of 'autonomy' of learner 1 is 'time', must be None, as in the first team",
        ),
        (
            lambda m: cede.Fleet(
                [
                    cede.greedy(m[0].task, structure=cede.Structure(agents={"autonomy": [0, 0, 1, 1, 1]})),
                    cede.greedy(m[1].task),
                ],
                shared_agents=["autonomy"],
            ),
            "the structure of 'autonomy' of learner 1 is another",
        ),
        (lambda m: cede.Fleet([cede.ucrl2(m[0].task)], shared_agents=["autonomy"]), "an agent of shared_agents is 'autonomy'"),
    ],
)
def test_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make(teams())


def test_another_policy_of_the_same_name_is_refused_in_runs():
    mdps = teams()
    agents = mdps[1].team.agents
    other = cede.TwoLayerMDP(mdps[1].environment, cede.Team([agents[0], cede.Agent("autonomy", agents[0].policy, 0.1)], 0.05), L)
    mdps[1] = other
    with pytest.raises(ValueError, match="the policy of 'autonomy' in team 1 is another, must be that of team 0"):
        cede.simulate_fleet(mdps, fleet_of(mdps), 2, progress=False)


def test_the_sets_of_a_shared_agent_hold_the_truth():
    """In nine of ten runs at least, at all times, for delta 0.1: with the steps of all who count into its rows as t_k."""
    mdps = teams() * 4
    truth, failures = mdps[0].team.agents[0].policy, 0
    for run in range(20):
        learners = [cede.ucrl2_mc(mdp.task, belief="kl", delta=0.1, seed=i) for i, mdp in enumerate(mdps)]
        fleet, failed = cede.Fleet(learners, shared_agents=["autonomy"]), False
        for part in range(4):
            cede.simulate_fleet(mdps, fleet, 8, seed=100 * run + part, progress=False)
            counts = fleet[0].counts.layers[AUTONOMY].matrix.toarray()
            visits = np.maximum(counts.sum(axis=1, keepdims=True), 1)
            with np.errstate(divide="ignore", invalid="ignore"):
                far = np.where(counts > 0, counts / visits * np.log(counts / visits / truth), 0.0).sum(axis=1)
            failed |= bool((far > fleet[0].beliefs[0].width[:S]).any())
        failures += failed
    assert failures <= 5  # of 20 at 10% each: exceeded in 1% of all cases
