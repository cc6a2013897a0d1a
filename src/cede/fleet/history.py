"""The results of a run: per episode and team, what it cost, who was in control, and how often control was handed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check, run_picture
from cede._base.arrays import Floats, Ints
from cede._base.columns import data_frame, save_columns
from cede._base.reprs import listed, plural, short_repr
from cede.problem.model import TwoLayerMDP


@dataclass(frozen=True, eq=False)
class Ledger:
    """The results of N teams in K episodes: one array for each column."""

    expected_cost: Floats  # (N, K) exact expected cost of each policy
    regret: Floats  # (N, K) exact, of each episode
    cost: Floats  # (N, K) realised cost of each episode
    control: Ints  # (N, K, members of the largest team) steps in which each member acted
    switches: Ints  # (N, K) hand-overs

    @classmethod
    def empty(cls, teams: int, episodes: int, members: int) -> "Ledger":
        """Make a ledger of zeros. members: of the largest team."""
        shape = (teams, episodes)
        counts = {"control": np.zeros((*shape, members), dtype=np.int64), "switches": np.zeros(shape, dtype=np.int64)}
        return cls(expected_cost=np.zeros(shape), regret=np.zeros(shape), cost=np.zeros(shape), **counts)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def enter(self, teams: Ints, episodes: slice, part: "Ledger") -> None:
        """Copy the results of some episodes of some teams, `part`, into the ledger. teams: (n,) indices."""
        for name, column in self.columns.items():
            given = getattr(part, name)
            target = column[:, episodes] if column.ndim == 2 else column[:, episodes, : given.shape[2]]
            target[teams] = given

    def first(self, episodes: int) -> dict[str, NDArray[Any]]:
        """Return the columns of the first episodes, as views, by name."""
        return {name: column[:, :episodes] for name, column in self.columns.items()}


@dataclass(frozen=True, eq=False)
class RunRecord:
    """The results of a run of N teams for K episodes, from which a `History` or a `FleetHistory` is made."""

    ledger: Ledger
    optimum: Floats  # (N,) expected cost of an episode of the best policy; with limits of control, of the best mixture within them

    @classmethod
    def empty(cls, mdps: Sequence[TwoLayerMDP], episodes: int) -> "RunRecord":
        """Make a record without results."""
        return cls(Ledger.empty(len(mdps), episodes, max(mdp.team.n_agents for mdp in mdps)), np.empty(len(mdps)))


@dataclass(frozen=True, eq=False)
class History:
    """The results of a run of one learner for K episodes, with D agents. `simulate` returns it.

    Without a horizon a run consists of K blocks of steps instead, as many as `settings["record_every"]` says. For averages the
    expected cost of a block is that of a step in the long run under the policies in force, and regret counts how much more that is
    than for the best policy, step by step. With a discount the expected cost is that of all that comes from the start on, under the
    policies in force; regret adds up, step by step, how much more the policy in force costs than the best one from where the team
    is.

    What a learner that is not cede's own, and shows no policy, was expected to cost is not known: then regret and expected_cost are
    NaN, and `settings["regret"]` says so.
    """

    regret: Floats  # (K,) cumulative regret after each episode, exact (Eq. 6); NaN if it is not known
    expected_cost: Floats  # (K,) exact expected cost of each episode's policy; NaN if it is not known
    cost: Floats  # (K,) realised cost of each episode
    control: Ints  # (K, D) steps in which each agent of the team acted
    switches: Ints  # (K,) hand-overs in each episode
    optimum: float  # expected cost of the best policy; with limits of control, of the best mixture within them
    agents: tuple[str, ...]  # (D,) names
    settings: Mapping[str, Any]  # what to repeat the run with: learner, radii, scale, delta, seeds, version

    @property
    def realised_regret(self) -> Floats:
        """Return how much more the episodes so far really cost than the best policy is expected to, (K,): regret with the noise of
        what happened, for any learner. Only for tasks with a horizon.
        """
        if "record_every" in self.settings:
            check.fail("History", "realised_regret", "asked for", "asked for where episodes have an end: a task with a horizon")
        return np.cumsum(self.cost - self.optimum)

    @classmethod
    def of(cls, record: RunRecord, agents: tuple[str, ...], settings: Mapping[str, Any]) -> "History":
        """Make the history of a run of one team. agents: names of the members. settings: what to repeat the run with."""
        columns = {name: column[0] for name, column in record.ledger.columns.items()}
        columns["regret"] = np.cumsum(columns["regret"])
        return cls(optimum=float(record.optimum[0]), agents=agents, settings=settings, **columns)

    def _rows(self) -> dict[str, Any]:
        """Return the columns of `to_frame`, by name."""
        names = ("cost", "expected_cost", "regret", "switches")
        columns = {"episode": np.arange(1, len(self.cost) + 1), **{name: getattr(self, name) for name in names}}
        return {**columns, **control_columns(self.control, self.agents), **told_columns(self.settings, len(self.cost))}

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each episode, or block of steps. Needs the extra `data`.

        Columns: episode, cost, expected_cost, regret (cumulative), switches, control[name] for each agent (steps in which it
        acted), and what made it: learner, seed, simulation_seed and the version of cede.
        """
        return data_frame(self._rows())

    def save(self, path: str | Path) -> Path:
        """Write the columns of `to_frame` to a file, completely or not at all, and return its path.

        Its suffix says the format: .csv, .jsonl, or .parquet (needs the extra `data`), which also holds all settings.
        """
        return save_columns("History.save", path, self._rows(), {"settings": texts(self.settings)})

    def plot(self) -> Any:
        """Draw costs, regret, shares of control and hand-overs over the episodes; return the Matplotlib figure.

        Needs the extra `plots`. Save it with `figure.savefig("run.png")`.
        """
        block = self.settings.get("record_every")
        title = f"{self.settings.get('learner', 'run')}, {plural(len(self.cost), 'episode' if block is None else 'block')}"
        counts, label = {"hand-overs": self.switches}, "cost of an episode"
        told: dict[str, Any] = {"regret": self.regret, "optimum": self.optimum, "expected": self.expected_cost}
        if block is not None:  # a block is many steps: what it cost by step
            told |= {"unit": "step", "each": int(block), "optimum": None, "expected": None}
            label = "cost of a step"
        cost = self.cost / (1 if block is None else int(block))
        picture = run_picture.RunPicture(title, cost, self.control, counts, self.agents, cost_label=label, **told)
        return run_picture.draw(picture)

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            unit = "episode" if self.settings.get("record_every") is None else "block"
            return learner_of(self.settings), *in_short(self, unit), shares(self.control[last_tenth(self)], self.agents)

        return short_repr(self, parts)


@dataclass(frozen=True, eq=False)
class FleetHistory:
    """The results of a run of a fleet: N teams, K episodes each. `simulate_fleet` returns it."""

    regret: Floats  # (K,) cumulative over episodes, summed over teams (Eq. 15), exact
    team_regret: Floats  # (N,) total regret of each team
    expected_cost: Floats  # (N, K) exact expected cost of each episode's policy
    cost: Floats  # (N, K) realised cost of each episode
    control: Ints  # (N, K, D of the largest team) steps in which each agent acted
    switches: Ints  # (N, K) hand-overs
    optimum: Floats  # (N,) expected cost of the best policy, as in `History`
    settings: Mapping[str, Any]  # of the first learner, with the number of teams and the seed

    @classmethod
    def of(cls, record: RunRecord, settings: Mapping[str, Any]) -> "FleetHistory":
        """Make the history of a run of a fleet. settings: what to repeat the run with."""
        columns, regret = dict(record.ledger.columns), record.ledger.regret
        columns |= {"regret": np.cumsum(regret.sum(axis=0)), "team_regret": regret.sum(axis=1)}
        return cls(optimum=record.optimum, settings=settings, **columns)

    def _rows(self) -> dict[str, Any]:
        """Return the columns of `to_frame`, by name."""
        teams, episodes = self.cost.shape
        columns = {"team": np.repeat(np.arange(teams), episodes), "episode": np.tile(np.arange(1, episodes + 1), teams)}
        columns |= {name: getattr(self, name).ravel() for name in ("cost", "expected_cost", "switches")}
        members = self.control.shape[2]
        control = control_columns(self.control.reshape(-1, members), range(members))
        fleet = {"fleet_regret": np.tile(self.regret, teams)}
        return {**columns, **control, **fleet, **told_columns(self.settings, teams * episodes)}

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each team and episode. Needs the extra `data`.

        Columns: team (from 0), episode, cost, expected_cost, switches, control[0], control[1], ... (steps in which each member
        acted), fleet_regret (cumulative, of all teams together, after that episode), and what made it: learner, seed and version.
        """
        return data_frame(self._rows())

    def save(self, path: str | Path) -> Path:
        """Write the columns of `to_frame` to a file, completely or not at all, and return its path.

        Its suffix says the format: .csv, .jsonl, or .parquet (needs the extra `data`), which also holds all settings.
        """
        return save_columns("FleetHistory.save", path, self._rows(), {"settings": texts(self.settings)})

    def plot(self) -> Any:
        """Draw costs and hand-overs (means of all teams), the fleet's regret and shares of control; return the Matplotlib figure.

        Needs the extra `plots`. Members of all teams are drawn by their place in the team.
        """
        teams, episodes = self.cost.shape
        title = f"{plural(teams, 'team')}, {plural(episodes, 'episode')} each"
        names = [f"member {i}" for i in range(self.control.shape[2])]
        told: dict[str, Any] = {"expected": self.expected_cost.mean(axis=0), "optimum": float(np.mean(self.optimum))}
        counts = {"hand-overs": self.switches.mean(axis=0)}
        label = "cost, mean of teams"
        cost, control = self.cost.mean(axis=0), self.control.sum(axis=0)
        return run_picture.draw(
            run_picture.RunPicture(title, cost, control, counts, names, regret=self.regret, cost_label=label, **told)
        )

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            control = self.control.sum(axis=0)[last_tenth(self)]
            held = shares(control, [f"member {i}" for i in range(control.shape[1])])
            return learner_of(self.settings), plural(len(self.cost), "team"), *in_short(self, "episode"), held

        return short_repr(self, parts)


# ------------------------------------------------------------------------------------------------- what histories have in common


def control_columns(control: Ints, names: Sequence[Any]) -> dict[str, Ints]:
    """Return a column for each member: in how many steps it acted. control: (rows, D)."""
    return {f"control[{name}]": control[:, i] for i, name in enumerate(names)}


def told_columns(settings: Mapping[str, Any], n: int) -> dict[str, list[Any]]:
    """Return columns that say what made a run, the same in each of n rows: learner, seeds and version."""
    names = ("learner", "seed", "simulation_seed", "environment_seed", "cede")
    return {name: [settings[name]] * n for name in names if settings.get(name) is not None}


def texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as texts by name."""
    return {str(name): str(value) for name, value in settings.items()}


def learner_of(settings: Mapping[str, Any]) -> str | None:
    """Return the name of the learner of a run, for a repr."""
    return None if "learner" not in settings else check.printable(settings["learner"])[:60]


def last_tenth(history: Any) -> slice:
    """Return the last tenth of the episodes of a run: what reprs tell of."""
    n = history.cost.shape[-1]
    return slice(n - max(1, n // 10), n)


def in_short(history: Any, unit: str) -> tuple[str | None, ...]:
    """Return what a repr says of a run: how long it was, its regret, and what the last tenth of it cost."""
    tail, regret = history.cost[..., last_tenth(history)], getattr(history, "regret", None)
    told = None
    if regret is not None and len(regret):
        told = f"total regret {regret[-1]:.4g}" if np.isfinite(regret[-1]) else "regret not known"
    return plural(history.cost.shape[-1], unit), told, f"in the last tenth: cost {tail.mean():.4g}" if tail.size else None


def shares(control: Ints, names: Sequence[str]) -> str:
    """Return what a repr says of control: the share of each member. control: (rows, D)."""
    total = max(int(control.sum()), 1)
    parts = [f"{name} {share / total:.0%}" for name, share in zip(names, control.sum(axis=0).tolist(), strict=True)]
    return f"control: {listed(parts)}"
