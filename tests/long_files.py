"""Files that take long come first, so that no worker begins one when the others are nearly done."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LONG_FILES = (  # by the seconds of processor time that they take, the longest first
    "tests/hunt/test_hunt.py",
    "studies/tests/test_experiments.py",
    "tests/test_golden.py",
    "tests/test_examples.py",
    "tests/fleet/test_engines.py",
    "tests/_kernels/test_numba_plain.py",
    "tests/serve/test_page.py",
    "tests/client/test_spool.py",
    "studies/tests/test_pictures.py",
    "tests/comparison/test_compare.py",
    "tests/audit/test_audit.py",
    "tests/test_design.py",
    "tests/insight/test_estimate.py",
    "tests/insight/structure/test_suggest.py",
    "tests/serve/test_plan_workers.py",
    "tests/fleet/test_evaluations.py",
    "tests/_kernels/test_compiling.py",
    "tests/cli/test_demo.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of long files first. The order within a file stays."""
    rank = {ROOT / name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
