"""Processes that cannot start others say so."""

import subprocess
import sys

import pytest

SCRIPT = """
import multiprocessing
import cede

def run():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    try:
        cede.simulate_fleet([mdp] * 2, cede.Fleet([cede.ucrl2_mc(mdp.task) for _ in range(2)]), 5, engine="processes", jobs=2)
        print("done")
    except Exception as error:
        print(f"{type(error).__name__}: {error}")

if __name__ == "__main__":
    START
"""
DAEMON = "child = multiprocessing.get_context('fork').Process(target=run, daemon=True); child.start(); child.join()"


@pytest.mark.parametrize(
    ("start", "arguments", "said"),
    [
        ("run()", ["script.py"], "done"),
        ("run()", ["-m", "script"], "done"),
        ("run()", ["-"], "ValueError: engine 'processes': the script is '<stdin>', must be a file that is there"),
        (
            "__import__('os').remove('script.py'); run()",
            ["script.py"],
            "ValueError: engine 'processes': the script is 'script.py', must",
        ),
        (DAEMON, ["script.py"], "ValueError: engine 'processes': this process is daemonic, must be one that may have children"),
    ],
)
def test_who_can_start_processes(tmp_path, start, arguments, said):
    text = SCRIPT.replace("START", start)
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, input=text, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(said), done.stderr
    assert "Traceback" not in done.stderr
