"""The demo: a page that tells its own numbers, with core and plots alone."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cede.cli import app, demo

# Packages of other extras: the demo must not need them.
WITHOUT = ["ray", "gymnasium", "minigrid", "pandas", "pyarrow", "sklearn", "fastapi", "uvicorn", "sqlalchemy", "httpx2", "studies"]
BLOCKED = f"""
import sys
for name in {WITHOUT}:
    sys.modules[name] = None
from cede.cli import app
app(["demo", "--out", sys.argv[1]])
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The demo in a process of its own, away from the repository; returns what it said, and its directory."""
    out = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-c", BLOCKED, str(out / "page")]
    options = {"capture_output": True, "text": True, "cwd": out, "start_new_session": True}  # a run of its own
    return subprocess.run(command, check=True, **options), out / "page"


@pytest.mark.slow
def test_the_demo_needs_core_and_plots_alone(run):
    said, out = run
    assert said.stderr.count("compiling for this machine") <= 1  # none where its kernels are compiled already
    assert [line[:4] for line in said.stdout.splitlines()] == ["1/3 ", "2/3 ", "3/3 ", "page"]
    assert sorted(path.name for path in out.iterdir()) == ["car.png", "desk.png", "index.html", "newcomer.png"]


@pytest.mark.slow
def test_the_page_holds_its_pictures_and_the_numbers_of_the_run(run):
    text = (run[1] / "index.html").read_text()
    assert text.count('src="data:image/png;base64,') == 3
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    assert "takes over" in text
    together, best = map(float, re.search(r"it costs ([\d.]+) after .*? best possible is ([\d.]+)\.", text).groups())
    assert best <= together < 1.1 * best
    alone, welcomed = map(float, re.search(r"costs ([\d.]+) in the mean without .*? and ([\d.]+) with", text).groups())
    assert welcomed < alone


def test_names_on_the_page_are_data():
    story = demo.Story("<b>", "<i>", Path(__file__), "a & b", "<script>")
    text = demo.section(story)
    assert "<b>" not in text
    assert "<i>" not in text
    assert "<script>" not in text
    assert "a &amp; b" in text


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file" / "page")])
    assert result.exit_code == 2
    assert "Traceback" not in result.output
