"""A test that CI skips without a listed reason fails, in any of the ways to skip one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from long_files import LONG_FILES, ROOT, pytest_collection_modifyitems

TESTS = {
    "test_runs.py": "def test_it(): pass",
    "test_inside.py": "import pytest\ndef test_it(): pytest.skip('no reason')",
    "test_mark.py": "import pytest\n@pytest.mark.skip(reason='no reason')\ndef test_it(): pass",
    "test_fixture.py": "import pytest\n@pytest.fixture\ndef it(): pytest.skip('no reason')\ndef test_it(it): pass",
    "test_import.py": "import pytest\npytest.importorskip('no_such_second_opinion')\ndef test_it(): pass",
    "test_listed.py": "import pytest\ndef test_it(): pytest.skip('Chromium is not installed: apt-get ...')",
    "test_expected.py": "import pytest\n@pytest.mark.xfail(reason='known')\ndef test_it(): assert False",
}
UNLISTED = ["test_fixture.py", "test_import.py", "test_inside.py", "test_mark.py"]


@pytest.mark.parametrize("more", [[], ["-p", "xdist", "-n", "2"]])
@pytest.mark.parametrize(("ci", "failing"), [("true", UNLISTED), ("", []), ("0", [])])
def test_what_is_skipped_without_a_listed_reason_fails_in_ci(tmp_path, more, ci, failing):
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "conftest.py").write_text("from ci_skips import *")
    environment = {
        **os.environ,
        "CI": ci,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # they take seconds to import
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--continue-on-collection-errors", "-rfE", *more, "."]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    assert sorted({line.split()[1].split("::")[0] for line in found}) == failing, done.stdout + done.stderr
    assert done.returncode == (1 if failing else 0)
    assert all("must run, or its reason must be listed in ci_skips.py" in done.stdout for _ in failing)


def test_long_files_exist_and_come_first():
    """A file that was moved keeps its place in the list only under its new name."""
    for name in LONG_FILES:
        assert (ROOT / name).is_file(), name

    class Item:
        def __init__(self, name):
            self.path = ROOT / name

    items = [Item("tests/a.py"), Item(LONG_FILES[1]), Item("tests/b.py"), Item(LONG_FILES[0]), Item(LONG_FILES[1])]
    first, *_, last = items
    pytest_collection_modifyitems(items)
    assert [item.path for item in items] == [ROOT / LONG_FILES[i] for i in (0, 1, 1)] + [first.path, ROOT / "tests/b.py"]
    assert items[2] is last
