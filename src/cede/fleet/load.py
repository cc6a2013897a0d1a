"""Reads learners, fleets and encoders from files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cede._base import archive, check
from cede._base.archive import Arrays, UnreadableFile, kind_of, load_arrays
from cede.features import encode
from cede.features.encoder import Encoder
from cede.fleet.files import apart, unpack_shared
from cede.fleet.fleet import Fleet
from cede.learners.files import OLDEST, SCHEMA, below
from cede.learners.learner import Learner
from cede.learners.reading import CLASSES, extras_before_7, unpack_learner, unpack_own, unpack_settings
from cede.learners.stacks import environment_extras
from cede.learners.state import Sizes, most_episodes
from cede.problem.structure import checked_structure
from cede.problem.task import Task
from cede.rows.places import AGENTS, COSTS, ENVIRONMENT, Places
from cede.rows.stored import Counts
from cede.rows.working import AgentSpan, SharedCounts
from cede.steps.read_record import is_record

KINDS = ("learner", "fleet")


def load(source: str | Path | bytes) -> Learner | Fleet | Encoder:
    """Read a file that `save` wrote; return the Learner, the Fleet or the `encode.Encoder`.

    source: a path, or the bytes of such a file. Raises `UnreadableFile` if anything is wrong with the file.
    """
    where = source if isinstance(source, bytes) else check.path("load", "source", source)
    if (isinstance(where, bytes) or where.is_file()) and kind_of(where) == "encoder":
        return encode.load(where)
    if isinstance(where, Path) and is_record(where):
        raise UnreadableFile(f"{where}: is a record of steps, must be a learner or fleet of cede; cede.read_record reads records")
    header, arrays = load_arrays(where, KINDS, SCHEMA, OLDEST)
    kind = header["kind"]
    try:
        return unpack_learner(header, arrays) if kind == "learner" else unpack_fleet(header, arrays)
    except Exception as error:  # a file from outside may be wrong in any way
        place = "these bytes" if isinstance(where, bytes) else where
        raise UnreadableFile(f"{place}: cannot be read, must be a {kind} of cede; it is damaged ({error})") from error


def unpack_fleet(header: Mapping[str, Any], arrays: Arrays) -> Fleet:
    """Make a fleet from header and arrays, after checks; the inverse of `files.pack_fleet`."""
    groups = [unpack_settings(about, below(arrays, f"groups/{i}")) for i, about in enumerate(header["groups"])]
    learners = []
    for about, tables in zip(header["learners"], apart(below(arrays, "learners"), len(header["learners"])), strict=True):
        group = groups[check.index("file", "group", about["group"], len(groups))]
        learners.append(unpack_own(*group, about, tables))
    task = archive.rebuild(header["task"], arrays, CLASSES)
    if not isinstance(task, Task):
        check.fail("file", "task", "another", "a Task")
    environment = unpack_environment(task, header["environment"], arrays)
    if environment is not None:
        sizes = [Sizes(learner.task, learner.settings) for learner in learners if learner.settings.can_share]
        extras = {**below(arrays, "extras"), **extras_before_7(below(arrays, "prior"))}
        environment.extras = environment_extras("file", sizes, extras)
    return Fleet.restored(task, learners, environment)


def unpack_environment(task: Task, header: Mapping[str, Any] | None, arrays: Arrays) -> SharedCounts | None:
    """Make the shared environment counts of a fleet; None if no learner shares. task: of the fleet."""
    if header is None:
        return None
    structure = archive.rebuild(header["structure"], arrays, CLASSES)
    checked_structure("file", structure, task.n_states, task.n_actions, task.tables)
    shapes = Places(task, structure=structure).shapes
    outcomes = None if structure is None else structure.environment
    spans = unpack_spans(header.get("agents", ()))
    wanted = {name: shapes[name] for name in (ENVIRONMENT, COSTS)}
    if spans:
        wanted[AGENTS] = sum(span.rows for span in spans.values()), task.n_actions
    layers = unpack_shared(arrays, wanted, outcomes)
    episodes = check.integer("file", "episodes", header["episodes"], 0, most_episodes(task))
    shared = SharedCounts.load(Counts(layers, 0, episodes), shapes, structure=structure)
    if spans:
        shared.agents, shared.spans = layers[AGENTS].table(), spans
        shared.agents_episodes = check.integer("file", "agents_episodes", header["agents_episodes"], 0, most_episodes(task))
    return shared


def unpack_spans(about: Any) -> dict[str, AgentSpan]:
    """Make the spans of shared agents of a file, after checks: their rows lie below one another."""
    spans: dict[str, AgentSpan] = {}
    end = 0
    for name, first, rows, kind, structure in about:
        check.integer("file", f"the first row of {check.show(name)}", first, end, end)
        end += check.integer("file", f"the rows of {check.show(name)}", rows, 1)
        check.choice("file", "varies_with of a shared agent", kind, (None, "time"))
        spans[check.name("file", "a shared agent", name)] = AgentSpan(first, rows, kind, structure)
    return spans
