"""Learners and fleets from files. packing.py took them apart.

They are built again through the same checks as any other input, so a file cannot make a learner that could not have been made by
hand. Counts and plans are checked before kernels see them.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.archive import Arrays, UnreadableFile, load_arrays
from cede._base.arrays import Floats
from cede.fleet.fleet import Fleet
from cede.fleet.team_states import PROMISES, promises_at_start
from cede.learning.baseline import Caution, checked_caution
from cede.learning.counts import EnvironmentTally, Episode, check_counted, checked_episode, shapes
from cede.learning.forgetting import Forget, HalfLife, Window
from cede.learning.learner import NEW, Learner
from cede.learning.packing import KEPT, KINDS, SCALES, SCHEMA, Header
from cede.learning.promises import check_promises
from cede.learning.settings import Recipe, checked_planning, checked_prior, declared
from cede.learning.state import Memory, Seen
from cede.planning.belief import RADII, Scale, StepDown
from cede.planning.control_shares import limits_of
from cede.planning.planner import Plan, checked_policy
from cede.planning.tables import Sums, Table
from cede.problem.model import Environment
from cede.problem.structure import Outcomes, Structure, checked_structure
from cede.problem.takeover import Modes
from cede.problem.task import Task


def load(path: str | Path) -> Learner | Fleet:
    """A learner or a fleet from a file, as it was. Anything wrong with the file is an `UnreadableFile`."""
    where = Path(path)
    header, arrays = load_arrays(where, KINDS, SCHEMA)
    kind = header["kind"]
    try:
        return unpack_learner(header, arrays) if kind == "learner" else unpack_fleet(header, arrays)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError, MemoryError) as error:
        raise UnreadableFile(f"{where}: cannot be read, must be a {kind} of cede; it is damaged ({error})") from error


def unpack_learner(header: Header, arrays: Arrays) -> Learner:
    task = unpack_task(header["task"], part(arrays, "task"))
    recipe = unpack_recipe(task, header["recipe"], part(arrays, "recipe"))
    learner = Learner(task, recipe, seed=header["seed"])
    learner.remember(unpack_memory(task, recipe, header, part(arrays, "memory")))
    unpack_running(learner, part(arrays, "running"))
    return learner


def part(arrays: Arrays, name: str) -> Arrays:
    return {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}


def unpack_task(header: Header, arrays: Arrays) -> Task:
    everything: dict[str, Any] = {**header, **arrays}
    if header.get("modes") is not None:
        everything["modes"] = Modes(**header["modes"])
    return Task(**everything)


def unpack_scale(value: Any) -> Any:
    return StepDown(**value) if isinstance(value, dict) else value


def unpack_rule(value: Any) -> Forget | None:
    if value is None:
        return None
    ((name, episodes),) = value.items()
    kinds: dict[str, Callable[[Any], Forget]] = {"HalfLife": HalfLife, "Window": Window}
    return kinds[name](episodes)


def unpack_recipe(task: Task, header: Header, arrays: Arrays) -> Recipe:
    names = {str(table): name for table, name in enumerate(task.tables)}
    given = {names[key]: policies.reshape(task.slot_shape(int(key))) for key, policies in part(arrays, "known_agents").items()}
    known = task.known_agents("file", given)
    environment = unpack_environment(header, part(arrays, "environment"))
    agents, environment_scale = (unpack_scale(header["scale"][layer]) for layer in SCALES)
    scale = Scale(agents, environment_scale, name=str(header["scale"]["name"]))
    for name in ("radius", "agents_radius"):
        check.choice("file", name, header[name], tuple(RADII))
    flat = check.choice("file", "flat", header["flat"], (True, False))
    recipe = Recipe(
        check.name("file", "name", header["name"]),
        radius=header["radius"],
        agents_radius=header["agents_radius"],
        prior=checked_prior("file", header["prior"]) if header["prior"] else 0.0,
        delta=check.probability("file", "delta", header["delta"]),
        scale=scale,
        flat=flat,
        known_agents=known,
        known_environment=environment,
        structure=unpack_structure(task, header, arrays),
        forget={check.choice("file", "forget", name, task.tables): rule_of(value) for name, value in header["forget"].items()},
        forget_environment=unpack_rule(header["forget_environment"]),
        limits=unpack_limits(task, arrays["limits"]) if "limits" in arrays else None,
        caution=unpack_caution(task, header, arrays) if "caution" in header else None,
        policy=checked_policy("file", task, arrays["policy"]).copy() if "policy" in arrays else None,
        **checked_planning("file", header["planning"], header["replan"]),
    )
    if environment is not None and (environment.n_states, environment.n_actions) != (task.n_states, task.n_actions):
        check.fail("file", "(S, A) of the known environment", (environment.n_states, environment.n_actions), "as of the task")
    check_promises("file", recipe)
    if flat and (recipe.structure is not None or known or environment is not None):
        check.fail("file", "what is known or declared", "given", "left out with one table for agents and environment")
    return recipe


def unpack_limits(task: Task, ends: Floats) -> tuple[Floats, Floats]:
    least, most = (dict(zip(task.members, end.tolist(), strict=True)) for end in ends)
    return limits_of("file", task, most, least)


def unpack_caution(task: Task, header: Header, arrays: Arrays) -> Caution | None:
    caution = checked_caution("file", task, arrays["baseline"], header["caution"]["alpha"], arrays.get("start"))
    return None if caution is None else replace(caution, name=str(header["caution"]["name"]))


def rule_of(value: Any) -> Forget:
    rule = unpack_rule(value)
    assert rule is not None
    return rule


def unpack_environment(header: Header, arrays: Arrays) -> Environment | None:
    if not arrays:
        return None
    shape = (arrays["indptr"].size - 1, arrays["start"].size)
    columns = arrays["indices"]
    if arrays["data"].shape != columns.shape or (columns < 0).any() or (columns >= shape[1]).any():
        check.fail("file", "the known environment", "no table", "a table")
    if (np.diff(arrays["indptr"]) < 0).any() or arrays["indptr"][0] != 0 or arrays["indptr"][-1] != columns.size:
        check.fail("file", "the known environment", "no table", "a table")
    table = sp.csr_array((arrays["data"], columns, arrays["indptr"]), shape=shape)
    return Environment(table, arrays["cost"], arrays["start"], *header["names"])


def unpack_structure(task: Task, header: Header, arrays: Arrays) -> Structure | None:
    if "structure" not in header:
        return None
    agents: dict[str, Any] = {}
    for i, (name, means) in enumerate(header["structure"].items()):
        own = part(arrays, f"seen/{i}")
        agents[name] = Outcomes(**own) if means else own["labels"]
    outcomes = part(arrays, "outcomes")
    structure = Structure(agents, Outcomes(**outcomes) if outcomes else None)
    return checked_structure("file", structure, task.n_states, task.n_actions, task.tables)


def unpack_memory(task: Task, recipe: Recipe, header: Header, arrays: Arrays) -> Memory:
    """Kernels trust what comes from here: nothing is taken over unchecked."""
    counted = ("episodes", "environment_episodes", "planned")
    numbers = {name: check.integer("file", name, header[name], 0, 2**62) for name in counted}
    sides = shapes(task, flat=recipe.flat, structure=recipe.structure)
    agents = unpack_seen("agents", arrays, *sides[0])
    environment = unpack_seen("environment", arrays, *sides[1])
    check_counted("file", declared(recipe), *np.divmod(environment.key, sides[1][1]))
    values = (task.horizon + 1, task.n_states, task.n_agents)
    plan = None
    if "policy" in arrays:
        if arrays["value"].shape != values or arrays["value"].dtype != np.float64:
            check.fail("file", "the shape of the plan's value", arrays["value"].shape, str(values))
        plan = Plan(checked_policy("file", task, arrays["policy"]).copy(), arrays["value"])
    expected: dict[str, tuple[tuple[int, ...], Any]] = {
        "planned_agents": ((sides[0][0],), np.float64),
        "planned_environment": ((sides[1][0],), np.float64),
        "bounds": (values, np.float64),
        "recent_agents": ((longest_window(recipe.forget.values()), task.horizon), np.int64),
        "recent_environment": ((longest_window([recipe.forget_environment]), task.horizon), np.int64),
        **dict.fromkeys(PROMISES, ((0,), np.float64)),
        **{name: (start.shape, np.float64) for name, start in promises_at_start(task, recipe).items()},
    }
    arrays = {"prices": NEW.prices, "record": NEW.record, **arrays}  # which older files do not have
    for name, (shape, dtype) in expected.items():
        array = arrays[name]
        if array.dtype != dtype or (array.size and array.shape != shape):
            check.fail("file", f"the shape of {name}", f"{array.shape} of {array.dtype}", f"{shape} of {np.dtype(dtype)}")
        if dtype is np.float64:
            check.finite("file", name, array)
    for name, (rows, columns) in zip(("recent_agents", "recent_environment"), sides, strict=True):
        if arrays[name].size and not ((arrays[name] >= -1) & (arrays[name] < rows * columns)).all():
            check.fail("file", name, "beyond the table", "steps that can be")
    stale = check.choice("file", "stale", header["stale"], (True, False))
    kept: dict[str, Any] = {**{name: arrays[name] for name in KEPT}, **numbers}
    return Memory(agents=agents, environment=environment, plan=plan, stale=stale, **kept)


def longest_window(rules: Iterable[Forget | None]) -> int:
    return max((rule.episodes for rule in rules if isinstance(rule, Window)), default=0)


def unpack_seen(layer: str, arrays: Arrays, rows: int, columns: int) -> Seen:
    key, number = arrays[f"{layer}_key"], arrays[f"{layer}_number"]
    if key.dtype != np.int64 or number.dtype != np.float64 or key.ndim != 1 or key.shape != number.shape:
        check.fail("file", f"the counts of {layer}", f"{key.dtype} and {number.dtype}", "places and numbers, as many of each")
    inside = bool(((key >= 0) & (key < rows * columns)).all()) and bool((key[1:] > key[:-1]).all())
    if not inside or not bool((np.isfinite(number) & (number > 0)).all()):
        check.fail("file", f"the counts of {layer}", "impossible", "ascending places of the table, with numbers above 0")
    return Seen(key, number)


def unpack_running(learner: Learner, arrays: Arrays) -> None:
    if "steps" in arrays:
        for step in arrays["steps"].tolist():
            learner.observe(*step)
    else:
        learner.observe_episode(checked_episode("file", learner.task, Episode(**arrays)))


def apart(arrays: Arrays, n: int) -> list[Arrays]:
    """The arrays of each of n members."""
    members: list[Arrays] = [{} for _ in range(n)]
    for key in [key for key in arrays if key.endswith("/shape")]:
        name, shape, data = key.removesuffix("/shape"), arrays[key], arrays[key.removesuffix("shape") + "data"]
        if shape.dtype != np.int64 or shape.ndim != 2 or len(shape) != n or data.ndim != 1 or (shape < -1).any():
            check.fail("file", name, "torn", "an array for each learner")
        sizes = [math.prod(sides) if min(sides, default=0) >= 0 else 0 for sides in shape.tolist()]
        if sum(sizes) != data.size:
            check.fail("file", f"the number of elements of {name}", data.size, str(sum(sizes)))
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64).tolist()
        for arrays_of_one, sides, (begin, end) in zip(members, shape.tolist(), pairwise(ends), strict=True):
            if min(sides, default=0) >= 0:
                arrays_of_one[name] = data[begin:end].reshape(sides).copy()
    return members


def unpack_fleet(header: Header, arrays: Arrays) -> Fleet:
    kinds: list[tuple[Task, Recipe]] = []
    for i, kind in enumerate(header["kinds"]):
        own = part(arrays, f"kinds/{i}")
        task = unpack_task(kind["task"], part(own, "task"))
        kinds.append((task, unpack_recipe(task, kind["recipe"], part(own, "recipe"))))
    first = unpack_task(header["first"], part(arrays, "first"))
    environment = unpack_shared(first, header["environment"], arrays)
    learners = []
    for one, own in zip(header["learners"], apart(part(arrays, "learners"), len(header["learners"])), strict=True):
        task, recipe = kinds[check.index("file", "kind", one["kind"], len(kinds))]
        learner = Learner(task, recipe, seed=one["seed"])
        memory = unpack_memory(task, recipe, one, part(own, "memory"))
        learners.append((learner, memory, part(own, "running")))
    fleet = Fleet.restored(first, [learner for learner, _, _ in learners], environment)
    for learner, memory, running in learners:
        learner.remember(memory)
        unpack_running(learner, running)
    return fleet


def unpack_shared(task: Task, header: Mapping[str, Any] | None, arrays: Arrays) -> EnvironmentTally | None:
    if header is None:
        return None
    own, outcomes = part(arrays, "environment"), part(arrays, "outcomes")
    structure = Structure(environment=Outcomes(**outcomes)) if outcomes else None
    checked_structure("file", structure, task.n_states, task.n_actions, task.tables)
    _, (rows, columns) = shapes(task, structure=structure)
    episodes = check.integer("file", "episodes", header["episodes"], 0, 2**62)
    numbers: Floats = own["amount"]
    keys = own["row"] * columns + own["column"]
    beyond = (own["row"] < 0) | (own["row"] >= rows) | (own["column"] < 0) | (own["column"] >= columns)
    types = own["row"].dtype == own["column"].dtype == np.int64 and numbers.dtype == np.float64
    whole = types and own["row"].shape == own["column"].shape == numbers.shape and numbers.ndim == 1
    if not whole or beyond.any() or not (keys[1:] > keys[:-1]).all() or not (np.isfinite(numbers) & (numbers > 0)).all():
        check.fail("file", "the counts of the environment", "impossible", "ascending places of the table, with numbers above 0")
    check_counted("file", None if structure is None else structure.environment, own["row"], own["column"])
    table = Table.empty(rows, columns)
    table.add(Sums(own["row"], own["column"], numbers))
    return EnvironmentTally(table, rows, episodes, None if structure is None else structure.environment)
