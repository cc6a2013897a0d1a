"""A plugin of pytest that writes down which lines of the source each test runs, and how long it takes a processor."""

import json
import os
import sys
import threading
from pathlib import Path

import pytest

EVENTS = 30_000  # lines that a test is followed for; then functions


class Reach:
    """Records lines while tests run. What a module, or a fixture that tests share, runs belongs to all tests of the file."""

    def __init__(self, source, out):
        self.source, self.out = str(source) + "/", Path(out)
        self.now = self.common = set()
        self.tests, self.seconds, self.failed = {}, {}, set()
        self.seen, self.events = set(), 0

    def trace(self, frame, event, argument):
        """Python calls it when a function begins."""
        code = frame.f_code
        if not code.co_filename.startswith(self.source):
            return None
        if self.events < EVENTS:
            return self.line
        self.whole(code)
        return None

    def line(self, frame, event, argument):
        if event == "line":
            self.now.add((frame.f_code.co_filename, frame.f_lineno))
            self.events += 1
            if self.events >= EVENTS:
                self.whole(frame.f_code)
                frame.f_trace = None
                return None
        return self.line

    def whole(self, code):
        """Take all lines of a function for run: a test that runs for long would take far longer line by line."""
        if code not in self.seen:
            self.seen.add(code)
            self.now |= {(code.co_filename, line) for _, _, line in code.co_lines() if line is not None}

    def pytest_sessionstart(self):
        threading.settrace(self.trace)
        sys.settrace(self.trace)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.now, self.seen, self.events = self.tests.setdefault(item.nodeid, set()), set(), 0
        begun = sum(os.times()[:4])
        sys.settrace(self.trace)
        result = yield
        self.seconds[item.nodeid] = sum(os.times()[:4]) - begun
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
