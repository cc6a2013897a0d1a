"""The recorded episodes that a learner has counted, by the run that wrote them and their place in it.

The number of an episode does not identify it: a learner that lost its last episodes in a crash uses their numbers again, and one
that learns from a log skips numbers. So every run of a recorder has a random name, and the episodes that begin in a run are
numbered from 0: their places. Without a horizon steps have places. A learner keeps the places that it has counted or dropped as
intervals, and its file holds them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Ints

RUN, PLACE = "recorded_in", "recorded_at"  # columns of a log that comes from a record: the run of each step, and the place in it
LATER = 2**62  # more than the number of any episode


class Place(NamedTuple):
    """The place in a run of an episode that is running."""

    run: str  # "RECORD/RUN"
    place: int
    session: str | None = None  # the session whose episode it is; None: that of the learner's own calls


class Entry(NamedTuple):
    """The places of an episode of a log in a record: from `begin` to `end` (exclusive) of a run."""

    run: str  # name of the record, which is that of its first run, and of the run: "RECORD/RUN"
    begin: int
    end: int


class CountedRun(NamedTuple):
    """The places of one run that a learner has counted or dropped."""

    counted: int  # episodes, or steps without a horizon
    done: tuple[tuple[int, int], ...]  # places counted or dropped, as ascending disjoint intervals [from, to)


@dataclass(frozen=True)
class Recorded:
    """The recorded episodes that a learner has counted or dropped: they must not be counted again."""

    runs: Mapping[str, CountedRun] = field(default_factory=dict)  # by name
    before: int = 1  # episodes with numbers below this were counted by an earlier cede, which did not keep places
    running: tuple[Place, ...] = ()  # places of running episodes; several of one if it was continued in several runs

    def add(self, entry: Entry, counted: int) -> "Recorded":
        """Return a copy with the places of an entry. counted: the number of counted episodes, or steps."""
        old = self.runs.get(entry.run, CountedRun(0, ()))
        return replace(self, runs={**self.runs, entry.run: CountedRun(old.counted + counted, joined((*old.done, entry[1:])))})

    def of_run(self, name: str, run: CountedRun, running: tuple[Place, ...]) -> "Recorded":
        """Return a copy with the places of a run that a recorder writes."""
        old = self.runs.get(name, CountedRun(0, ()))
        runs = {**self.runs, name: CountedRun(old.counted + run.counted, joined((*old.done, *run.done)))} if run.done else self.runs
        return replace(self, runs=runs, running=(*self.running, *running))

    def ended(self, session: str | None, *, counted: bool) -> "Recorded":
        """Return a copy after the end of a session's episode. counted: whether it was counted; if not, it was dropped."""
        mine = [place for place in self.running if place.session == session]
        result = replace(self, running=tuple(place for place in self.running if place.session != session)) if mine else self
        for i, (run, place, _) in enumerate(mine if counted else ()):
            result = result.add(Entry(run, place, place + 1), int(i == 0))
        return result

    def has(self, run: str, places: Ints, numbers: Ints) -> NDArray[np.bool_]:
        """Return which places of a run were counted or dropped. numbers: the recorded learner's numbers of these episodes."""
        result: NDArray[np.bool_] = numbers < self.before
        for begin, end in self.runs.get(run, CountedRun(0, ())).done:
            result |= (begin <= places) & (places < end)
        return result

    def counted_in(self, record: str) -> int | None:
        """Return how many episodes, or steps, of a record were counted; None if that is unknown."""
        if self.before > 1:
            return None
        return sum(run.counted for name, run in self.runs.items() if name.startswith(f"{record}/"))

    def packed(self) -> dict[str, Any]:
        """Return it as JSON data; `unpacked` is the inverse."""
        return {"runs": {name: list(run) for name, run in self.runs.items()}, "before": self.before, "running": self.running}


def unpacked(given: Any) -> Recorded:
    """Return the `Recorded` of JSON data from `packed`, after checks."""
    owner, runs = "file", {}
    for name, (counted, done) in check.mapping(owner, "recorded.runs", given["runs"], "runs by name").items():
        parts = tuple((check.integer(owner, "a place", a, 0), check.integer(owner, "a place", b, 0)) for a, b in done)
        if any(a >= b for a, b in parts) or joined(parts) != parts:
            check.fail(owner, "the places of recorded", check.show(done), "intervals in order")
        runs[check.name(owner, "a run", name)] = CountedRun(check.integer(owner, "recorded.counted", counted, 0), parts)
    running = tuple(unpacked_place(*place) for place in given["running"])
    return Recorded(runs, check.integer(owner, "recorded.before", given["before"], 1), running)


def unpacked_place(run: Any, place: Any, session: Any = None) -> Place:
    """Return a `Place` of JSON data, after checks. session: since schema 8 of learners."""
    owner = "file"
    name = None if session is None else check.name(owner, "a session", session)
    return Place(check.name(owner, "a run", run), check.integer(owner, "a place", place, 0), name)


def joined(parts: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Return intervals in order; join intervals that touch or overlap."""
    result: list[tuple[int, int]] = []
    for begin, end in sorted(parts):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return tuple(result)


def entries_of_columns(log: Any) -> list[Entry] | None:
    """Return the places in a record of each episode of a log from `Record.log`; None for any other log."""
    names = log if isinstance(log, Mapping) else getattr(log, "columns", ())
    if not all(name in names for name in (RUN, PLACE, "episode")):
        return None
    runs, places, episodes = (np.asarray(log[name]) for name in (RUN, PLACE, "episode"))
    if not len(runs) == len(places) == len(episodes) or places.dtype.kind not in "iu" or not all(isinstance(r, str) for r in runs):
        check.fail("learn_from", f"the columns {RUN!r} and {PLACE!r}", "others", "as Record.log returns them, or left out")
    first: list[int] = np.flatnonzero(np.r_[True, episodes[1:] != episodes[:-1]]).tolist() if len(runs) else []
    ends = [*first[1:], len(runs)]
    return [Entry(str(runs[a]), int(places[a:b].min()), int(places[a:b].max()) + 1) for a, b in zip(first, ends, strict=False)]
