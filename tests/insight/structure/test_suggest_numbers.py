"""When features tell something, and when what is called alike differs: how much is tried, and what is enough."""

from itertools import cycle

import numpy as np
import pytest
import scipy.sparse as sp

import cede
from cede.beliefs.trees import RuleData
from cede.insight.structure.suggest import differs, tells_something
from cede.problem.features import read_features
from cede.rows.stored import Counts

NAMES = [f"room={i % 3}, light={i // 3}" for i in range(6)]
TASK = cede.Task(agents=["a"], env_cost=np.zeros((6, 1)), horizon=2, state_names=NAMES)


def tried(own, others):
    """What comes out, and how many random orders were tried, if features score `own` and random orders what `others` says."""
    scores, asked = iter([own, *others]), []

    def describe(features):
        asked.append(features.codes.copy())
        return next(scores)

    return tells_something(read_features("x", TASK, None, None), describe, np.random.default_rng(0)), len(asked) - 1, asked


def test_nineteen_random_orders_must_be_worse():
    spread = [value for value, _ in zip(cycle([0.0, 99.0]), range(19), strict=False)]
    assert tried(100.0, spread)[:2] == (True, 19)
    assert tried(100.0, [*spread[:18], 100.0])[:2] == (False, 19)
    assert tried(100.0, [0.0, 100.0])[:2] == (False, 2)


@pytest.mark.parametrize(("deviations", "enough"), [(5.1, True), (4.9, False)])
def test_four_are_enough_if_they_are_worse_by_five_standard_deviations(deviations, enough):
    first = np.array([1.0, 2.0, 3.0, 6.0])
    own = first.mean() + deviations * first.std(ddof=1)
    result, orders, _ = tried(own, [*first, *[own - 1e-9, 0.0] * 8])
    assert result
    assert (orders == 4) is enough


def test_orders_are_random_and_lose_nothing():
    _, _, asked = tried(100.0, [0.0, 99.0] * 10)
    for codes in asked[1:]:
        assert sorted(map(tuple, codes)) == sorted(map(tuple, asked[0]))
    assert any((codes != asked[0]).any() for codes in asked[1:])


def acts(*rows):
    """Steps of an agent: how often it took each action, one row of two numbers for each place."""
    counts = np.array(rows, dtype=float)
    place, action = np.nonzero(counts)
    return RuleData(place[:, None], action, None, np.zeros((len(place), 0), dtype=bool), place, counts[place, action])


@pytest.mark.parametrize(("table", "different"), [([[8, 2], [2, 8]], False), ([[9, 1], [2, 8]], True)])
def test_places_that_are_called_alike_differ_from_one_percent_on(table, different):
    """Fisher's exact test: p is 0.023 for the first table, and 0.0055 for the second."""
    assert differs(np.zeros(2, dtype=int), 2, acts(*table), np.random.default_rng(0)) is different


def test_one_percent_is_shared_among_all_groups():
    """Of four groups each has a quarter of a percent, which 0.0055 is not below."""
    labels, others = np.array([0, 0, 1, 1, 2, 2, 3, 3]), [[5, 5]] * 6
    assert not differs(labels, 8, acts([9, 1], [2, 8], *others), np.random.default_rng(0))
    assert differs(labels, 8, acts([10, 0], [0, 10], *others), np.random.default_rng(0))


def test_what_an_agent_does_in_another_slot_is_another_case():
    """Two states, two slots. Labels are 0 and 1: nothing is called alike, and all may differ. With one label, rows 0 and 1 are."""
    steps = acts([90, 10], [10, 90], [90, 10], [10, 90])
    assert not differs(np.array([0, 1]), 2, steps, np.random.default_rng(0))
    assert differs(np.array([0, 0]), 2, steps, np.random.default_rng(0))
    by_slot = acts([90, 10], [90, 10], [10, 90], [10, 90])
    for labels in ([0, 1], [0, 0]):
        assert not differs(np.array(labels), 2, by_slot, np.random.default_rng(0))


def test_labels_belong_to_the_agent_that_they_were_found_for():
    """One agent acts by the room alone, the other by the light alone."""
    names = [f"room={i % 4}, light={i // 4}" for i in range(16)]
    task = cede.Task(agents=["room", "light"], env_cost=np.zeros((16, 2)), horizon=2, state_names=names)
    rows = [[95, 5], [65, 35], [35, 65], [5, 95]]
    acted = [rows[i % 4] for i in range(16)] + [rows[i // 4] for i in range(16)]
    counts = Counts.of(task, sp.csr_array(np.array(acted)), Counts.zeros(task).environment, 1600, 0)
    found = cede.insight.suggest_structure(task, counts).structure
    assert sorted(found.agents) == ["light", "room"]
    assert found.agents["room"].tolist() == [0, 1, 2, 3] * 4
    assert found.agents["light"].tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert found.environment is None
