"""Bundles and units: by reference, compiled once, and the same from the cache in any order of imports."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from numba import types

from cede._kernels import compiling
from cede._kernels.bundle import Bundle, Float1, Int2
from cede._kernels.compiling import CompileTime, compile_notice, kernel, say_that_it_compiles, unit


class Inside(Bundle):
    values: Float1
    count: int


class Outside(Bundle):
    inside: Inside
    table: Int2
    share: float


@unit(types.float64, Inside, types.int64)
def total_of(inside, times):
    """Sum the values, so many times, and count the calls."""
    inside.count += 1
    values, result = inside.values, 0.0
    for i in range(values.size):
        result += times * values[i]
    return result


@kernel
def use(outside, times):
    """Read and write fields of a bundle and of one inside it."""
    outside.share = 0.25
    outside.table[1, 0] = outside.inside.count
    return total_of(outside.inside, times) + outside.table.shape[1]


@kernel
def point(outside, table):
    """Point a field at another array."""
    outside.table = table
    return outside.table[0, 0]


def test_kernels_read_and_write_bundles():
    inside = Inside(values=np.arange(4.0), count=7)
    outside = Outside(inside=inside, table=np.zeros((2, 3), dtype=np.int64))
    assert use(outside, 2) == 2 * 6 + 3
    assert (inside.count, outside.share, outside.table[1, 0]) == (8, 0.25, 7)
    inside.values = np.full(1000, 0.5)  # a table that moved is seen by all who hold the bundle
    assert use(outside, 1) == 503
    assert total_of(inside, 1) == 500  # the unit, called from Python
    assert point(outside, np.full((1, 1), 42)) == 42
    assert outside.table.shape == (2, 3)  # what Python put there


def test_bundles_check_what_is_put_in():
    inside = Inside(values=np.zeros(2))
    with pytest.raises(TypeError, match="Inside: values is int64 of 1 axes, must be array"):
        inside.values = np.zeros(2, dtype=np.int64)
    with pytest.raises(TypeError, match="Inside: values is float64 of 1 axes"):
        inside.values = np.zeros(8)[::2]
    with pytest.raises(TypeError, match="Inside: values is missing"):
        Inside(count=3)
    with pytest.raises(TypeError, match="Inside has no field 'other'"):
        Inside(values=np.zeros(2), other=1)
    with pytest.raises(TypeError, match="Outside: inside is a Outside, must be a bundle"):
        Outside(inside=Outside(inside=inside, table=np.zeros((1, 1), dtype=np.int64)), table=np.zeros((1, 1), dtype=np.int64))
    with pytest.raises(TypeError, match="holds addresses of this process and cannot be copied or sent"):
        inside.__reduce__()


def test_cached_kernels_find_their_units_in_any_order_of_imports(tmp_path, monkeypatch):
    """Machine code on disk must not depend on which module was imported first when it was made."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    plan = "mdp = cede.worlds.riverswim(); print(float(cede.solve(mdp).value[0, 0, 0]))"
    orders = ("", "import cede.beliefs.posterior, cede._kernels.limits; ", "import cede.fleet.teams; ")
    answers = []
    for order in orders:
        code = f"import cede; {order}{plan}"
        answers.append(subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True))
    assert [answer.returncode for answer in answers] == [0, 0, 0]
    assert len({answer.stdout for answer in answers}) == 1
    assert "compiling for this machine" in answers[0].stderr
    assert answers[1].stderr == answers[2].stderr == ""


def test_one_line_says_that_something_compiles(tmp_path, monkeypatch, capsys):
    """Once in a process and once in all processes of a run. Code that is loaded from disk does not count."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(compiling, "COMPILE_NOTICE_SECONDS", 0.0)
    monkeypatch.setattr(CompileTime, "said", False)
    monkeypatch.setattr(CompileTime, "seconds", 0.0)
    dispatcher = SimpleNamespace(stats=SimpleNamespace(cache_hits={}))
    for _ in range(3):
        with compile_notice(dispatcher):
            until = time.monotonic() + 60.0
            while not list(tmp_path.iterdir()) and time.monotonic() < until:
                time.sleep(0.001)
    spent = CompileTime.seconds
    assert spent > 0
    with compile_notice(dispatcher):
        dispatcher.stats.cache_hits["types"] = 1
    assert CompileTime.seconds == spent
    CompileTime.said = False  # as in another process
    say_that_it_compiles()
    assert capsys.readouterr().err.count("cede: compiling for this machine, once") == 1
    CompileTime.said = False
    (mark,) = tmp_path.iterdir()
    os.utime(mark, (0.0, 0.0))  # another run, long after
    say_that_it_compiles()
    assert "cede: compiling for this machine, once" in capsys.readouterr().err


INTERRUPTED = """
import signal
import time
import numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may be run with it ignored
from cede.rows.counting import Forgetting, CountsArrays, forget, outcome_of, OutcomeIndex, find_outcome

compile, calls = type(find_outcome.inner).compile, []

def interrupted(self, kinds):
    if self is find_outcome.inner and not calls:
        calls.append(kinds)
        raise KeyboardInterrupt
    return compile(self, kinds)

type(find_outcome.inner).compile = interrupted
one = np.array([[0]])
index = OutcomeIndex(entry=one, begin=np.array([0, 1]), to=np.array([5]), outcome=np.array([3]))
try:
    assert outcome_of(index, 0, 0, 5) == 3
    begun = time.monotonic()
    time.sleep(60)
    print("nothing came")
except KeyboardInterrupt:
    woken = time.monotonic() - begun < 60
    print("came afterwards", outcome_of(index, 0, 0, 5), woken)
"""


def test_an_interrupt_while_a_unit_compiles_comes_afterwards(tmp_path, monkeypatch):
    """Ctrl-C cannot be raised through compiled code: the unit is finished first, and the interrupt is not lost."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], check=False, capture_output=True, text=True)
    assert done.stdout == "came afterwards 3 True\n", done.stderr


def test_a_unit_whose_compilation_was_ended_from_outside_is_compiled_after_all(tmp_path, monkeypatch):
    """An interrupt in the moment in which compiled code calls Python ended the run: the kernel "could not be compiled"."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    ended = INTERRUPTED.replace("raise KeyboardInterrupt", "raise MemoryError").replace("time.sleep(60)", "pass")
    done = subprocess.run([sys.executable, "-c", ended], check=False, capture_output=True, text=True)
    assert done.stdout == "nothing came\n", done.stderr
