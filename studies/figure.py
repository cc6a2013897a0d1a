"""What an experiment is made of: a Figure asks for Parts (single runs), makes a table from their Outcomes, and draws the table.

A part is one run: a function, its arguments (learner, settings, seed) and the digest of the code that it runs. Its outcome is
stored under a key made of these three, so an interrupted figure goes on where it stopped, and figures that need the same run share
it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cede.comparison.code_digest import code_digest

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # what a figure may be called: its files have the name, too

# Modules and folders that digests leave out: they hold colours, draw pictures, or hold what finished runs have left.
NOT_DIGESTED = frozenset({"studies.style", "studies.drawing", "studies.results"})

Row = dict[str, Any]  # one row of a table: values by name of the column
Outcome = dict[str, list[Row]]  # what a part returns: rows by kind, such as "curve", "control" or "drive"


@dataclass(frozen=True)
class Options:
    """What a user may choose for all figures. None: each figure takes its own setting."""

    quick: bool = False
    episodes: int | None = None
    repeats: int | None = None
    seed: int = 0
    jobs: int = 2
    out: Path = Path("out/figures")
    overwrite: bool = False
    radii: str | None = None  # many-teams: "printed", "schedule" or "constant"

    def __post_init__(self) -> None:
        if self.radii not in (None, "printed", "schedule", "constant"):
            raise ValueError(f"figure: radii is {self.radii!r}, must be one of 'printed', 'schedule', 'constant'")
        for name, least, most in (("episodes", 1, None), ("repeats", 1, None), ("seed", 0, 10**6), ("jobs", 1, None)):
            number = getattr(self, name)
            if number is not None and (number < least or (most is not None and number > most)):
                expected = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most:,}"
                raise ValueError(f"figure: {name} is {number}, must be {expected}")

    def choose(self, name: str, full: int, quick: int) -> int:
        """Return the number of "episodes" or "repeats": what the user gave, else the figure's number for a full or quick run."""
        given = getattr(self, name)
        return int(given) if given is not None else (quick if self.quick else full)

    def seeds(self, full: int, quick: int) -> list[int]:
        """Return one seed for each repeat; full and quick: how many repeats if the user gave no number."""
        return [self.seed + repeat for repeat in range(self.choose("repeats", full, quick))]


@dataclass(frozen=True)
class Part:
    """One run of one learner (or one exact computation), which a figure asks for and whose outcome is stored."""

    function: str  # "module:name" in studies, called as name(progress=..., **arguments), returns an Outcome
    arguments: Row  # values that JSON can hold
    work: int  # what the run reports as progress when it is done; mostly the number of episodes
    label: str  # for the progress bar

    @property
    def key(self) -> str:
        """A name for the stored outcome: a digest of the function, its arguments and the code that it runs."""
        text = json.dumps([self.function, self.arguments, code_digest(self.module, NOT_DIGESTED)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def module(self) -> str:
        """The full name of the module that holds the function."""
        return f"studies.{self.function.split(':')[0]}"

    def run(self, progress: Callable[[int], None]) -> Outcome:
        """Call the function and return its outcome. progress: called with the work done so far."""
        function = getattr(import_module(self.module), self.function.split(":")[1])
        outcome: Outcome = function(progress=progress, **self.arguments)
        return outcome


def report_work(progress: Callable[[int], None], effort: int, before: int, done: int) -> None:
    """Report `before + done` episodes as progress, each of which counts as `effort` units of a part's work."""
    progress(effort * (before + done))


@dataclass(frozen=True)
class Figure:
    """One figure: how to get its runs, its table and its picture. The settings stand at the top of the figure's module."""

    name: str  # as in `python -m studies figure NAME`
    title: str  # what the figure shows
    story: str  # what to look at, for the report
    parts: Callable[[Options], Sequence[Part]]  # the runs that it needs
    table: Callable[[Sequence[tuple[Part, Outcome]]], list[Row]]  # from the outcomes of its parts to the rows of its table
    draw: Callable[[list[Row], Path], list[Path]]  # from the table, and the picture's path without ending, to the files written

    def __post_init__(self) -> None:
        if not FILE_NAME.fullmatch(self.name):
            raise ValueError(f"Figure: name is {self.name!r}, must be letters, digits, - and _: files are called like that")
