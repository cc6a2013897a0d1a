"""The record of a control loop: as columns, as a data frame, as a log to learn from, as a picture.

recorder.py writes records, read_record.py reads them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check, run_picture
from cede._base.arrays import Floats, Ints
from cede._base.columns import data_frame, save_columns
from cede._base.reprs import listed, plural, short_repr
from cede._kernels.account import is_hand_over
from cede.problem.task import Task
from cede.steps.recorded import LATER, PLACE, RUN, Entry, Recorded

SCHEMA = 1  # of the lines
NOT_ASKED = -1  # instead of an agent
LOGGED = ("t", "state", "prev_agent", "agent", "action", "next_state", "cost", "enter_cost")
IF_THERE: dict[str, Any] = {"session": None, "control_cost": np.nan, "switch_cost": np.nan}  # not written where a step has none
BLOCKS = 400  # into which a run without horizon is divided for a picture


@dataclass(frozen=True, eq=False)
class EpisodeTable:
    """Costs, control and hand-overs of each of K recorded episodes, with a team of D members."""

    cost: Floats  # (K,) sum of the costs of its steps, all that the task charges (`Task.step_cost`)
    control: Ints  # (K, D) steps in which each member acted
    switches: Ints  # (K,) hand-overs
    overrides: Ints  # (K,) steps in which the agent in control was not the chosen one
    lengths: Ints  # (K,) steps
    unpriced: Ints  # (K,) impossible hand-overs without a known grab_cost: not in `cost`


def header_of(task: Task) -> dict[str, Any]:
    """Return the first line of a record: sizes and names of the task. Names are data."""
    return {
        "event": "header",
        "kind": "record",
        "schema": SCHEMA,
        "n_states": task.n_states,
        "n_actions": task.n_actions,
        "horizon": task.horizon,
        "agents": list(task.agents),
        "members": list(task.members),
        "acting": task.acting.tolist(),
        "aim": task.layout.aim.tolist(),
        "state_names": None if task.state_names is None else list(task.state_names),
        "action_names": None if task.action_names is None else list(task.action_names),
    }


def is_json(line: bytes) -> bool:
    """Return whether a line is readable JSON, neither damaged nor nested too deeply."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


@dataclass(frozen=True, eq=False)
class Record:
    """The contents of a record file: n steps of K episodes, in one run or in several. `read_record` returns it.

    Episodes are in the order in which they ended: with several sessions at once, those of one session are not together. An episode
    counts as ended if the learner's `end_episode` was recorded. One that was running when the process was killed, or
    that was dropped, did not end.
    """

    path: Path
    header: Mapping[str, Any]  # sizes and names of the task
    runs: tuple[Mapping[str, Any], ...]  # for each time that the file was opened: time, version, settings of the learner
    columns: Mapping[str, NDArray[Any]]  # (n,) each, by name; those in `IF_THERE` only if some step has one
    number: Ints  # (n,) which of the K episodes each step belongs to, from 0; ascending if there is a horizon
    learner_episode: Ints  # (n,) the learner's number of the episode of each step, from 1; without horizon, of the step
    ended: NDArray[np.bool_]  # (K,) whether the end was recorded
    dropped: NDArray[np.bool_]  # (K,) whether it was dropped
    gaps: int  # how often the learner had counted data that are not in the record
    torn: int  # bytes of an incomplete last line, which is left out
    run_of: Ints  # (K,) the run in which each episode happened
    place: Ints  # (K,) its place in that run; without a horizon (n,), that of each step (recorded.py)
    changes: tuple[tuple[int, str], ...] = ()  # (the first episode afterwards, member), where one changed (`agent_changed`)

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the names of the members of the team."""
        return tuple(self.header["members"])

    @property
    def has_horizon(self) -> bool:
        """Return whether the task has a horizon. If not, an episode is a sequence of consecutive steps."""
        return self.header["horizon"] is not None

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.number)

    @property
    def overrides(self) -> NDArray[np.bool_]:
        """Return for each step whether the agent in control was not the chosen one, (n,)."""
        asked = self.columns["asked"]
        result: NDArray[np.bool_] = (asked != NOT_ASKED) & (asked != self.columns["agent"])
        return result

    def episodes(self) -> EpisodeTable:
        """Return costs, control and hand-overs of each episode."""
        return self._table(self.number, len(self.ended))

    def _table(self, number: Ints, n: int) -> EpisodeTable:
        """Return costs, control and hand-overs of each of n groups of steps. number: the group of each step, (steps,)."""
        agent, prev = self.columns["agent"], self.columns["prev_agent"]
        acting, aim = np.array(self.header["acting"], dtype=np.int64), np.array(self.header["aim"], dtype=np.int64)
        members = len(self.agents)
        cost: Floats = np.bincount(number, weights=np.nan_to_num(self.columns["step_cost"]), minlength=n).astype(np.float64)
        return EpisodeTable(
            cost=cost,
            control=np.bincount(number * members + acting[agent], minlength=n * members).reshape(n, members),
            switches=np.bincount(number[is_hand_over(aim, prev, agent)], minlength=n),
            overrides=np.bincount(number[self.overrides], minlength=n),
            lengths=np.bincount(number, minlength=n),
            unpriced=np.bincount(number[self.columns["unpriced"]], minlength=n),
        )

    # ------------------------------------------------------------------------------------------------- as other things

    def log(self, *, unfinished: bool = False) -> dict[str, NDArray[Any]]:
        """Return the steps as columns for `Learner.learn_from`, which also takes the record itself.

        unfinished: whether to include the steps of episodes that never ended, because the process was killed; the learner has not
        counted them. Dropped steps are never included. Without a horizon all steps are included, since each was counted at once.
        Episodes are numbered from 1. Two more columns hold the place of each step in the record, by which a learner skips the steps
        that it has counted.
        """
        chosen = self._counted(check.truth("Record.log", "unfinished", unfinished))
        columns = {name: self.columns[name][chosen] for name in (*LOGGED, *IF_THERE) if name in self.columns}
        place = self.place if not self.has_horizon else self.place[self.number]
        columns |= {RUN: np.array(self._names, dtype=object)[self.columns["run"][chosen]], PLACE: place[chosen]}
        return {"episode": np.unique(self._part[chosen], return_inverse=True)[1] + 1, **columns}

    @cached_property
    def _part(self) -> Ints:
        """Return the number of the episode of each step; without a horizon, of the part of a run whose steps follow one another."""
        return self.number if self.has_horizon else np.cumsum(np.diff(self.number, prepend=self.number[:1]) != 0)

    def _counted(self, unfinished: bool) -> NDArray[np.bool_]:
        """Return for each step whether it is in the log, (n,)."""
        if not self.has_horizon:
            return np.ones(len(self), dtype=np.bool_)
        ended = self.ended | (~self.dropped & unfinished)
        chosen: NDArray[np.bool_] = ended[self.number]
        if unfinished:
            chosen &= ~self._taken_up
        return chosen

    @cached_property
    def _taken_up(self) -> NDArray[np.bool_]:
        """Return for each step whether its unfinished episode was resumed, and so repeated, by a later run, (n,)."""
        result = np.zeros(len(self), dtype=np.bool_)
        again = np.flatnonzero(self.columns["reason"] == "resumed")
        for number in np.unique(self.number[again]):
            here = again[self.number[again] == number]
            earlier = (self.number < number) & ~self.ended[self.number] & ~self.dropped[self.number]
            same = earlier & (self.columns["episode"] == self.columns["episode"][here[0]])
            if "session" in self.columns:
                same &= self.columns["session"] == self.columns["session"][here[0]]
            if same.any():
                last = self.number[same].max()
                result |= (self.number == last) & (self.columns["t"] <= self.columns["t"][here].max())
        return result

    def counted_episodes(self) -> list[tuple[int, slice]]:
        """Return the number, from 0, and the rows of each episode that the learner counted, in order; some have no rows.

        Without a horizon, where each step was counted at once, of each part of a run whose steps follow one another.
        """
        part, n = self._part, len(self.ended)
        if not self.has_horizon:
            first = np.flatnonzero(np.diff(part, prepend=-1)).tolist()
            return [(int(self.number[a]), slice(a, b)) for a, b in pairwise([*first, len(part)])]
        ends = np.searchsorted(part, np.arange(n + 1))
        return [(int(k), slice(int(ends[k]), int(ends[k + 1]))) for k in np.flatnonzero(self.ended)]

    def after(self, learner: Any) -> "Record":
        """Return the part of the record that a learner has not counted: episodes, or steps without a horizon.

        For a learner that was recorded here, saved, and loaded again: `learner.learn_from(record.after(learner))`.
        `learner.recorded` lists the counted places of each record.
        """
        steps = ~self.done_by("Record.after", learner)
        if self.has_horizon:
            episodes, steps = steps, steps[self.number]
        else:
            episodes = np.bincount(self.number[steps], minlength=len(self.ended)) > 0
        return replace(
            self,
            columns={name: column[steps] for name, column in self.columns.items()},
            number=(np.cumsum(episodes) - 1)[self.number[steps]],
            learner_episode=self.learner_episode[steps],
            ended=self.ended[episodes],
            dropped=self.dropped[episodes],
            run_of=self.run_of[episodes],
            place=self.place[episodes if self.has_horizon else steps],
        )

    @property
    def _names(self) -> tuple[str, ...]:
        """Return the name of each run, "RECORD/RUN"; the name of the record is that of its first run."""
        names = [str(run.get("run", i)) for i, run in enumerate(self.runs)]
        return tuple(f"{names[0]}/{name}" for name in names)

    def done_by(self, owner: str, learner: Any) -> NDArray[np.bool_]:
        """Return which episodes a learner has counted or dropped, (K,); without a horizon which steps, (n,)."""
        number = check.integer(owner, "the number of the next episode of learner", getattr(learner, "episode", None), 1)
        recorded = check.instance(owner, "learner.recorded", getattr(learner, "recorded", Recorded(before=number)), Recorded)
        runs, numbers = self.columns["run"], self.learner_episode
        if self.has_horizon:
            runs, numbers = self.run_of, np.full(len(self.ended), LATER)  # the number of an episode without steps is unknown
            numbers[self.number] = self.learner_episode
        result = np.zeros(len(runs), dtype=np.bool_)
        for run in np.unique(runs):
            here = runs == run
            result[here] = recorded.has(self._names[run], self.place[here], numbers[here])
        return result | self.dropped if self.has_horizon else result

    def entries(self) -> list[Entry]:
        """Return the place of each counted episode, in the order of `counted_episodes`; without a horizon, of those with steps."""
        result = []
        for k, rows in self.counted_episodes():
            places = self.place[k : k + 1] if self.has_horizon else self.place[rows]
            if places.size:
                result.append(Entry(self._names[self.run_of[k]], int(places.min()), int(places.max()) + 1))
        return result

    def to_frame(self, *, names: bool = False) -> Any:
        """Return a pandas data frame with a row for each step. Needs the extra `data`.

        names: whether to show agents, and states and actions if the task names them, by name. If the learner was not asked, `asked`
        is -1, or missing.
        """
        return data_frame(self._rows(check.truth("Record.to_frame", "names", names)))

    def _rows(self, names: bool = False) -> dict[str, Any]:
        """Return the columns of `to_frame`, by name."""
        ended = {"number": self.number, "learner_episode": self.learner_episode, "ended": self.ended[self.number]}
        rows: dict[str, Any] = {"run": self.columns["run"], **ended, **{n: c for n, c in self.columns.items() if n != "run"}}
        if names:
            known = {"state": self.header["state_names"], "action": self.header["action_names"], "agent": self.header["agents"]}
            known |= {"next_state": known["state"], "prev_agent": known["agent"], "asked": known["agent"]}
            for name, texts in known.items():
                if texts is not None:
                    rows[name] = np.array([*texts, None], dtype=object)[rows[name]]
        return rows

    def save(self, path: str | Path) -> Path:
        """Write the steps to a file, completely or not at all, and return its path.

        Its suffix says the format: .parquet (needs the extra `data`), which `read_record` reads, too; or .csv or .jsonl, for other
        programs.
        """
        about = {
            "header": dict(self.header),
            "runs": [dict(run) for run in self.runs],
            "gaps": self.gaps,
            "torn": self.torn,
            "changes": self.changes,
        }
        about |= {name: getattr(self, name).tolist() for name in ("ended", "dropped", "run_of", "place")}
        return save_columns("Record.save", path, self._rows(), {"record": about})

    def plot(self) -> Any:
        """Draw costs, shares of control, hand-overs and overrides of the episodes; return the figure.

        Needs the extra `plots`. Without a horizon, blocks of steps are drawn.
        """
        if not len(self):
            check.fail("Record.plot", "the number of steps", 0, "at least 1")
        each, unit, table = 1, "episode", self.episodes()
        if not self.has_horizon:
            each, unit = max(1, len(self) // BLOCKS), "step"
            blocks = len(self) // each
            whole = np.minimum(np.arange(len(self)) // each, blocks - 1)
            table = self._table(whole, blocks)
            table = replace(table, cost=table.cost / table.lengths)
        counts = {"hand-overs": table.switches, "overrides": table.overrides}
        label = f"cost of {'an episode' if self.has_horizon else 'a step'}"
        title = f"{self.path.name}: {plural(len(self), 'step')}"
        return run_picture.draw(
            run_picture.RunPicture(title, table.cost, table.control, counts, self.agents, unit, each, cost_label=label)
        )

    def __repr__(self) -> str:
        def parts() -> Iterator[str | None]:
            yield repr(check.printable(self.path.name)[:60])
            yield plural(len(self), "step")
            if self.has_horizon:
                yield f"{plural(len(self.ended), 'episode')} ({int((~self.ended).sum())} not ended)"
            yield plural(len(self.runs), "run")
            yield f"agents: {listed(self.agents)}"
            yield f"{self.torn} bytes of a torn last line left out" if self.torn else None

        return short_repr(self, parts)
