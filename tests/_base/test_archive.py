"""Dataclasses taken apart and put together; arrays to bytes and back."""

import io
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.lib import format as npy

import cede
from cede._base.archive import UnreadableFile, describe, digest, load_arrays, rebuild, write_arrays, write_whole


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


def nested_archive(path, depth, filling):
    """Write an archive whose members lie inside one another: each is an array whose numbers are all the members after it."""
    data, entries = bytes(filling), []
    for i in reversed(range(depth)):
        name = f"a{i:05d}.npy".encode()
        buffer = io.BytesIO()
        npy.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": (len(data),)})
        data = buffer.getvalue() + data
        sizes = (zlib.crc32(data), len(data), len(data), len(name))
        entries.append((name, sizes))
        data = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 0, 0, 0, *sizes, 0) + name + data
    total, directory = len(data), b""
    for name, sizes in reversed(entries):
        offset = total - sizes[1] - len(name) - 30
        directory += struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 0, 0, 0, *sizes, 0, 0, 0, 0, 0, offset) + name
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, depth, depth, len(directory), total, 0)
    path.write_bytes(data + directory + end)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_members_inside_one_another_are_refused_before_they_are_read(tmp_path, as_bytes):
    path = tmp_path / "nested.npz"
    nested_archive(path, 300, 200_000)
    with zipfile.ZipFile(path) as file:  # each member for itself is all right
        assert len(file.read("a00299.npy")) > 200_000
    size = path.stat().st_size
    source = path.read_bytes() if as_bytes else path
    with pytest.raises(UnreadableFile):
        cede.load(b"")  # imports what reading needs
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableFile, match="cannot be read, must be a learner or fleet"):
            cede.load(source)
        assert tracemalloc.get_traced_memory()[1] < 5 * size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "directory", "link to nothing"])
def test_what_only_looks_like_a_leftover_is_neither_opened_nor_removed(tmp_path, kind):
    other = tmp_path / f".x.{'0' * 16}.cede-partial"
    {
        "pipe": lambda: os.mkfifo(other),
        "link to a pipe": lambda: (os.mkfifo(tmp_path / "pipe"), other.symlink_to("pipe")),
        "directory": other.mkdir,
        "link to nothing": lambda: other.symlink_to("nothing"),
    }[kind]()
    code = "import sys, pathlib; from cede._base.archive import write_whole; write_whole(pathlib.Path(sys.argv[1]), 'x')"
    done = run_elsewhere(code, tmp_path / "x")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x").read_text() == "x"
    assert os.path.lexists(other)


def test_leftovers_are_removed(tmp_path):
    (tmp_path / f".x.{'0' * 16}.cede-partial").write_text("half")
    write_whole(tmp_path / "x", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def run_elsewhere(code, *arguments):
    """Run code in another process: what hangs there hangs for a limited time."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], timeout=600, capture_output=True, text=True, check=False
    )


def test_links_in_a_circle_and_names_that_are_no_text(tmp_path):
    (tmp_path / "there").symlink_to("back")
    (tmp_path / "back").symlink_to("there")
    learner = cede.ucrl2_mc(cede.worlds.riverswim([0.3, 0.7]).task)
    for path in (tmp_path / "there", tmp_path / "there" / "file"):
        for call in (learner.save, cede.load, learner.record_to, cede.read_record):
            with pytest.raises(OSError, match="Too many levels of symbolic links"):
                call(path)
    for call in (learner.save, cede.load, learner.record_to, cede.read_record):
        with pytest.raises(ValueError, match=r"(path|source) is '.*udcff', must be the path of a file, in UTF-8"):
            call("name\udcff")
    with pytest.raises(ValueError, match=r"Agent: name is 'a\\udcff', must be a string in UTF-8"):
        cede.Agent("a\udcff", [[1.0]])
