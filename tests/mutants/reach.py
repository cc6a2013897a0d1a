"""A plugin of pytest that writes down which lines of the source each test runs, and how long it takes."""

import json
import sys
import threading
import time
from pathlib import Path

import pytest


class Reach:
    """Records lines while tests run. What a module, or a fixture that several tests share, runs belongs to all tests of the file."""

    def __init__(self, source, out):
        self.source, self.out = str(source) + "/", Path(out)
        self.now = self.common = set()
        self.tests, self.seconds, self.failed = {}, {}, set()

    def trace(self, frame, event, argument):
        """Python calls it when a function begins."""
        return self.line if frame.f_code.co_filename.startswith(self.source) else None

    def line(self, frame, event, argument):
        if event == "line":
            self.now.add((frame.f_code.co_filename, frame.f_lineno))
        return self.line

    def pytest_sessionstart(self):
        threading.settrace(self.trace)
        sys.settrace(self.trace)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.now = self.tests[item.nodeid] = set()
        begun = time.monotonic()
        sys.settrace(self.trace)
        result = yield
        self.seconds[item.nodeid] = time.monotonic() - begun
        self.now = self.common
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        before = self.now
        if fixturedef.scope != "function":
            self.now = self.common
        try:
            return (yield)
        finally:
            self.now = before

    def pytest_runtest_logreport(self, report):
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self):
        sys.settrace(None)
        threading.settrace(None)
        names = [name for name in self.tests if name not in self.failed]
        lines = {}
        for number, name in enumerate(names):
            for file, line in self.tests[name] | self.common:
                lines.setdefault(file.removeprefix(self.source), {}).setdefault(line, []).append(number)
        told = {"tests": {name: round(self.seconds[name], 3) for name in names}, "lines": lines, "left out": sorted(self.failed)}
        self.out.write_text(json.dumps(told))
