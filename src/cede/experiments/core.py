"""How experiments run: a figure asks for parts, parts run side by side and are kept, the table is made from them.

A part is one run (a learner, its settings, a seed), named by a digest of all that decides its result. Its outcome is written whole
or not at all, so an interrupted run goes on where it stopped, and figures that need the same run share it. `run` makes the
tidy table of a figure, a CSV file; `draw` only reads that file.
"""

import csv
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from cede import __version__
from cede._base import check
from cede._base.archive import write_whole

Row = dict[str, Any]
Outcome = dict[str, list[Row]]  # rows by kind: "curve", "control", "drive" ...


@dataclass(frozen=True)
class Options:
    """What a user may choose. None: the figure's own setting."""

    quick: bool = False
    episodes: int | None = None
    repeats: int | None = None
    seed: int = 0
    jobs: int = 2
    out: Path = Path("out/figures")
    overwrite: bool = False
    radii: str | None = None  # many-teams: "printed", "schedule" or "constant"

    def __post_init__(self) -> None:
        check.choice("figure", "radii", self.radii, (None, "printed", "schedule", "constant"))
        for name in ("episodes", "repeats"):
            if getattr(self, name) is not None:
                check.integer("figure", name, getattr(self, name), 1)
        check.integer("figure", "seed", self.seed, 0, 10**6)
        check.integer("figure", "jobs", self.jobs, 1)

    def choose(self, name: str, full: int, quick: int) -> int:
        """The number of episodes or repeats to use."""
        given = getattr(self, name)
        return int(given) if given is not None else (quick if self.quick else full)

    def seeds(self, full: int, quick: int) -> list[int]:
        """One for each repeat."""
        return [self.seed + repeat for repeat in range(self.choose("repeats", full, quick))]


@cache
def code_digest(module: str) -> str:
    """Of the library, the worlds, and the module of the run; not of what only draws, reports or talks to users."""
    package = Path(__file__).parent.parent
    sources = [
        path for folder in (package, package / "_kernels", package / "worlds", package / "gym") for path in folder.glob("*.py")
    ]
    deciding = [path for path in sources if path.name not in ("cli.py", "pictures.py", "progress.py", "extras.py")]
    deciding += [package / "experiments" / f"{name}.py" for name in ("curves", "ways", "lake", module)]
    digest = hashlib.sha256()
    for path in sorted(set(deciding)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Part:
    """One run. `function` is "module:name" in this package, called with `arguments` (JSON) and a progress function."""

    function: str
    arguments: Row
    work: int  # episodes, for the progress bar
    label: str

    @property
    def key(self) -> str:
        """A digest of all that decides the result: what is run, with which arguments, by which code."""
        text = json.dumps([self.function, self.arguments, code_digest(self.function.split(":")[0])], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def run(self, progress: Callable[[int], None]) -> Outcome:
        module, name = self.function.split(":")
        outcome: Outcome = getattr(import_module(f"cede.experiments.{module}"), name)(progress=progress, **self.arguments)
        return outcome


def report_work(progress: Callable[[int], None], effort: int, before: int, done: int) -> None:
    """Progress of a part in units of its work: so many episodes before and now, each of some effort."""
    progress(effort * (before + done))


@dataclass(frozen=True)
class Figure:
    """Settings stand at the top of the figure's module; here is what is done with them."""

    name: str
    title: str  # what the paper shows
    story: str  # what to look at, for the report
    parts: Callable[[Options], Sequence[Part]]
    table: Callable[[Sequence[tuple[Part, Outcome]]], list[Row]]
    draw: Callable[[list[Row], Path], list[Path]]  # table and file name without ending -> files written


# ------------------------------------------------------------------------------------------------------------- files


def save_outcome(path: Path, outcome: Outcome) -> None:
    write_whole(path, json.dumps(outcome))


def load_outcome(path: Path) -> Outcome | None:
    """A finished part, or None if there is none that can be read."""
    try:
        outcome = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return outcome if isinstance(outcome, dict) else None


def save_table(path: Path, rows: Sequence[Row]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, *[[row.get(name, "") for name in columns] for row in rows]]

    class Lines(list[str]):
        write = list.append

    text = Lines()
    csv.writer(text, lineterminator="\n").writerows(lines)
    write_whole(path, "".join(text))


def load_table(path: Path, *, as_text: bool = False) -> list[Row]:
    """The rows of a table; numbers as numbers unless asked. Refuses tables of other versions and files that are no tables."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            found = [*csv.DictReader(file)]
            rows = [{name: value if as_text else number_or_text(value) for name, value in row.items()} for row in found]
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from error
    if not rows or "cede" not in rows[0]:
        raise ValueError(f"{path}: is no table of cede, or was cut off; delete it and run the figure again")
    version = str(rows[0]["cede"])
    if version != __version__:
        raise ValueError(f"{path}: was made by cede {version}, this is {__version__}; run the figure again with --overwrite")
    return rows


def number_or_text(value: Any) -> Any:
    if not isinstance(value, str):
        return ""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


# ------------------------------------------------------------------------------------------------------------- running


def identity(options: Options) -> Row:
    """Columns that stand in every row of every table."""
    return {
        "cede": __version__,
        "quick": int(options.quick),
        "asked_episodes": options.episodes or "",
        "asked_repeats": options.repeats or "",
        "asked_radii": options.radii or "",
        "base_seed": options.seed,
    }


def same_run(rows: Sequence[Row], options: Options) -> bool:
    return all(str(rows[0].get(name, "")) == str(value) for name, value in identity(options).items())


def prepare(out: Path) -> None:
    """The output directory, or a clear word why not."""
    try:
        (out / "parts").mkdir(parents=True, exist_ok=True)
        probe = out / "parts" / f".probe.{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise ValueError(f"figure: out is {str(out)!r}, must be a directory that can be written ({error.strerror})") from error


def finished(figure: Figure, options: Options) -> bool:
    """Is the table of exactly this run there already? A table of another run is never overwritten unless asked."""
    path = options.out / f"{figure.name}.csv"
    if not path.exists() or options.overwrite:
        return False
    rows = load_table(path)
    if same_run(rows, options):
        return True
    known = {name: rows[0].get(name, "") for name in identity(options)}
    raise ValueError(f"{path}: holds another run ({known}); choose another --out, or --overwrite")


def run(figures: Sequence[Figure], options: Options, say: Callable[[str], None] = print) -> list[Path]:
    """Make the tables that are missing and draw every figure asked for. Returns the pictures."""
    from cede.experiments.workers import run_parts

    prepare(options.out)
    missing = [figure for figure in figures if not finished(figure, options)]
    wanted = {figure.name: list(figure.parts(options)) for figure in missing}
    every = {part.key: part for parts in wanted.values() for part in parts}
    outcomes = run_parts(list(every.values()), options.out / "parts", options.jobs, say)
    for figure in missing:
        rows = figure.table([(part, outcomes[part.key]) for part in wanted[figure.name]])
        save_table(options.out / f"{figure.name}.csv", [{**row, **identity(options)} for row in rows])
    pictures = []
    for figure in figures:
        rows = load_table(options.out / f"{figure.name}.csv")
        pictures += figure.draw(rows, options.out / figure.name)
    return pictures
