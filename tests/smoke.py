"""What must work where only the wheel is installed, away from the repository: `make dist` runs this there."""

import asyncio
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import cede

assert Path(cede.__file__).is_relative_to(sys.prefix), cede.__file__
assert (Path(cede.__file__).parent / "py.typed").exists()
core = sorted(line.split(">")[0] for line in requires("cede") if "extra ==" not in line)
assert core == ["numba", "numpy", "rich", "scipy", "typer"], core

mdp = cede.worlds.riverswim([0.3, 0.7])
assert abs(cede.expected_cost(mdp, cede.solve(mdp).policy) - 19.6497) < 1e-4
learner = cede.ucrl2_mc(mdp.task)
for seed in range(20):  # by hand: a whole simulation would compile more than it would show
    learner.observe_episode(cede.rollout(mdp, learner.plan, seed))
    learner.end_episode()
learner.save("smoke.cede")
assert cede.load("smoke.cede").episode == 21
assert "takes over" in str(cede.explain(learner, 0, 0, 0)) or "stays" in str(cede.explain(learner, 0, 0, 0))


def asks_for(extra, use):
    """Is a missing extra answered with the command that brings it?"""
    try:
        use()
    except ImportError as error:
        return f'pip install "cede[{extra}]"' in str(error)
    return False


assert asks_for("plots", lambda: cede.insight.summarise(learner).draw("smoke.png"))
assert asks_for("gym", lambda: cede.gym.run)
assert asks_for("client", lambda: cede.Client("http://localhost:8000", "x").ask("GET", "/livez"))
assert asks_for("client", lambda: asyncio.run(cede.AsyncClient("http://localhost:8000", "x").ask("GET", "/livez")))
assert asks_for("ray", lambda: cede.simulate_fleet([mdp], cede.Fleet([cede.ucrl2_mc(mdp.task)]), 2, engine="ray"))
told = subprocess.run([Path(sys.prefix) / "bin" / "cede", "--version"], capture_output=True, text=True, check=True).stdout
assert told.strip() == f"cede {cede.__version__}", told
print(f"cede {cede.__version__} works as installed, with Python {sys.version.split()[0]}")
