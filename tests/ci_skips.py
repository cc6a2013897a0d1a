"""In CI every test runs: one that is skipped fails, unless the reason is listed here.

CI is where the environment variable CI is set, as .ci/run does. Elsewhere a missing program or package skips its tests.
"""

import os
import re

import pytest

LISTED = {  # regular expressions of reasons, each with the words why nothing can be done about it
    r"could not import 'stable_baselines3'": "needs torch, which weighs gigabytes: run by hand, see CONTRIBUTING.md",
    r"Chromium is not installed": ".ci/run installs it; a machine on which it may not cannot run a browser",
    r"PostgreSQL is not installed": ".ci/run installs it; a machine on which it may not has no second database",
    r"names of x86 processors": "another processor",
}


def is_ci():
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def checked(report):
    """Let a report of a skipped test or module fail, in CI, if its reason is not listed."""
    if is_ci() and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not any(re.search(pattern, reason) for pattern in LISTED):
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid}: skipped in CI ({reason}), must run, or its reason must be listed in {__name__}.py"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    return checked((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(collector):
    return checked((yield))
