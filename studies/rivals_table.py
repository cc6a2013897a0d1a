"""PPO and DQN of Stable-Baselines3 in every world of the league: exact costs of their policies while they learn.

    pip install "cede[plots,worlds,sb3]"
    python -m studies.rivals_table --steps 20000 --seeds 3 --out studies/results/rivals.csv

Each line of the table is one look at one run. A run that is in the table already is not repeated, so a long measurement can be
stopped and taken up again. `python -m studies figure league` puts the table beside cede's own learners.
"""

import argparse
import csv
import time
from pathlib import Path

from rich.progress import track

from cede import __version__
from studies.runs.league_worlds import WORLDS
from studies.runs.rivals import rival_curve

RIVALS = {"PPO, sees the time": ("PPO", True), "PPO": ("PPO", False), "DQN": ("DQN", False)}
COLUMNS = ("world", "rival", "seed", "budget", "steps", "cost", "seconds", "cede")


def main(steps: int, seeds: int, out: Path) -> None:
    """Run all rivals that are not in the table yet. steps: of each run; seeds: how many runs of each; out: the table."""
    done = set()
    if out.exists():
        with out.open(newline="") as file:
            done = {(row["world"], row["rival"], int(row["seed"]), int(row["budget"])) for row in csv.DictReader(file)}
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(",".join(COLUMNS) + "\n")
    runs = [(world, rival, seed) for seed in range(seeds) for world in WORLDS for rival in RIVALS]
    for world, rival, seed in track([run for run in runs if (*run, steps) not in done], "rivals"):
        begun = time.process_time()
        method, sees_time = RIVALS[rival]
        curve = rival_curve(WORLDS[world](), method, steps, seed, sees_time)
        seconds = round(time.process_time() - begun, 1)
        with out.open("a", newline="") as file:
            for at, cost in zip(curve.steps.tolist(), curve.cost.tolist(), strict=True):
                csv.writer(file).writerow((world, rival, seed, steps, at, cost, seconds, __version__))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=20_000, help="steps in the environment that a rival may take")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("studies/results/rivals.csv"))
    main(**vars(parser.parse_args()))
