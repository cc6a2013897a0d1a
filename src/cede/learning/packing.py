"""Learners and fleets taken apart: plain values for a JSON header, arrays by name for the rest, and both into a file.

What belongs together again is in saving.py, which checks all of it.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cede import __version__
from cede._base import check
from cede._base.archive import Arrays, checksum, save_arrays
from cede.learning.forgetting import Forget
from cede.learning.settings import Recipe
from cede.learning.state import Memory, Seen
from cede.planning.belief import StepDown
from cede.problem.structure import Outcomes
from cede.problem.task import Task

KINDS, SCHEMA = ("learner", "fleet"), 1
Header = dict[str, Any]


def save_learner(learner: Any, path: str | Path) -> None:
    """Write a Learner to a file, whole or not at all."""
    if learner.shared_environment is not None:
        expected = "a learner that belongs to none: save the fleet, or remove the learner first"
        check.fail("save", "learner", "in a fleet, whose knowledge it shares", expected)
    header, arrays = pack_learner(learner)
    save_arrays(Path(path), "learner", SCHEMA, {"cede": __version__, **header}, arrays)


def save_fleet(fleet: Any, path: str | Path) -> None:
    """Write a Fleet to a file, whole or not at all."""
    header, arrays = pack_fleet(fleet)
    save_arrays(Path(path), "fleet", SCHEMA, {"cede": __version__, **header}, arrays)


def pack_learner(learner: Any) -> tuple[Header, Arrays]:
    memory = learner.memory
    header = {
        "seed": learner.seed,
        "settings": {name: str(value) for name, value in learner.settings.items()},
        "task": pack_task(learner.task)[0],
        "recipe": pack_recipe(learner.recipe)[0],
        **pack_memory(memory)[0],
    }
    arrays = {
        **prefixed("task", pack_task(learner.task)[1]),
        **prefixed("recipe", pack_recipe(learner.recipe)[1]),
        **prefixed("memory", pack_memory(memory)[1]),
        **prefixed("running", pack_running(learner)),
    }
    return header, arrays


def prefixed(name: str, arrays: Arrays) -> Arrays:
    return {f"{name}/{key}": array for key, array in arrays.items()}


def pack_task(task: Task) -> tuple[Header, Arrays]:
    words = ("agents", "horizon", "start_agent", "varies_with", "state_names", "action_names")
    header = {name: as_json(getattr(task, name)) for name in words}
    header["modes"] = None if task.modes is None else {name: as_json(values) for name, values in asdict(task.modes).items()}
    return header, {name: getattr(task, name) for name in ("env_cost", "control_cost", "switch_cost")}


def as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def pack_recipe(recipe: Recipe) -> tuple[Header, Arrays]:
    plain = ("name", "radius", "agents_radius", "prior", "delta", "flat", "planning", "replan")
    header: Header = {name: getattr(recipe, name) for name in plain}
    header["scale"] = {**{layer: pack_scale(getattr(recipe.scale, layer)) for layer in SCALES}, "name": recipe.scale.name}
    header["forget"] = {name: pack_rule(rule) for name, rule in recipe.forget.items()}
    header["forget_environment"] = pack_rule(recipe.forget_environment)
    arrays: Arrays = {f"known_agents/{agent}": policy for agent, policy in recipe.known_agents.items()}
    if recipe.policy is not None:
        arrays["policy"] = recipe.policy
    if recipe.limits is not None:
        arrays["limits"] = np.stack(recipe.limits)
    if recipe.caution is not None:
        header["caution"] = {"alpha": recipe.caution.alpha, "name": recipe.caution.name}
        arrays["baseline"] = recipe.caution.baseline
        if recipe.caution.start is not None:
            arrays["start"] = recipe.caution.start
    if recipe.known_environment is not None:
        header["names"] = [as_json(getattr(recipe.known_environment, name)) for name in ("state_names", "action_names")]
        table = recipe.known_environment.transition
        arrays |= prefixed("environment", {"indptr": table.indptr, "indices": table.indices, "data": table.data})
        arrays |= prefixed("environment", {"cost": recipe.known_environment.cost, "start": recipe.known_environment.start})
    if recipe.structure is not None:
        seen = recipe.structure.agents
        header["structure"] = {name: isinstance(one, Outcomes) for name, one in seen.items()}
        for i, one in enumerate(seen.values()):
            arrays |= prefixed(f"seen/{i}", pack_outcomes(one) if isinstance(one, Outcomes) else {"labels": one})
        if recipe.structure.environment is not None:
            arrays |= prefixed("outcomes", pack_outcomes(recipe.structure.environment))
    return header, arrays


SCALES = ("agents", "environment")


def pack_scale(value: Any) -> Any:
    if isinstance(value, StepDown):
        return {"start": value.start, "step": value.step, "every": value.every, "least": value.least}
    if callable(value):
        expected = "a number or a StepDown: another function cannot be written to a file"
        check.fail("save", "a scale of the learner", check.show(value), expected)
    return value


def pack_rule(rule: Forget | None) -> Any:
    return None if rule is None else {type(rule).__name__: rule.episodes}


def pack_outcomes(outcomes: Outcomes) -> Arrays:
    return {"row": outcomes.row, "case": outcomes.case, "to": outcomes.to}


KEPT = ("planned_agents", "planned_environment", "bounds", "recent_agents", "recent_environment", "prices", "record")


def pack_memory(memory: Memory) -> tuple[Header, Arrays]:
    header = {name: getattr(memory, name) for name in ("episodes", "environment_episodes", "planned", "stale")}
    arrays: Arrays = {name: getattr(memory, name) for name in KEPT}
    for layer in ("agents", "environment"):
        seen: Seen = getattr(memory, layer)
        arrays |= {f"{layer}_key": seen.key, f"{layer}_number": seen.number}
    if memory.plan is not None:
        arrays |= {"policy": memory.plan.policy, "value": np.ascontiguousarray(memory.plan.value)}
    return header, arrays


def pack_running(learner: Any) -> Arrays:
    """The episode that is running, as far as it was observed."""
    episode = learner._episode
    if episode is None:
        return {"steps": np.array(learner._steps, dtype=np.int64).reshape(-1, 6)}
    return {name: getattr(episode, name) for name in ("states", "prev_agents", "agents", "actions")} | {
        "costs": np.asarray(episode.costs, dtype=np.float64)
    }


def pack_fleet(fleet: Any) -> tuple[Header, Arrays]:
    """What many learners have in common is written once; what each has of its own lies one after the other."""
    known: dict[str, int] = {}
    kinds: list[tuple[Header, Arrays]] = []
    headers, members = [], []
    for learner in fleet:
        task, recipe = pack_task(learner.task), pack_recipe(learner.recipe)
        one = ({"task": task[0], "recipe": recipe[0]}, {**prefixed("task", task[1]), **prefixed("recipe", recipe[1])})
        number = known.setdefault(checksum(*one), len(known))
        if number == len(kinds):
            kinds.append(one)
        memory = pack_memory(learner.memory)
        headers.append({"kind": number, "seed": learner.seed, **memory[0]})
        members.append({**prefixed("memory", memory[1]), **prefixed("running", pack_running(learner))})
    header: Header = {"kinds": [kind[0] for kind in kinds], "learners": headers, "environment": None}
    arrays: Arrays = {}
    for i, kind in enumerate(kinds):
        arrays |= prefixed(f"kinds/{i}", kind[1])
    arrays |= prefixed("learners", joined(members))
    words, tables = pack_task(fleet.task)
    header["first"], arrays = words, arrays | prefixed("first", tables)
    shared = fleet.shared_environment
    if shared is not None:
        sums = shared.table.sums()
        header["environment"] = {"episodes": shared.episodes}
        arrays |= prefixed("environment", {"row": sums.row, "column": sums.column, "amount": sums.amount})
        if shared.structure is not None:
            arrays |= prefixed("outcomes", pack_outcomes(shared.structure))
    return header, arrays


def joined(members: list[Arrays]) -> Arrays:
    """Arrays of the same name, one after the other, with the shape of each; a shape of -1 where there is none."""
    result: Arrays = {}
    for name in dict.fromkeys(name for arrays in members for name in arrays):
        there = [arrays.get(name) for arrays in members]
        axes = max(array.ndim for array in there if array is not None)
        shape = [(-1,) * axes if array is None else array.shape for array in there]
        result[f"{name}/shape"] = np.array(shape, dtype=np.int64).reshape(len(members), axes)
        result[f"{name}/data"] = np.concatenate([array.ravel() for array in there if array is not None])
    return result
