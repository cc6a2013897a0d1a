"""Run a fleet in either world with checkpoints, write two tables and a picture."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cede import Checkpoint, Fleet, Learner, TwoLayerMDP, __version__, simulate_fleet
from cede.cli.methods import make_learner
from cede.fleet.engines import Engine, engine_of
from cede.fleet.history import FleetHistory
from cede.fleet.ray import Ray
from cede.learners.learner import MOST_SEED
from cede.worlds.lane_driving import lane_driving_teams
from cede.worlds.riverswim import riverswim_teams
from studies import style
from studies.drawing import legend_above
from studies.figure import Row
from studies.runs.curves import learner_settings, shown_episodes
from studies.tables import load_table, save_table

WORLDS: dict[str, Callable[..., list[TwoLayerMDP]]] = {"riverswim": riverswim_teams, "lane-driving": lane_driving_teams}
QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
COLOUR = "#D55E00"
MANY = 5000  # teams, for which set-up takes some seconds
SAY_EVERY = 30.0  # seconds, where there is no terminal to show a bar in


@dataclass(frozen=True)
class FleetSettings:
    """What the user chose and what decides the result."""

    world: str
    teams: int
    episodes: int
    method: str
    radii: str
    control_cost: float
    switch_cost: float
    learn_machine: bool
    structured: bool
    delta: float
    ways: Mapping[str, Any]
    seed: int


@dataclass(frozen=True, eq=False)
class FleetResult:
    """What the command shows when the run is over."""

    summary: list[tuple[str, str]]  # label and value
    settings: Mapping[str, Any]  # of the run, as in its history
    files: list[Path]  # that were written


def run(
    settings: FleetSettings,
    out: Path,
    where: Mapping[str, Any],
    pace: Mapping[str, int],
    *,
    seconds: float,
    resume: bool,
    say: Callable[[str], None],
) -> FleetResult:
    """Run the fleet, or go on from its checkpoint; then write the tables and the picture into a directory.

    where: engine, address and jobs; pace: sync_every and evaluate_every; seconds: between two checkpoints; say: called with lines
    of text about the progress.
    """
    prepare(out, resume)
    engine = chosen_engine(**where)
    if settings.teams >= MANY:
        say(f"making {settings.teams:,} teams")
    mdps = make_teams(settings)
    learners = make_learners(settings, mdps)
    checkpoint = Checkpoint(out / "checkpoint.npz", seconds=seconds, resume=resume)
    if settings.teams >= MANY:
        say("starting: the best policy of every team is computed first")
    begun = time.perf_counter()
    progress = ProgressLines(settings, say).show if not has_terminal() else True
    how: dict[str, Any] = {**pace, "engine": engine, "checkpoint": checkpoint, "progress": progress}
    history = simulate_fleet(mdps, Fleet(learners), settings.episodes, seed=settings.seed, **how)
    taken = time.perf_counter() - begun
    about = {**asdict(settings), **settings.ways, **pace, **learner_settings(learners[0]), "cede": __version__}
    del about["ways"]
    save_table(out / "curve.csv", curve_rows(history, about))
    save_table(out / "teams.csv", team_rows(history, mdps, about))
    files = [out / "curve.csv", out / "teams.csv", checkpoint.path]
    files += draw(load_table(out / "curve.csv"), load_table(out / "teams.csv"), out / "fleet")
    played = settings.episodes - checkpoint.resumed_at
    return FleetResult(summary(history, played, taken), history.settings, files)


def prepare(out: Path, resume: bool) -> None:
    """Make the output directory; raise ValueError if it has a checkpoint but the user does not resume, or the reverse."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"fleet: out is {str(out)!r}, must be a directory that can be written ({error.strerror})") from error
    there = (out / "checkpoint.npz").exists()
    if there and not resume:
        raise ValueError(f"fleet: out is {str(out)!r}, which holds a run already: --resume it, or choose another directory")
    if resume and not there:
        raise ValueError(f"fleet: out is {str(out)!r}, which holds no checkpoint to resume")


def chosen_engine(engine: str, address: str | None, jobs: int | None) -> Engine:
    """Return the engine by its name; address: of a Ray cluster."""
    if address is not None and engine != "ray":
        raise ValueError(f"fleet: address is {address!r}, must be left out with engine {engine!r}: only ray has one")
    return Ray(jobs, address) if address is not None else engine_of("fleet", engine, jobs)


def make_teams(settings: FleetSettings) -> list[TwoLayerMDP]:
    """Draw the teams of the world at random, by the seed."""
    if settings.world == "riverswim":
        return riverswim_teams(settings.teams, seed=settings.seed, switch_cost=settings.switch_cost)
    costs = {"control_cost": settings.control_cost, "switch_cost": settings.switch_cost}
    return lane_driving_teams(settings.teams, seed=settings.seed, **costs)


def make_learners(settings: FleetSettings, mdps: list[TwoLayerMDP]) -> list[Learner]:
    """Make a learner for each team, with a seed of its own."""
    s = settings
    known = ["machine"] if s.world == "lane-driving" and not s.learn_machine else []
    seeds = [(s.seed + 7919 * i) % MOST_SEED for i in range(len(mdps))]
    told: dict[str, Any] = {"known": known, "structured": s.structured, **s.ways}
    chosen = (s.method, s.delta, s.radii, s.episodes)
    return [make_learner(mdp, *chosen, seed, **told) for mdp, seed in zip(mdps, seeds, strict=True)]


def has_terminal() -> bool:
    """Return whether a progress bar can be shown."""
    return sys.stderr.isatty()


class ProgressLines:
    """Reports progress as lines of text, where there is no terminal."""

    def __init__(self, settings: FleetSettings, say: Callable[[str], None]) -> None:
        self.settings, self.say = settings, say
        self.begun = self.last = time.monotonic()
        self.first: int | None = None  # episodes done before, by an earlier run

    def show(self, done: int) -> None:
        """Say how many episodes are done and how long the rest will take, every SAY_EVERY seconds."""
        now = time.monotonic()
        if self.first is None:
            self.first = max(0, done - 1)
        if now - self.last < SAY_EVERY or done == self.first:
            return
        self.last = now
        each = (now - self.begun) / (done - self.first)
        left = each * (self.settings.episodes - done)
        speed = self.settings.teams / each
        self.say(f"  {done}/{self.settings.episodes} episodes, {speed:,.0f} team-episodes/s, about {left / 60:.1f} min left")


# ------------------------------------------------------------------------------------------------- tables and picture


def curve_rows(history: FleetHistory, about: Row) -> list[Row]:
    """Return rows of the total regret over episodes, with quantiles of the regret of single teams. about: columns of all rows."""
    each = np.cumsum(history.expected_cost - history.optimum[:, None], axis=1)  # (teams, episodes) regret of each team
    rows = []
    for k in shown_episodes(len(history.regret)):
        spread = dict(zip(QUANTILES, np.quantile(each[:, k - 1], list(QUANTILES.values())).tolist(), strict=True))
        rows.append({**about, "episode": k, "regret": float(history.regret[k - 1]), **spread})
    return rows


def team_rows(history: FleetHistory, mdps: list[TwoLayerMDP], about: Row) -> list[Row]:
    """Return one row for each team: its agents, its regret, and who was in control in the last tenth of the episodes."""
    tail = slice(-max(1, history.cost.shape[1] // 10), None)
    rows = []
    for i, mdp in enumerate(mdps):
        steps = history.control[i, tail, : mdp.team.n_agents].sum(axis=0)
        rows.append(
            {
                "team": i,
                "agents": "; ".join(mdp.task.members),
                "optimum": float(history.optimum[i]),
                "regret": float(history.team_regret[i]),
                "last_regret": float((history.expected_cost[i, tail] - history.optimum[i]).mean()),
                "control": "; ".join(f"{share:.3f}" for share in steps / steps.sum()),
                "switches": float(history.switches[i, tail].mean()),
                "cede": about["cede"],
                "seed": about["seed"],
            }
        )
    return rows


def summary(history: FleetHistory, played: int, seconds: float) -> list[tuple[str, str]]:
    """Return labels and values to show. played: episodes that this run played, without those that a checkpoint held already."""
    n, episodes = history.cost.shape
    tail = slice(-max(1, episodes // 10), None)
    lost = history.expected_cost - history.optimum[:, None]
    low, middle, high = np.quantile(history.team_regret, [0.05, 0.5, 0.95])
    return [
        ("total regret", f"{history.regret[-1]:,.1f}"),
        ("regret of a team: median (5% to 95%)", f"{middle:,.2f} ({low:,.2f} to {high:,.2f})"),
        ("regret per episode, first tenth", f"{lost[:, : max(1, episodes // 10)].mean():.4f}"),
        ("regret per episode, last tenth", f"{lost[:, tail].mean():.4f}"),
        ("cost per episode, last tenth", f"{history.expected_cost[:, tail].mean():.4f}"),
        ("best possible", f"{history.optimum.mean():.4f}"),
        ("team-episodes per second, this run", f"{n * played / seconds:,.0f}"),
    ]


def draw(curve: list[Row], teams: list[Row], path: Path) -> list[Path]:
    """Draw the total regret, the quantiles of the teams' regret over episodes, and a histogram of it at the end; save the picture.

    curve, teams: rows of the two tables; path: without ending. Returns the files.
    """
    picture, panels = style.figure(3, width=style.WIDTH, height=2.6)
    x = [row["episode"] for row in curve]
    panels[0].plot(x, [row["regret"] for row in curve], color=COLOUR, linewidth=1.6)
    panels[0].set_title("all teams")
    panels[0].set_ylabel("total regret")
    for low, high, shade in (("q05", "q95", 0.15), ("q25", "q75", 0.3)):
        label = f"{QUANTILES[low]:.0%} to {QUANTILES[high]:.0%} of the teams"
        lows, highs = [row[low] for row in curve], [row[high] for row in curve]
        panels[1].fill_between(x, lows, highs, color=COLOUR, alpha=shade, linewidth=0, label=label)
    panels[1].plot(x, [row["q50"] for row in curve], color=COLOUR, linewidth=1.6, label="median team")
    panels[1].set_title("each team")
    panels[1].set_ylabel("regret of a team")
    legend_above(picture, panels[1])
    for axes in panels[:2]:
        axes.set_xlabel("episode")
        axes.set_xlim(0, x[-1])
        axes.set_ylim(0, None)
    panels[2].hist([row["regret"] for row in teams], bins=min(40, max(5, len(teams) // 4)), color=COLOUR, alpha=0.7)
    panels[2].set_title(f"after {x[-1]:,} episodes")
    panels[2].set_xlabel("regret of a team")
    panels[2].set_ylabel("teams")
    row = curve[0]
    run = f"{row['world']}, {row['teams']:,} teams, {row['method']}, {row['radii']} radii, seed {row['seed']}."
    more = f"delta = {row['delta']}, costs of control and hand-over {row['control_cost']:g} and {row['switch_cost']:g}, "
    more += f"planning {row['planning']}, replan {row['replan']}, sync_every {row['sync_every']}, cede {row['cede']}."
    style.plain_numbers(picture)
    style.caption(picture, [run, more], "")
    return style.save(picture, path)
