"""Kernels without Numba's private names: the same bits. `make audit` does all golden runs with them."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cede
from cede._kernels import backend

SOURCE = Path(cede.__file__).parent
TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "numba.md"
PRIVATE = SOURCE / "_kernels" / "numba_private.py"

GOLDEN = """
from _kernels.test_compiling import test_bundles_check_what_is_put_in, test_kernels_read_and_write_bundles
from cede._kernels.backend import backend
from test_golden import test_runs_give_the_same_bits

assert backend.NAME == "plain"
test_kernels_read_and_write_bundles()
test_bundles_check_what_is_put_in()
test_runs_give_the_same_bits("limits_solved")
"""


@pytest.mark.slow
def test_what_is_golden_has_the_same_bits():
    """Bundles, units and the planner; learners, whose kernels take minutes to compile in this way, are for `make audit`."""
    path = os.pathsep.join((str(TESTS), str(SOURCE.parent)))
    env = {**os.environ, "CEDE_PLAIN_NUMBA": "1", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", GOLDEN], env=env, check=False, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr


def test_numba_must_compile(monkeypatch):
    monkeypatch.setenv("CEDE_PLAIN_NUMBA", "1")
    monkeypatch.setattr(backend.config, "DISABLE_JIT", 1)
    with pytest.raises(RuntimeError, match="NUMBA_DISABLE_JIT is set, must not be set without Numba's private names"):
        backend.chosen()


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        ("import numba.core.caching as module; del module.FunctionCache", "cannot import name 'FunctionCache'"),
        ("import numba.core.cpu as module; module.CPUTargetOptions = object", "njit has no option _nrt"),
        (
            "from numba.core.datamodel.models import ArrayModel as model; old = model.__init__\n"
            "def new(self, *given): old(self, *given); self._fields = self._fields[::-1]\n"
            "model.__init__ = new",
            "arrays have another layout",
        ),
    ],
)
def test_a_version_that_does_not_fit_is_used_without_private_names(harm, reason):
    code = f"import numba\n{harm}\nfrom cede._kernels.backend import backend\nprint(backend.NAME)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "plain\n"), done.stderr
    assert "lacks what cede needs" in done.stderr
    assert reason in done.stderr


def imported_from_numba(path):
    """Return the modules and names that a file imports from Numba and llvmlite, as (module, name)."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
    return {(module, name) for module, name in found if module.split(".")[0] in ("numba", "llvmlite")}


def test_private_names_are_in_one_file_and_on_the_page():
    public = {("numba", ""), ("numba", "types"), ("numba", "carray"), ("numba", "from_dtype"), ("llvmlite", "ir")}
    for path in SOURCE.rglob("*.py"):
        private = {(module, name) for module, name in imported_from_numba(path) - public if module != "numba.extending"}
        assert path == PRIVATE or not private, path
    page = PAGE.read_text()
    for module, name in imported_from_numba(PRIVATE) - public:
        if module != "numba.extending":
            assert f"`{module}.{name}`".replace(".`", "`") in page, (module, name)
