"""Describing a problem is light: it loads neither Numba nor compiled code."""

import subprocess
import sys

import pytest

from cede._kernels import problem as model
from cede.problem import layout


def loaded(code: str) -> set[str]:
    """Run code in a new process; return the modules that it has loaded at its end."""
    whole = f"{code}\nimport sys; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", whole], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("name", ["Environment", "Agent", "Team", "TwoLayerMDP", "Task", "Structure", "Outcomes"])
def test_problems_load_no_numba(name):
    modules = loaded(f"import cede; cede.{name}")
    assert "numpy" in modules
    compiled = {name for name in modules if name.startswith("cede._kernels.")} - {"cede._kernels.account"}  # plain functions
    assert not ({"numba", "cede.planning", "cede.learners"} & modules) | compiled


def test_the_codes_of_what_a_policy_varies_with_are_those_of_the_kernels():
    for name in ("CONSTANT", "BY_TIME", "BY_PREV_AGENT"):
        assert getattr(layout, name) == getattr(model, name), name
    assert sorted(layout.KIND.values()) == [layout.CONSTANT, layout.BY_TIME, layout.BY_PREV_AGENT]
