"""Read a study.toml, and write the results of a study into a directory. compare.py runs studies.

A study is data. Worlds and learners are names of cede with arguments; nothing in the file is imported or executed. An unknown key,
or a value of another type, is an error that names its place.
"""

import csv
import hashlib
import json
import platform
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

from cede import __version__
from cede._base import check
from cede._base.archive import replace_whole, write_whole
from cede._base.extras import save_picture
from cede.comparison.code_digest import code_digest
from cede.comparison.result import Comparison
from cede.fleet.engines import ENGINES

POINTS = 200  # rows of each run in results.csv
NUMBERS = ("episodes", "steps", "record_every", "repeats", "seed", "jobs")
KEYS = (*NUMBERS, "reference", "engine", "worlds", "learners")
Named = tuple[str, dict[str, Any]]  # a name of cede, and its arguments


@dataclass(frozen=True)
class Study:
    """The content of a study.toml."""

    worlds: dict[str, Named]
    learners: dict[str, Named]
    repeats: int
    episodes: int | None = None
    steps: int | None = None
    record_every: int | None = None
    seed: int = 0
    reference: str | None = None
    engine: str = "threads"
    jobs: int | None = None


def read_study(path: Path) -> Study:
    """Read and check a study.toml. `compare` checks the arguments of worlds and learners, before the first run."""
    try:
        content = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}), must be a study") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is no TOML ({error}), must be a study") from error
    owner = path.name
    for key, value in content.items():
        check.choice(owner, "a key", key, KEYS)
        if key in NUMBERS:
            check.integer(owner, key, value, 0 if key == "seed" else 1)
    for key in ("worlds", "learners", "repeats"):
        if key not in content:
            check.fail(owner, key, "left out", "given")
    parts = {key: named_tables(owner, key, content[key]) for key in ("worlds", "learners")}
    if "reference" in content:
        check.choice(owner, "reference", content["reference"], tuple(parts["learners"]))
    check.choice(owner, "engine", content.get("engine", "threads"), tuple(ENGINES))
    return Study(**{**content, **parts})


def named_tables(owner: str, key: str, tables: Any) -> dict[str, Named]:
    """Check the tables [worlds.NAME] or [learners.NAME]; return the name in cede and the arguments of each.

    The name in cede is the value of the key "world" or "learner"; without this key it is NAME.
    """
    if not isinstance(tables, Mapping) or not tables:
        check.fail(owner, key, check.show(tables), f"tables, as in [{key}.NAME]")
    named = {}
    for name, table in tables.items():
        place = f"{key}.{name}"
        if not isinstance(table, Mapping):
            check.fail(owner, place, check.show(table), "a table")
        arguments = dict(table)
        chosen = check.name(owner, f"{place}.{key[:-1]}", arguments.pop(key[:-1], name))
        named[name] = (chosen, arguments)
    return named


def write_results(comparison: Comparison, study: bytes, out: Path) -> list[Path]:
    """Write the study's file and all results, each completely or not at all; return the files. study: the bytes of study.toml."""
    names = ("results.csv", "table.txt", "table.tex", "figure.png", "figure.pdf", "about.json", "study.toml")
    files = [out / name for name in names]
    columns = comparison.columns(POINTS)
    cells = zip(*(column.tolist() for column in columns.values()), strict=True)
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([[*columns, "cede"], *((*row, __version__) for row in cells)])
    write_whole(files[0], text.getvalue())
    table = comparison.table()
    write_whole(files[1], f"{table}\n")
    write_whole(files[2], table.latex)
    picture = comparison.plot()
    save_picture(picture, files[3])
    save_picture(picture, files[4], metadata={"CreationDate": None})
    write_whole(files[5], json.dumps(about(comparison, study), indent=1) + "\n")
    replace_whole(files[6], lambda file: file.write(study))
    return files


def about(comparison: Comparison, study: bytes) -> dict[str, Any]:
    """Return what is needed to repeat a study: versions, seeds, and digests of the study's file and of the code."""
    return {
        "versions": {
            "cede": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "numba")},
        },
        "seeds": list(comparison.seeds),
        "study_sha256": hashlib.sha256(study).hexdigest(),
        "code_sha256": code_digest("cede.comparison.runs"),
        "reference": comparison.reference,
        "settings": comparison.settings,
    }
