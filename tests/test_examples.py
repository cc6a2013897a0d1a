"""Every example runs, in a small version, and makes its picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = {
    "frozen_lake": ["--episodes", "60"],
    "cart_pole": ["--episodes", "10", "--training", "600"],
    "support_desk": ["--episodes", "200"],
    "against_sb3": ["--steps", "1000"],
    "third_model": ["--episodes", "120", "--repeats", "1"],
    "agent_sessions": ["--sessions", "60", "--repeats", "1"],
    "routing": ["--episodes", "60", "--repeats", "1"],
}
SERVICE = "service_desk"  # makes no picture


def test_all_examples_are_tried():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SMALL, SERVICE}


def test_service(tmp_path):
    command = [sys.executable, str(EXAMPLES / f"{SERVICE}.py"), "--tickets", "5", "--desks", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "10 tickets counted" in done.stdout
    assert done.stdout.count("a nasty ticket: ") == 2


@pytest.mark.parametrize("name", SMALL)
def test_example(name, tmp_path):
    out = tmp_path / "picture.png"
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *SMALL[name], "--out", str(out)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MPLBACKEND": "Agg"}, check=False
    )
    assert done.returncode == 0, done.stderr
    said = ("alone:", "no cap:", "begins anew:", "cents a session")
    assert any(words in done.stdout for words in said)  # each says in words what the picture shows
    assert out.read_bytes()[:4] == b"\x89PNG"
