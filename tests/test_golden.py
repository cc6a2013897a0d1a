"""Same seed, same bits: what earlier code computed, this code computes too."""

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
