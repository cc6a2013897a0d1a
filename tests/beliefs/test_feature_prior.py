"""Priors from features: draws against their laws, scores against SciPy, gates, models, the same bits in every way to run."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import optimize, special, stats

import cede
from cede._kernels.tables import Table
from cede.beliefs.feature_models import environment_model, is_wide, softmax_model, tree_model
from cede.beliefs.feature_prior import ALPHAS, FeaturePrior, FittedLayer, LayerRows, log_predictive, strength
from cede.beliefs.transition_trees import Moves, steps_for
from cede.beliefs.trees import RuleTable, joined
from cede.learners.arrays import load_counts, new_arrays, refresh_layer
from cede.learners.compiled import believe
from cede.learners.state import Sizes
from cede.problem.features import Features, read_features
from problems import random_mdp

SIDE = 6
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]


def grid(names=True):
    """A field of SIDE x SIDE with a goal in one corner. The machine is fair everywhere; the guide only in the left half, and
    there it is much better.
    """
    n, goal = SIDE * SIDE, SIDE * SIDE - 1
    row, column = np.divmod(np.arange(n), SIDE)
    to = np.stack([(row + i).clip(0, SIDE - 1) * SIDE + (column + j).clip(0, SIDE - 1) for i, j in MOVES], axis=1)
    transition = np.zeros((n, 4, n))
    for a in range(4):
        for b in range(4):
            transition[np.arange(n), a, to[:, b]] += 0.91 if a == b else 0.03
    transition[goal], cost = 0.0, np.ones((n, 4))
    transition[goal, :, goal], cost[goal] = 1.0, 0.0
    good = np.where(column < SIDE - 1, 3, 1)  # right, then down

    def policy(skill):
        return np.where(np.arange(4) == good[:, None], skill[:, None], (1 - skill[:, None]) / 3)

    guide = policy(np.where(column < SIDE // 2, 0.97, 0.1))
    team = [cede.Agent("machine", policy(np.full(n, 0.6))), cede.Agent("guide", guide)]
    words = {"state_names": [f"row={i}, column={j}" for i, j in zip(row, column, strict=True)]} if names else {}
    start = np.where(np.arange(n) == goal, 0.0, 1.0) / (n - 1)
    env = cede.Environment(transition, cost, start, terminal=[goal], **words)
    return cede.TwoLayerMDP(env, cede.Team(team, 0.02), 20)


GRID = grid()
PLACES = read_features("test", GRID.task, None, None)


def counted(transition, visits, seed, rows=None):
    """Counts of random visits to some rows, (rows, columns)."""
    rng = np.random.default_rng(seed)
    table = np.zeros(transition.shape)
    for r in range(len(transition)) if rows is None else rows:
        table[r] = rng.multinomial(visits, transition[r])
    return sp.csr_array(table)


def option_of(task, **settings):
    return Sizes(task, cede.posterior_sampling(task, **settings).settings).option


# ------------------------------------------------------------------------------------------------- draws and scores


@pytest.mark.parametrize(("prior", "n_states"), [(1.0, 5), (1.0, 41)])
def test_rows_follow_their_dirichlet_posterior(prior, n_states):
    """Dir(prior / n + alpha m + counts), in rows that are drawn whole and in rows of which sticks are broken."""
    mdp = random_mdp(11, n_states=n_states, n_actions=2, n_agents=2, horizon=4, kinds=[None])
    learner = cede.posterior_sampling(mdp.task, prior=prior)
    cede.simulate(mdp, learner, 6, seed=0, progress=False)
    arrays = new_arrays(sizes := Sizes(learner.task, learner.settings), load_counts(sizes, learner.state, None))
    rng = np.random.default_rng(0)
    more = {"agents": rng.gamma(2.0, size=(2 * n_states, 2)), "environment": rng.gamma(1.0, size=(2 * n_states, n_states))}
    more["environment"] *= rng.random(more["environment"].shape) < 0.3
    more["environment"][::3] = 0.0  # rows of which a model says nothing
    for name, table in more.items():
        getattr(arrays, name).expected = Table.of(sp.csr_array(table))
    refresh_layer(arrays.environment, learner.settings, n_states)
    drawn = {name: np.zeros((1500, *table.shape)) for name, table in more.items()}
    for seed in range(1500):
        believe(arrays, seed)
        for name, found in drawn.items():
            table = getattr(arrays, name).belief.table
            for r in range(10):
                part = slice(table.start[r], table.start[r] + table.size[r])
                np.add.at(found[seed, r], table.column[part], table.weight[part] / table.total[r])
    for name, found in drawn.items():
        counts = getattr(learner.counts, name).toarray() + more[name]
        for r in range(10):
            alpha = counts[r] + prior / counts.shape[1]
            np.testing.assert_allclose(found[:, r].sum(axis=1), 1.0)
            for j in np.flatnonzero(counts[r] > 0.5):  # the rest of a stick that is broken no further is too much for smaller ones
                law = stats.beta(alpha[j], alpha.sum() - alpha[j])
                assert found[:, r, j].mean() == pytest.approx(law.mean(), abs=4.5 * law.std() / np.sqrt(1500) + 1e-3)
                assert stats.kstest(found[:, r, j], law.cdf).pvalue > 1e-5


def test_scores_are_those_of_scipy():
    rng = np.random.default_rng(3)
    seen, batch = (sp.csr_array(rng.poisson(0.7, (7, 5)).astype(float)) for _ in range(2))
    base = rng.dirichlet(np.ones(5), 7)
    base[2] = 0.0
    found = log_predictive(seen, batch, sp.csr_array(base), 1.3)
    for alpha, score in zip(ALPHAS, found, strict=True):
        total = 0.0
        for r in range(7):
            n = batch.toarray()[r].astype(int)
            ways = special.gammaln(n.sum() + 1) - special.gammaln(n + 1).sum()  # the order is known
            before = seen.toarray()[r] + alpha * base[r] + 1.3 / 5
            total += stats.dirichlet_multinomial.logpmf(n, before, n.sum()) - ways if n.sum() else 0.0
        assert score == pytest.approx(total)


def test_a_batch_is_scored_before_it_is_counted():
    """By the models and counts of the last time; to fit again without new steps changes nothing."""
    option, truth = option_of(GRID.task, features=True), GRID.environment.transition.toarray()
    counts = [counted(truth, 3, seed) for seed in range(2)]
    first = option.fit("environment", {}, lambda: counts[0], 10)
    assert not first["environment/scores"].any()
    assert option.fit("environment", first, lambda: counts[1], 14) is first  # not due before 15
    both = counts[0] + counts[1]
    second = option.fit("environment", first, lambda: both, 15)
    wanted = log_predictive(counts[0], counts[1], environment_model(PLACES, counts[0]), 1.0)
    np.testing.assert_allclose(second["environment/scores"], wanted)
    again = option.fit("environment", {**second, "environment/episodes": np.array([1])}, lambda: both, 15)
    for name, array in second.items():
        np.testing.assert_allclose(again[name], array)


def test_when_models_are_fitted():
    points, option = [0], option_of(GRID.task, features=True)
    while points[-1] < 100:
        points.append(option.next_fit(points[-1]))
    assert points == [0, 10, 15, 23, 35, 53, 80, 120]
    assert option_of(replace(GRID, horizon=2).task, features=True).next_fit(0) == 50


def fitted_with(best, rows_seen):
    """Models of one agent with 40 rows: of two, the second with ALPHAS[best] predicts best."""
    counts = sp.csr_array(np.eye(40, 3) * 0 + (np.arange(40) < rows_seen)[:, None])
    scores = np.zeros((1, 2, len(ALPHAS)))
    scores[0, 1, best] = 1.0
    return FittedLayer(counts, sp.csr_array(np.full((80, 3), 1 / 3)), scores)


@pytest.mark.parametrize(
    ("best", "rows_seen", "alpha"), [(2, 40, 10.0), (1, 40, 0.0), (4, 40, 40 / 3), (4, 30, 10.0), (4, 29, 0.0), (0, 40, 0.0)]
)
def test_gates(best, rows_seen, alpha):
    """A prior that is weak, or as strong as few rows allow, is not used at all."""
    fitted, option = fitted_with(best, rows_seen), FeaturePrior(PLACES, 1.0, 20, {"agents": LayerRows((40, 3), {"x": (0, 40)})})
    assert strength(fitted, 0, (0, 40), 10.0) == (1, pytest.approx(alpha))
    np.testing.assert_allclose(option.pseudo_counts("agents", fitted).toarray(), np.full((40, 3), alpha / 3))
    extras = option.store("agents", replace(fitted, episodes=1))
    table = option.expected("agents", extras)
    assert table.n_rows == (40 if alpha else 0)
    assert option.expected("agents", extras) is table  # until the extras are replaced
    assert option.expected("agents", dict(extras)) is not table


# ------------------------------------------------------------------------------------------------- models


def test_the_environments_model_knows_rows_that_were_never_seen():
    """Slipping on a field: changes of row and column. Half of the rows were seen."""
    truth = GRID.environment.transition.toarray()
    rows = np.random.default_rng(1).permutation(4 * (SIDE * SIDE - 1))
    seen, unseen = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    found = environment_model(PLACES, counted(truth, 60, 0, seen)).toarray()
    total = found.sum(axis=1)
    assert (np.isclose(total, 1.0) | (total == 0.0)).all()
    off = np.abs(found - truth)[unseen].sum(axis=1)
    assert np.median(off) < 0.25
    assert np.median(np.abs(1 / truth.shape[1] - truth)[unseen].sum(axis=1)) > 1.7  # what the plain prior expects


def test_models_of_nothing_say_nothing():
    nothing = sp.csr_array((4 * SIDE * SIDE, SIDE * SIDE))
    assert environment_model(PLACES, nothing).nnz == 0
    for model in (tree_model, softmax_model):
        assert model(PLACES, sp.csr_array((SIDE * SIDE, 4))).nnz == 0


def test_a_guide_who_is_good_in_one_half_is_not_pooled_away():
    guide = GRID.team.agents[1].policy
    column = np.arange(SIDE * SIDE) % SIDE
    seen = np.random.default_rng(2).permutation(SIDE * SIDE)[: SIDE * SIDE // 2]
    model = tree_model(PLACES, counted(guide, 20, 0, seen)).toarray()
    np.testing.assert_allclose(model.sum(axis=1), 1.0)
    assert (model[column < SIDE // 2, 3] > 0.85).all()
    assert (model[(column >= SIDE // 2) & (column < SIDE - 1), 3] < 0.3).all()


def test_softmax_is_the_least_of_its_loss():
    """A slow twin: the same loss, written out, with slopes by differences."""
    task = random_mdp(1, n_states=6, n_actions=3, n_agents=1, horizon=3, kinds=[None]).task
    codes = [(s // 3, s % 3) for s in range(6)]
    features = read_features("test", task, codes, None)
    counts = sp.csr_array(np.random.default_rng(4).poisson(2.0, (6, 3)).astype(float))
    x = np.array([[*np.eye(2)[i], *np.eye(3)[j], 1.0] for i, j in codes])

    def loss(w):
        m = special.softmax(x @ w.reshape(6, 3), axis=1)
        return (w**2).sum() / 2 - (counts.toarray() * np.log(m)).sum()

    w = optimize.minimize(loss, np.zeros(18), method="BFGS").x
    found = softmax_model(features, counts).toarray()
    np.testing.assert_allclose(found, special.softmax(x @ w.reshape(6, 3), axis=1), atol=0.01)


# ------------------------------------------------------------------------------------------------- learners


def total_regret(mdp, seeds, episodes=60, **settings):
    """The mean regret over some seeds, and the last learner."""
    found = 0.0
    for seed in seeds:
        learner = cede.posterior_sampling(mdp.task, seed=seed, **settings)
        found += cede.simulate(mdp, learner, episodes, seed=seed, progress=False).regret[-1]
    return found / len(seeds), learner


def test_features_help_where_they_tell_something():
    plain, _ = total_regret(GRID, range(2))
    better, learner = total_regret(GRID, range(2), features=True)
    assert better < 0.9 * plain
    assert learner.priors["guide"][0] == "tree"
    assert learner.priors["guide"][1] >= 10.0
    assert learner.priors["environment"][1] >= 30.0
    assert learner.about["features"] == ["row", "column"]


def test_shuffled_features_cost_little():
    """Of the agents, here; of the environment they are not used at all."""
    mdp, codes = grid(names=False), np.random.default_rng(3).permutation(PLACES.codes)
    plain, _ = total_regret(mdp, range(4), 40, known_environment=mdp.environment)
    shuffled, _ = total_regret(mdp, range(4), 40, known_environment=mdp.environment, features=codes)
    assert shuffled < 1.1 * plain
    truth = mdp.environment.transition.toarray()
    option, extras, seen = option_of(mdp.task, features=codes), {}, sp.csr_array(truth.shape)
    for i, episodes in enumerate((10, 15, 23)):
        seen = seen + counted(truth, 2, i)
        extras = option.fit("environment", extras, lambda now=seen: now, episodes)
    assert extras["environment/scores"].any()
    assert option.in_force(extras) == {}


def fitted_at(learner):
    return [learner.state.extras[f"{layer}/episodes"].tolist() for layer in ("agents", "environment")]


def same(one, other):
    np.testing.assert_array_equal(one.plan.policy, other.plan.policy)
    np.testing.assert_array_equal(one.plan.value, other.plan.value)
    extras = one.state.extras, other.state.extras
    assert extras[0].keys() == extras[1].keys()
    for name, array in extras[0].items():
        np.testing.assert_array_equal(array, extras[1][name])
    assert one.priors == other.priors


def test_by_hand_in_a_simulation_and_through_a_file(tmp_path):
    whole, parts, hand = (cede.posterior_sampling(GRID.task, features=True, seed=2) for _ in range(3))
    cede.simulate(GRID, whole, 24, seed=9, progress=False)
    assert whole.priors
    assert fitted_at(whole) == [[23], [23]]
    rng = np.random.default_rng(np.random.SeedSequence(9, spawn_key=(0,)))
    for i in range(24):
        hand.observe_episode(cede.rollout(GRID, hand.plan, rng))
        hand.end_episode()
        if i in (12, 20):
            hand.save(tmp_path / "hand.cede")
            hand = cede.load(tmp_path / "hand.cede")
    same(whole, hand)
    rng = np.random.default_rng(np.random.SeedSequence(9, spawn_key=(0,)))
    for episodes in (7, 10, 7):
        cede.simulate(GRID, parts, episodes, seed=rng, progress=False)
        parts.save(tmp_path / "parts.cede")
        parts = cede.load(tmp_path / "parts.cede")
    same(whole, parts)


def test_a_log_teaches_what_a_run_teaches():
    live, later = (cede.posterior_sampling(GRID.task, features=True, seed=2) for _ in range(2))
    rng, episodes = np.random.default_rng(0), []
    for _ in range(17):
        episodes.append(cede.rollout(GRID, live.plan, rng))
        live.observe_episode(episodes[-1])
        live.end_episode()
    later.learn_from(episodes, progress=False)
    same(live, later)


def test_counts_from_elsewhere_are_fitted_after_the_next_episode():
    first = cede.posterior_sampling(GRID.task, features=True)
    cede.simulate(GRID, first, 12, seed=0, progress=False)
    run, hand = (cede.Learner(GRID.task, first.settings, counts=first.counts) for _ in range(2))
    cede.simulate(GRID, run, 2, seed=1, progress=False)
    rng = np.random.default_rng(np.random.SeedSequence(1, spawn_key=(0,)))
    for _ in range(2):
        hand.observe_episode(cede.rollout(GRID, hand.plan, rng))
        hand.end_episode()
    assert fitted_at(run) == [[13], [13]]
    same(run, hand)


def fleet_of(n, **settings):
    return cede.Fleet([cede.posterior_sampling(GRID.task, features=True, seed=i, **settings) for i in range(n)])


def test_fleets_share_the_environments_prior(tmp_path):
    """Whatever the number of jobs, from a checkpoint, and through a file."""
    mdps, histories, fleets = [GRID] * 3, [], []
    for jobs in (1, 2):
        fleets.append(fleet_of(3))
        histories.append(cede.simulate_fleet(mdps, fleets[-1], 12, seed=3, jobs=jobs, progress=False))
    path = tmp_path / "run.npz"
    fleets.append(fleet_of(3))
    cede.simulate_fleet(mdps, fleets[-1], 7, seed=3, checkpoint=path, progress=False)
    fleets[-1] = fleet_of(3)
    resumed = cede.Checkpoint(path, resume=True)
    histories.append(cede.simulate_fleet(mdps, fleets[-1], 12, seed=3, checkpoint=resumed, progress=False))
    for history, fleet in zip(histories[1:], fleets[1:], strict=True):
        np.testing.assert_array_equal(history.expected_cost, histories[0].expected_cost)
        for one, other in zip(fleets[0], fleet, strict=True):
            same(one, other)
    assert (
        fleets[0].shared_environment.extras["environment/episodes"] == 36
    )  # of all teams together: after the round in which it was time
    assert all(name.startswith("agents/") for learner in fleets[0] for name in learner.state.extras)
    fleets[0].save(tmp_path / "fleet.cede")
    again = cede.load(tmp_path / "fleet.cede")
    for one, other in zip(fleets[0], again, strict=True):
        same(one, other)
    newcomer = again.welcome(GRID.task)
    assert newcomer.priors["environment"] == again.learners[0].priors["environment"]
    gone = again.remove(0)
    assert gone.priors == fleets[0].learners[0].priors
    alone = cede.Fleet([gone, cede.posterior_sampling(GRID.task)])
    assert alone.shared_environment.extras["environment/episodes"] == 36
    alone.merge(fleet_of(1))
    assert len(alone) == 3
    alone.remove(2)
    alone.remove(0)
    alone.save(tmp_path / "alone.cede")  # nobody is left who has features: nobody needs the prior
    assert len(cede.load(tmp_path / "alone.cede")) == 1


def test_a_newcomer_to_a_new_fleet_brings_what_it_fitted():
    old = cede.posterior_sampling(GRID.task, features=True)
    cede.simulate(GRID, old, 24, seed=0, progress=False)
    fleet = cede.Fleet([cede.posterior_sampling(GRID.task, features=True), copy.deepcopy(old)])
    fitted = fleet.shared_environment.extras
    assert fitted["environment/episodes"] == 23
    np.testing.assert_array_equal(fitted["environment/scores"], old.state.extras["environment/scores"])


def test_teams_that_share_have_the_same_features():
    other = cede.posterior_sampling(GRID.task, features=PLACES.codes[::-1])
    with pytest.raises(ValueError, match=r"Fleet: the features of learner 1 is others, must be the same as those of the fleet"):
        cede.Fleet([cede.posterior_sampling(GRID.task, features=True), other])
    fleet = fleet_of(1)
    for take in (fleet.add, lambda one: fleet.merge(cede.Fleet([one]))):
        with pytest.raises(ValueError, match=r"the features of .* is others, must be the same"):
            take(cede.posterior_sampling(GRID.task, features=PLACES.codes[::-1]))


def test_what_is_known_or_declared_is_not_modelled():
    machine = GRID.team.agents[0].policy
    labels = cede.Structure({"guide": np.arange(SIDE * SIDE) % SIDE})
    learner = cede.posterior_sampling(GRID.task, features=True, known_agents={"machine": machine}, structure=labels)
    cede.simulate(GRID, learner, 60, seed=0, progress=False)
    assert set(learner.priors) <= {"environment"}
    assert "agents/models_key" not in learner.state.extras
    assert len(learner.state.extras["environment/models_key"]) > 0


def test_limits_and_unknown_costs_go_with_features():
    learner = cede.posterior_sampling(GRID.task.with_unknown_costs(), features=True, at_most={"guide": 0.5}, replan=2)
    history = cede.simulate(GRID, learner, 30, seed=0, progress=False)
    assert np.isfinite(history.cost).all()
    assert fitted_at(learner) == [[23], [23]]


# ------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"features": [0, 1]}, "the number of rows of features is 2, must be 36"),
        ({"features": np.zeros((36, 2))}, r"features\[1\] is \(0, 0\), must be unlike those of state 0"),
        ({"features": np.full((36, 2), 0.5)}, r"features\[0, 0\] is 0.5, must be an integer"),
        ({"features": {"row": 1}}, "features is {'row': 1}, must be a sequence"),
        ({"features": True, "forget": cede.HalfLife(5)}, "features is given, must be left out with forget"),
        (
            {
                "features": True,
                "known_environment": GRID.environment,
                "known_agents": {one.name: one.policy for one in GRID.team.agents},
            },
            "features is given, must be left out where all agents and the environment are known or declared",
        ),
    ],
)
def test_refusals(wrong, message):
    with pytest.raises(ValueError, match=f"posterior_sampling: {message}"):
        cede.posterior_sampling(GRID.task, **wrong)


def test_names_that_cannot_be_read_and_tasks_without_end_are_refused():
    with pytest.raises(ValueError, match="features is True, must be a table: the states of this task have no names"):
        cede.posterior_sampling(grid(names=False).task, features=True)
    endless = replace(cede.worlds.riverswim(agents=[0.2, 0.8]), horizon=None)
    with pytest.raises(ValueError, match="features is given, must be left out without a horizon"):
        cede.posterior_sampling(endless.task, features=True)
    assert cede.posterior_sampling(endless.task, features=None).settings.features is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"codes": PLACES.codes + 1}, "codes is beyond the values"),
        ({"codes": PLACES.codes * 0}, "codes is the same for two states"),
        ({"codes": PLACES.codes.astype(float)}, "codes is .*, must be an array of int64"),
        ({"values": (*PLACES.values[:-1], 0.5)}, "a value is 0.5, must be an integer"),
        ({"numeric": (True, False)}, "values is torn"),
        ({"names": ("row",)}, "codes is .*, must be an array of int64 with a column for each name"),
    ],
)
def test_features_check_themselves(wrong, message):
    given = {name: getattr(PLACES, name) for name in ("names", "codes", "values", "numeric")}
    with pytest.raises(ValueError, match=f"Features: {message}"):
        Features(**{**given, **wrong})


def test_features_of_more_than_64_values_are_not_asked_for():
    for values, wide in ((64, False), (65, True)):
        task = cede.Task(env_cost=np.zeros((values, 1)), agents=["a"], horizon=1)
        assert is_wide(read_features("test", task, np.arange(values)[:, None], None)).tolist() == [wide]


def test_steps_know_the_place_in_which_they_were_counted():
    moves = Moves(np.array([0, 0, 1]), np.array([0, 3, 2]), np.array([1, 0, 1]), np.ones(3))
    assert steps_for(PLACES, moves, 4, 0, ()).place.tolist() == [0, 3, 6]


def test_branches_are_joined_by_a_test_with_all_their_labels():
    """Five labels: four degrees of freedom, so that a ratio that would be significant with one is none."""
    counts = np.array([[20.0, 20, 20, 20, 20], [31.0, 23, 20, 15, 11]])
    both = counts.sum(axis=0)
    ratio = 2 * sum(float((row * np.log(row / row.sum())).sum()) for row in counts) - 2 * float(
        (both * np.log(both / both.sum())).sum()
    )
    assert stats.chi2.sf(ratio, 1) < 0.05 < stats.chi2.sf(ratio, 4)
    assert len(joined(RuleTable(np.arange(2), (counts,), np.zeros((2, 0))), np.eye(2))) == 1
    assert len(joined(RuleTable(np.arange(2), (counts * 10,), np.zeros((2, 0))), np.eye(2))) == 2
