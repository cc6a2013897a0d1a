"""Dataclasses taken apart and put together; arrays to bytes and back."""

import io
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse as sp

from cede._base.archive import UnreadableFile, describe, digest, load_arrays, rebuild, write_arrays


@dataclass(frozen=True, eq=False)
class Leaf:
    number: float
    table: np.ndarray

    def __post_init__(self):
        if self.number < 0:
            raise ValueError("Leaf: number is negative")


@dataclass(frozen=True, eq=False)
class Tree:
    leaves: dict = field(default_factory=dict)
    name: str | None = None
    matrix: sp.csr_array | None = None


TREE = Tree({"a": Leaf(1.5, np.arange(6).reshape(2, 3)), 3: (1, "x", None)}, "names are data: <b>$x$</b>", sp.csr_array(np.eye(3)))
CLASSES = {"Tree": Tree, "Leaf": Leaf}


def test_what_is_described_is_rebuilt():
    arrays = {}
    again = rebuild(describe(TREE, "tree", arrays), arrays, CLASSES)
    assert list(again.leaves) == ["a", 3]
    assert again.leaves[3] == (1, "x", None)
    np.testing.assert_array_equal(again.leaves["a"].table, TREE.leaves["a"].table)
    assert (again.matrix != TREE.matrix).nnz == 0
    assert digest(again) == digest(TREE)
    assert digest(Tree(name="other")) != digest(TREE)


def test_what_is_rebuilt_goes_through_its_own_checks():
    arrays = {}
    described = describe(TREE.leaves["a"], "leaf", arrays)
    with pytest.raises(ValueError, match="number is negative"):
        rebuild({**described, "number": -1.0}, arrays, CLASSES)
    with pytest.raises(TypeError):
        rebuild({**described, "unknown": 1}, arrays, CLASSES)
    with pytest.raises(KeyError):
        rebuild({**described, "class": "os.system"}, arrays, CLASSES)
    with pytest.raises(TypeError, match="must be data"):
        describe(Tree(name=print), "tree", arrays)


@pytest.mark.parametrize("harm", [{"indices": np.array([0, 1, 9])}, {"indptr": np.array([0, 1, 2])}, {"data": np.ones(2)}])
def test_places_of_a_matrix_are_checked(harm):
    arrays = {}
    described = describe(TREE.matrix, "m", arrays)
    with pytest.raises(ValueError, match=r"m is torn|m has places beyond its shape"):
        rebuild(described, {**arrays, **{f"m/{name}": array for name, array in harm.items()}}, {})


def test_bytes_are_as_good_as_a_file():
    buffer = io.BytesIO()
    write_arrays(buffer, "thing", 3, {"about": [1, 2]}, {"a": np.arange(4)})
    header, arrays = load_arrays(buffer.getvalue(), "thing", 3)
    assert header["about"] == [1, 2]
    np.testing.assert_array_equal(arrays["a"], np.arange(4))
    with pytest.raises(UnreadableFile, match="these bytes: is a thing of schema 3, must be at most 2: it is of a newer cede"):
        load_arrays(buffer.getvalue(), "thing", 2)
    with pytest.raises(UnreadableFile, match="these bytes: is a thing of schema 3, must be 4: it is of an older cede"):
        load_arrays(buffer.getvalue(), "thing", 4)
    with pytest.raises(UnreadableFile, match="these bytes: cannot be read"):
        load_arrays(buffer.getvalue()[:-30], "thing", 3)
