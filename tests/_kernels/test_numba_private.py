"""Compiled code on disk: damage and full disks cost time, never an answer."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from cede._kernels.compiling import Kernel
from cede._kernels.numba_private import CodeCache

NOTICE = "cede: compiling for this machine, once; some seconds more ...\n"


def mean(values):
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total / values.size


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Let Numba keep its files in a directory of the test."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(CodeCache, "said", False)
    return tmp_path


def called():
    """Call a kernel that this process has not loaded yet; return its answer, and how often the cache had it."""
    new = Kernel(mean)
    return new(np.arange(4.0)), sum(new.entry.stats.cache_hits.values())


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("left", [0, 1, 20, 0.5, -1])
def test_a_cut_file_is_made_again(folder, ending, left, capsys):
    assert [called(), called()] == [(1.5, 0), (1.5, 1)]
    (path,) = folder.rglob(f"*{ending}")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(left * len(whole))] if isinstance(left, float) else whole[:left])
    assert [called(), called()] == [(1.5, 0), (1.5, 1)]
    said = capsys.readouterr().err.replace(NOTICE, "")  # a busy machine compiles for more than two seconds
    assert said == ""


@pytest.mark.parametrize("harm", [b"", b"\0" * 5000, b"garbage", b"\x80\x05]."])
def test_files_of_anything_are_made_again(folder, harm):
    called()
    for path in folder.rglob("*.nb?"):
        path.write_bytes(harm)
    assert [called(), called()] == [(1.5, 0), (1.5, 1)]


def test_a_full_disk_costs_the_time_to_compile(folder, monkeypatch, capsys):
    def full(path, mode="r", *args, **kwargs):
        if "w" in mode:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return Path(path).open(mode, *args, **kwargs)

    monkeypatch.setattr("numba.core.caching.open", full, raising=False)
    assert [called(), called()] == [(1.5, 0), (1.5, 0)]
    said = capsys.readouterr().err.replace(NOTICE, "")
    assert said.count("\n") == 1
    assert said.startswith("cede: compiled code could not be written (No space left on device): every process compiles it again")
    monkeypatch.undo()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
    assert [called(), called()] == [(1.5, 0), (1.5, 1)]


def test_no_directory_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])
    assert called() == (1.5, 0)


UNIT = """
import numpy as np
from cede.rows.counting import OutcomeIndex, outcome_of

index = OutcomeIndex(entry=np.array([[0]]), begin=np.array([0, 1]), to=np.array([5]), outcome=np.array([3]))
print(outcome_of(index, 0, 0, 5))
"""


@pytest.mark.slow
def test_units_on_a_disk_that_is_full(tmp_path, monkeypatch):
    """As above, in a process that may write no file, and so through a unit, whose compilation compiled code asks for."""
    resource = pytest.importorskip("resource")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    plain = subprocess.run([sys.executable, "-c", UNIT], check=True, capture_output=True, text=True)
    assert plain.stdout == "3\n"
    for path in tmp_path.rglob("*.nb?"):
        os.truncate(path, path.stat().st_size // 2)
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, {resource.RLIM_INFINITY}))\n{UNIT}"
    done = subprocess.run([sys.executable, "-c", limited], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    assert done.stderr.count("cede: compiled code could not be written (File too large)") == 1


WHOLE = "import cede; print(float(cede.solve(cede.worlds.riverswim()).value[0, 0, 0]))"


def test_kernels_are_compiled_while_users_debug_their_own_functions(monkeypatch):
    """NUMBA_DISABLE_JIT is for functions that users debug; kernels are compiled nevertheless."""
    plain = subprocess.run([sys.executable, "-c", WHOLE], check=True, capture_output=True, text=True)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    code = f"{WHOLE}; import numba; own = lambda: 1; print(numba.njit(own) is own)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, plain.stdout + "True\n"), done.stderr
