"""Same seed, same bits: what earlier code computed, this code computes too."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from golden.runs import FILE, RUNS

FIXED = np.load(FILE)


@pytest.mark.parametrize("name", RUNS)
def test_runs_give_the_same_bits(name):
    wanted = {key.removeprefix(f"{name}/"): FIXED[key] for key in FIXED.files if key.startswith(f"{name}/")}
    found = RUNS[name]()
    assert found.keys() == wanted.keys()
    for key, array in wanted.items():
        np.testing.assert_array_equal(found[key], array, err_msg=key)
        assert found[key].dtype == array.dtype


OLD_PROCESSOR = {"NUMBA_CPU_NAME": "generic", "OPENBLAS_CORETYPE": "Sandybridge", "NPY_DISABLE_CPU_FEATURES": "X86_V4"}


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="names of x86 processors")
def test_another_processor_gives_the_same_bits():
    """Kernels for the least processor that there is, and libraries without their widest registers."""
    tests = Path(__file__).parent
    program = "from test_golden import *\nfor name in ('road_schedule', 'limits_solved'): test_runs_give_the_same_bits(name)"
    env = {**os.environ, **OLD_PROCESSOR, "PYTHONPATH": str(tests)}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=3600)
