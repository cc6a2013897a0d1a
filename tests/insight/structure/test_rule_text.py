"""What comes in a leaf of a rule, in words, written out."""

import numpy as np
import pytest

from cede.beliefs.trees import Leaf, Variable
from cede.insight.structure.text import what_comes

VARIABLES = (Variable("row", ("top", "middle", "low")), Variable("door", ("open", "shut")))


@pytest.mark.parametrize(
    ("kind", "copied", "labels", "counts", "text"),
    [
        ("value", -1, [1], [40.0], "row' is middle"),
        ("value", -1, [0, 2], [10.0, 30.0], "row' is low (75%), top (25%)"),
        ("change", -1, [0], [5.0], "row' is row"),
        ("change", -1, [2], [5.0], "row' is row + 2"),
        ("change", -1, [-1, 0], [1.0, 9.0], "row' is row (90%), row - 1 (10%)"),
        ("copy", 0, [-1], [5.0], "row' stays row"),
        ("copy", 1, [-1], [5.0], "row' is a copy of door"),
    ],
)
def test_what_comes(kind, copied, labels, counts, text):
    assert what_comes("row", Leaf(1, kind, copied, np.array(labels), np.array(counts)), VARIABLES) == text


def test_many_values_are_cut_and_doubts_are_said():
    changes, counts = np.arange(8), np.full(8, 1.0)
    told = what_comes("x", Leaf(1, "change", -1, changes, counts, True), VARIABLES)
    assert told.count("(12%)") == 6
    assert told.endswith(", ..., different from place to place")
