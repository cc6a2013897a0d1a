"""The hunt in short: every area for a moment, every public callable, kernels with their bounds checked."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import cede
from hunt import catalogue
from hunt.__main__ import FILE, PAGE, SHARES, WORDS, with_table
from hunt.areas import AREAS
from hunt.guard import PATHS, TESTS, hunt, hunt_areas, rng_of

SEED = 20261117  # the long hunt takes others


SECONDS = 1200  # a limit for a machine that has much else to do: idle, everything takes one minute
TRIALS = {
    "calls": 500,
    "orders": 80,
    "commands": 40,
    "soak": 40,
    "damaged": 800,
    "forged": 80,
    "checkpoints": 30,
    "tables": 4,
    "killed saves": 4,
    "racing saves": 3,
    "threads": 40,
    "interrupts": 60,
    "interrupted calls": 10,
    "disks": 2,
}


@pytest.fixture(scope="module")
def results():
    """What came of all areas, tried in one process: most of what a process does is to begin."""
    return hunt_areas(TRIALS, SEED, SECONDS)


@pytest.mark.parametrize("area", TRIALS)
def test_nothing_is_found(area, results):
    assert results[area].findings == []
    assert results[area].trials == TRIALS[area]


@pytest.mark.slow
@pytest.mark.parametrize("area", ["workers", "parents"])
def test_nothing_is_lost_with_a_process(area):
    result = hunt(area, SEED, SECONDS, most=1)
    assert result.findings == []
    assert result.trials == 1


def test_every_public_callable_is_hunted():
    """A new public name must be in the catalogue, or among the records that nothing trusts."""
    names = {name.split(".")[0].split(" ")[0] for name in catalogue.catalogue()}
    public = {*cede.__all__, *cede.encode.__all__, *cede.gym.__all__, *cede.insight.__all__, *cede.worlds.__all__, "check_learner"}
    public -= catalogue.RECORDS | catalogue.NOT_CALLED
    assert public - names == set()


def test_valid_calls_are_valid():
    for name, make in catalogue.catalogue().items():
        try:
            make().run()
        except ValueError as error:  # pragma: no cover
            pytest.fail(f"{name}: {error}")


def test_the_hunt_finds_what_is_broken(tmp_path, monkeypatch):
    """A hunt that cannot find anything proves nothing: break a check, and it is found."""
    broken = "import cede._base.check as check\ncheck.integer = lambda owner, place, value, least, most=None: value\n"
    (tmp_path / "sitecustomize.py").write_text(broken)
    result = hunt("calls", SEED, SECONDS, most=80, environment={"PYTHONPATH": f"{tmp_path}{os.pathsep}{PATHS}"})
    assert len(result.findings) > 3
    crash = "import os, hunt.areas\nhunt.areas.AREAS['calls'] = lambda: lambda rng, note: os.abort()\n"
    (tmp_path / "sitecustomize.py").write_text(crash)
    result = hunt("calls", SEED, SECONDS, most=2, environment={"PYTHONPATH": f"{tmp_path}{os.pathsep}{PATHS}"})
    assert [finding["end"] for finding in result.findings] == ["crash (-6)"] * 2


BOUNDS_CHECKED = """
import sys
import numpy as np
from cede._kernels.compiling import kernel
sys.path.insert(0, {tests!r})
from golden.runs import FILE, RUNS

@kernel
def beyond(array, i):
    return array[i]

try:
    beyond(np.zeros(2), 5)
    sys.exit("bounds are not checked")
except IndexError:
    pass
wanted = np.load(FILE)
for name, run in RUNS.items():
    for key, array in run().items():
        np.testing.assert_allclose(array, wanted[f"{{name}}/{{key}}"], rtol=1e-12, atol=1e-12)
print("all within bounds")
"""


@pytest.mark.slow
def test_kernels_stay_within_their_arrays(tmp_path, pytestconfig):
    """All golden runs, of every learner, with Numba's bounds checks. What was compiled is kept from run to run of the tests."""
    (tmp_path / "run.py").write_text(BOUNDS_CHECKED.format(tests=str(TESTS)))
    kept = pytestconfig.cache.mkdir("bounds-checked-kernels")
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(kept)}
    done = subprocess.run([sys.executable, "run.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "all within bounds", done.stderr[-3000:]


def test_the_page_shows_the_result_file():
    told = json.loads(FILE.read_text())
    assert PAGE.read_text() == with_table(PAGE.read_text(), told)
    assert set(told["areas"]) == set(SHARES) == set(WORDS) == {*AREAS, "guided"}


def test_results_of_trials_repeat():
    """In another process, and by themselves."""
    trial = AREAS["calls"]()
    found = [trial(rng_of(SEED, "calls", number), lambda text: None) for number in range(30, 60)]
    other = hunt("calls", SEED, SECONDS, first=30, most=30)
    assert other.ends == Counter(one.end for one in found)


def test_the_catalogue_is_of_this_version():
    assert Path(cede.__file__).is_relative_to(TESTS.parent / "src")
    assert np.isfinite(cede.expected_cost(catalogue.mdp(), catalogue.plan()))
