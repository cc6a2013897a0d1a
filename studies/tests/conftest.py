"""Hooks of the tests of the library hold here, too."""

from ci_skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401 (pytest finds its hooks here)
