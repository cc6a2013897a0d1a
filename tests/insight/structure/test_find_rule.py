"""Rules that a search step by step misses, and leaves that copy a feature."""

from itertools import count, product

import numpy as np
import scipy.sparse as sp

import cede
from cede.beliefs.transition_trees import moves_of, steps_for, variables_of
from cede.beliefs.trees import Leaf, leaf_of, leaves, score
from cede.insight.structure.rules import find_rule
from cede.problem.features import read_features

STATES = list(product((0, 1), repeat=3))  # x, y, z
NAMES = [f"x={x}, y={y}, z={z}" for x, y, z in STATES]
TASK = cede.Task(agents=["a"], env_cost=np.zeros((8, 2)), horizon=2, state_names=NAMES)
FEATURES = read_features("test", TASK, None, None)
VARIABLES = variables_of(FEATURES, ["0", "1"])
ACTION = 3  # among the variables: after the features of the state


def steps_of(next_y, feature=1):
    """Steps in which x and z stay, and y becomes 1 with probability next_y(x, y, z, a); each place was met 400 times."""
    counts = np.zeros((16, 8))
    for s, (x, y, z) in enumerate(STATES):
        for a in range(2):
            chance = next_y(x, y, z, a)
            counts[2 * s + a, STATES.index((x, 1, z))] += round(400 * chance)
            counts[2 * s + a, STATES.index((x, 0, z))] += round(400 * (1 - chance))
    return steps_for(FEATURES, moves_of(sp.csr_array(counts), 2), 2, feature, ())


def test_what_the_action_decides_together_with_a_feature():
    """y becomes x xor the action, but for noise where z is 1: neither x nor the action tells anything by itself."""
    steps = steps_of(lambda x, y, z, a: (x ^ a) * 1.0 if not z else 0.4 + 0.6 * (x ^ a))
    plain, told = (find_rule(steps, VARIABLES, count(), 30, start) for start in (-1, ACTION))
    n = float(steps.visits.sum())
    assert score(told, n, len(VARIABLES)) >= score(plain, n, len(VARIABLES))
    chances = sorted(round(float(leaf.counts[leaf.labels == leaf.labels.max()].sum() / leaf.visits), 3) for leaf in leaves(told))
    assert chances[0] <= 0.4
    assert any(leaf.certain for leaf in leaves(told))


def test_no_start_is_tried_where_nothing_is_told_apart():
    """y becomes x xor the action in three of five steps: no single test tells anything, and one leaf says half and half."""
    for start in (-1, ACTION):
        found = find_rule(steps_of(lambda x, y, z, a: 0.4 + 0.2 * (x ^ a)), VARIABLES, count(), 30, start)
        assert isinstance(found, Leaf)
        assert (found.kind, found.labels.tolist(), found.counts.tolist()) == ("value", [0, 1], [3200.0, 3200.0])


def test_a_leaf_that_copies():
    """y becomes what z is; x, a number, does not change."""
    follows = leaf_of(steps_of(lambda x, y, z, a: float(z)), 1)
    assert (follows.kind, follows.copied, follows.visits) == ("copy", 2, 6400)
    stays = leaf_of(steps_of(lambda x, y, z, a: 0.5, feature=0), 1)
    assert (stays.kind, stays.copied, stays.labels.tolist(), stays.visits) == ("change", -1, [0], 6400)
