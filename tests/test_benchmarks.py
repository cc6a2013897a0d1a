"""The peers of the benchmarks compute the same as we do: otherwise their times would say nothing."""

import sys
from pathlib import Path

import numpy as np
import pytest

import cede
from cede.beliefs.belief import Belief
from cede.planning.planner import optimistic_plan
from problems import random_mdp

HERE = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.delitem(sys.modules, "peers", raising=False)
    import peers

    return peers


def beliefs(seed, widths):
    rng = np.random.default_rng(seed)
    task = cede.Task(rng.random((7, 3)), ["a", "b"], 5, control_cost=[0.0, 0.2], switch_cost=0.1)
    agents = Belief.of(rng.integers(0, 5, (14, 3)), widths, (2, 7))
    return task, agents, Belief.of(rng.integers(0, 4, (21, 7)) * (rng.random((21, 7)) < 0.6), widths, (7, 3))


@pytest.mark.parametrize("width", [0.05, 0.4, 1.1, 2.5])
def test_dense_transcription(peers, width):
    task, agents, environment = beliefs(3, width)
    np.testing.assert_allclose(
        peers.dense_plan(task, agents, environment), optimistic_plan(task, agents, environment).value, atol=1e-12
    )


def test_plain_backup(peers):
    rng = np.random.default_rng(0)
    task = beliefs(4, 0.0)[0]
    agents = Belief.of(rng.integers(1, 9, (14, 3)), 0.0, (2, 7))
    environment = Belief.of(rng.integers(1, 9, (21, 7)), 0.0, (7, 3))
    arguments = peers.plain_arguments(task, agents, environment)
    peers.plain_backup(*arguments)
    np.testing.assert_allclose(arguments[-1], optimistic_plan(task, agents, environment).value, atol=1e-12)


@pytest.mark.parametrize("kinds", [[None], ["time", None]])
def test_quantecon_on_the_product_form(peers, kinds):
    markov = pytest.importorskip("quantecon.markov")
    mdp = random_mdp(5, n_states=4, n_agents=3, n_actions=2, horizon=4, kinds=kinds)
    problem, value = peers.quantecon_problem(mdp), cede.solve(mdp).value[0]
    found = -markov.backward_induction(problem, mdp.horizon, np.zeros(problem.num_states))[0][0, : value.size]
    np.testing.assert_allclose(found.reshape(value.shape), value, atol=1e-10)


def test_the_benchmark_of_fleets_measures_something(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    import fleets

    (one,) = fleets.throughput({"RiverSwim": (3,)}, repeats=1)
    assert one["us"] > 0
    river, lane = fleets.messages(quick=True)
    assert river["order_kb"] < lane["order_kb"]
    assert 0 < river["state_bytes"] < lane["state_bytes"] < 20_000
