"""The results of a run: costs, control and hand-overs per episode and team."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cede._base import check, run_picture
from cede._base.arrays import Floats, Ints
from cede._base.columns import data_frame, save_columns
from cede._base.reprs import listed, plural, short_repr
from cede._base.run_picture import RunPicture
from cede.problem.model import TwoLayerMDP

MADE_BY = ("learner", "seed", "simulation_seed", "environment_seed", "cede")  # settings that are columns of a data frame


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
        return dict(vars(self))

    def enter(self, teams: Ints, episodes: slice, part: "Ledger") -> None:
        """Copy the results of some episodes of some teams, `part`, into the ledger. teams: (n,) indices."""
        for name, column in self.columns.items():
            entries = getattr(part, name)
            target = column[:, episodes] if column.ndim == 2 else column[:, episodes, : entries.shape[2]]
            target[teams] = entries

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


@dataclass(frozen=True, eq=False, kw_only=True)
class RunHistory:
    """The common part of all histories: columns, data frame, file, picture and repr. K episodes, D members."""

    COLUMNS: ClassVar[tuple[str, ...]]  # of `to_frame`, besides the episode, control and settings
    COST_LABEL: ClassVar[str] = "cost of an episode"

    cost: Floats  # (K,) realised cost of each episode
    control: Ints  # (K, D) steps in which each member acted
    switches: Ints  # (K,) hand-overs in each episode
    agents: tuple[str, ...]  # (D,) names of the members
    settings: Mapping[str, Any]  # to repeat the run: learner, radii, scale, delta, seeds, version

    @property
    def lengths(self) -> Ints:
        """Return the number of steps of each episode, (K,); of a fleet (N, K). Fewer than the horizon: it ended earlier."""
        steps: Ints = self.control.sum(axis=-1)
        return steps

    @property
    def _length(self) -> str:
        """Return the length of the run, in words."""
        return plural(self.cost.shape[-1], "episode" if self.settings.get("record_every") is None else "block")

    @property
    def _name(self) -> str:
        """Return the name of the environment or the learner."""
        return str(self.settings.get("environment", self.settings.get("learner", "run")))

    def _rows(self) -> dict[str, Any]:
        """Return the columns of `to_frame`, by name."""
        columns: dict[str, Any] = {"episode": np.arange(1, len(self.cost) + 1)}
        columns |= {name: getattr(self, name) for name in self.COLUMNS}
        columns |= {f"control[{name}]": self.control[:, i] for i, name in enumerate(self.agents)}
        return {**columns, **self._made_by()}

    def _made_by(self) -> dict[str, Any]:
        """Return the columns MADE_BY, the same in each row."""
        return {name: [self.settings[name]] * self.cost.size for name in MADE_BY if self.settings.get(name) is not None}

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each episode, or block of steps; of a fleet, for each team and episode.

        Columns: the episode, the fields of this class, control[name] for each member (steps in which it acted; of a fleet by the
        index in the team), and learner, seeds and version of cede. Needs the extra `data`.
        """
        return data_frame(self._rows())

    def save(self, path: str | Path) -> Path:
        """Write the columns of `to_frame` to a file, completely or not at all, and return its path.

        Its suffix says the format: .csv, .jsonl, or .parquet (needs the extra `data`), which also holds all settings.
        """
        settings = {str(name): str(value) for name, value in self.settings.items()}
        return save_columns(f"{type(self).__name__}.save", path, self._rows(), {"settings": settings})

    def _picture(self) -> dict[str, Any]:
        """Return further fields of the `RunPicture`."""
        return {}

    def plot(self) -> Any:
        """Draw costs, regret if it is known, shares of control and hand-overs over the episodes; return the Matplotlib figure.

        For a fleet, means over all teams are drawn, and members are named by their index in the team. Needs the extra `plots`. Save
        the figure with `figure.savefig("run.png")`.
        """
        cost, control, switches = self.cost, self.control, self.switches
        if cost.ndim == 2:
            cost, control, switches = cost.mean(axis=0), control.sum(axis=0), switches.mean(axis=0)
        more = {"cost": cost, "cost_label": self.COST_LABEL, **self._picture()}
        title, counts = f"{self._name}, {self._length}", {"hand-overs": switches}
        return run_picture.draw(RunPicture(title=title, control=control, counts=counts, agents=self.agents, **more))

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            n, regret, known = self.cost.shape[-1], getattr(self, "regret", None), None
            tail = slice(n - max(1, n // 10), n)
            if regret is not None and len(regret):
                known = f"total regret {regret[-1]:.4g}" if np.isfinite(regret[-1]) else "regret not known"
            cost = f"in the last tenth: cost {self.cost[..., tail].mean():.4g}" if n else None
            control = self.control[..., tail, :].reshape(-1, self.control.shape[-1]).sum(axis=0)
            total = max(int(control.sum()), 1)
            shares = [f"{name} {share / total:.0%}" for name, share in zip(self.agents, control.tolist(), strict=True)]
            return check.printable(self._name)[:60], self._length, known, cost, f"control: {listed(shares)}"

        return short_repr(self, parts)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class History(RunHistory):
    """The results of a run of one learner for K episodes, with D agents. `simulate` returns it.

    Without a horizon a run consists of K blocks of `settings["record_every"]` steps instead. For averages, the expected cost of a
    block is the long-run cost per step of the current policies, and regret is the sum over steps of its difference to the best
    policy. With a discount, the expected cost is the discounted cost of the current policies from the start, and regret is the sum
    over steps of the difference between the current and the best policy from the team's state on.

    The expected cost of a learner that is not cede's own, and has no `plan` or `policy`, is not known: then regret and
    expected_cost are NaN, and `settings["regret"]` says so.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("cost", "expected_cost", "regret", "switches", "lengths")

    regret: Floats  # (K,) cumulative regret after each episode, exact (Eq. 6); NaN if it is not known
    expected_cost: Floats  # (K,) exact expected cost of each episode's policy; NaN if it is not known
    optimum: float  # expected cost of the best policy; with limits of control, of the best mixture within them

    @classmethod
    def of(cls, record: RunRecord, agents: tuple[str, ...], settings: Mapping[str, Any], team: int = 0) -> "History":
        """Make the history of one team of a run. agents: names of the members. settings: what to repeat the run with."""
        columns = {name: column[team] for name, column in record.ledger.columns.items()}
        columns |= {"regret": np.cumsum(columns["regret"]), "control": columns["control"][:, : len(agents)]}
        return cls(optimum=float(record.optimum[team]), agents=agents, settings=settings, **columns)

    @property
    def realised_regret(self) -> Floats:
        """Return the difference between the realised cost so far and the expected cost of the best policy, (K,).

        It is regret with sampling noise, and is known for any learner. Only for tasks with a horizon.
        """
        if "record_every" in self.settings:
            check.fail("History", "realised_regret", "asked for", "asked for where episodes have an end: a task with a horizon")
        return np.cumsum(self.cost - self.optimum)

    def _picture(self) -> dict[str, Any]:
        block = self.settings.get("record_every")
        if block is None:
            return {"regret": self.regret, "optimum": self.optimum, "expected": self.expected_cost}
        per_step = {"cost": self.cost / int(block), "cost_label": "cost of a step", "unit": "step", "each": int(block)}
        return {"regret": self.regret, **per_step}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FleetHistory(RunHistory):
    """The results of a run of a fleet: N teams, K episodes each. `simulate_fleet` returns it.

    cost and switches are (N, K); control is (N, K, D of the largest team). agents: "member 0", "member 1", ..., by index in the
    team. settings: of the first learner, with the number of teams and the seed.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("cost", "expected_cost", "switches", "lengths")
    COST_LABEL: ClassVar[str] = "cost, mean of teams"

    regret: Floats  # (K,) cumulative over episodes, summed over teams (Eq. 15), exact
    team_regret: Floats  # (N,) total regret of each team
    expected_cost: Floats  # (N, K) exact expected cost of each episode's policy
    optimum: Floats  # (N,) expected cost of the best policy, as in `History`

    @classmethod
    def of(cls, record: RunRecord, settings: Mapping[str, Any]) -> "FleetHistory":
        """Make the history of a run of a fleet. settings: what to repeat the run with."""
        columns, regret = dict(record.ledger.columns), record.ledger.regret
        columns |= {"regret": np.cumsum(regret.sum(axis=0)), "team_regret": regret.sum(axis=1)}
        agents = tuple(f"member {i}" for i in range(record.ledger.control.shape[2]))
        return cls(optimum=record.optimum, settings=settings, agents=agents, **columns)

    @property
    def _length(self) -> str:
        return f"{plural(len(self.cost), 'team')}, {plural(self.cost.shape[1], 'episode')}"

    def _rows(self) -> dict[str, Any]:
        (teams, episodes), control = self.cost.shape, self.control.reshape(-1, self.control.shape[2])
        columns = {"team": np.repeat(np.arange(teams), episodes), "episode": np.tile(np.arange(1, episodes + 1), teams)}
        columns |= {name: getattr(self, name).ravel() for name in self.COLUMNS}
        columns |= {f"control[{i}]": column for i, column in enumerate(control.T)}
        return {**columns, "fleet_regret": np.tile(self.regret, teams), **self._made_by()}

    def _picture(self) -> dict[str, Any]:
        expected, optimum = self.expected_cost.mean(axis=0), float(np.mean(self.optimum))
        return {"regret": self.regret, "expected": expected, "optimum": optimum}
