"""cede learns who should be in control.

A team of agents shares one system; at each step one of them acts. cede learns online to whom to hand control, in which
situation, so that the cost of what happens, of holding each agent in control and of every hand-over is least.

Names are imported when first used: `import cede` is quick and compiles nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cede import engines as engines
    from cede import gym as gym
    from cede import worlds as worlds
    from cede.belief import Belief as Belief
    from cede.belief import Scale as Scale
    from cede.belief import StepDown as StepDown
    from cede.budgets import Mixture as Mixture
    from cede.budgets import solve as solve
    from cede.certainty import Bounds as Bounds
    from cede.certainty import bounds as bounds
    from cede.checkpoints import Checkpoint as Checkpoint
    from cede.counts import Counts as Counts
    from cede.counts import Episode as Episode
    from cede.counts import count as count
    from cede.files import UnreadableFile as UnreadableFile
    from cede.fleet import Fleet as Fleet
    from cede.fleet import FleetHistory as FleetHistory
    from cede.fleet import simulate_fleet as simulate_fleet
    from cede.forgetting import HalfLife as HalfLife
    from cede.forgetting import Window as Window
    from cede.learner import Learner as Learner
    from cede.learners import fixed as fixed
    from cede.learners import greedy as greedy
    from cede.learners import oracle as oracle
    from cede.learners import posterior_sampling as posterior_sampling
    from cede.learners import ucrl2 as ucrl2
    from cede.learners import ucrl2_mc as ucrl2_mc
    from cede.model import Agent as Agent
    from cede.model import Environment as Environment
    from cede.model import Team as Team
    from cede.model import TwoLayerMDP as TwoLayerMDP
    from cede.planning import Plan as Plan
    from cede.planning import evaluate as evaluate
    from cede.planning import expected_cost as expected_cost
    from cede.planning import flatten as flatten
    from cede.planning import optimistic_plan as optimistic_plan
    from cede.planning import set_threads as set_threads
    from cede.reasons import Explanation as Explanation
    from cede.reasons import explain as explain
    from cede.saving import load as load
    from cede.simulation import History as History
    from cede.simulation import rollout as rollout
    from cede.simulation import simulate as simulate
    from cede.structure import Outcomes as Outcomes
    from cede.structure import Structure as Structure
    from cede.structure_check import StructureCheck as StructureCheck
    from cede.structure_check import check_structure as check_structure
    from cede.summary import Summary as Summary
    from cede.summary import summarise as summarise
    from cede.task import Task as Task

_HOME = {
    "model": ("Environment", "Agent", "Team", "TwoLayerMDP", "Task"),
    "counts": ("Counts", "Episode", "count"),
    "belief": ("Belief", "Scale", "StepDown"),
    "budgets": ("solve", "Mixture"),
    "planning": ("Plan", "evaluate", "expected_cost", "optimistic_plan", "flatten", "set_threads"),
    "structure": ("Structure", "Outcomes"),
    "structure_check": ("StructureCheck", "check_structure"),
    "forgetting": ("HalfLife", "Window"),
    "learner": ("Learner",),
    "learners": ("ucrl2_mc", "posterior_sampling", "ucrl2", "greedy", "fixed", "oracle"),
    "certainty": ("Bounds", "bounds"),
    "reasons": ("Explanation", "explain"),
    "summary": ("Summary", "summarise"),
    "simulation": ("History", "rollout", "simulate"),
    "fleet": ("Fleet", "FleetHistory", "simulate_fleet"),
    "checkpoints": ("Checkpoint",),
    "files": ("UnreadableFile",),
    "saving": ("load",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

_ROOMS = ("engines", "gym", "worlds")

__all__ = [*_MODULE, *_ROOMS, "__version__"]  # noqa: PLE0604 (names are strings)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"cede.{name}")
    if name in _MODULE:
        value = getattr(import_module(f"cede.{_MODULE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'cede' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
