"""cede learns who should be in control.

A team of agents shares one system, and at each step exactly one of them acts. cede learns, while the system runs, to whom to hand
control in which situation, so that the total cost is lowest: what happens in the environment, what it costs to hold each agent in
control, and what each hand-over costs.

Names are imported when they are first used, so `import cede` is quick and compiles nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cede import gym as gym
    from cede import worlds as worlds
    from cede._base.archive import UnreadableFile as UnreadableFile
    from cede.experiments.comparison.compare import compare as compare
    from cede.experiments.comparison.result import Comparison as Comparison
    from cede.fleet import engines as engines
    from cede.fleet.checkpoint import Checkpoint as Checkpoint
    from cede.fleet.fleet import Fleet as Fleet
    from cede.fleet.history import FleetHistory as FleetHistory
    from cede.fleet.history import History as History
    from cede.fleet.load import load as load
    from cede.fleet.simulate import rollout as rollout
    from cede.fleet.simulate import simulate as simulate
    from cede.fleet.simulate import simulate_fleet as simulate_fleet
    from cede.insight.bounds import Bounds as Bounds
    from cede.insight.bounds import bounds as bounds
    from cede.insight.estimate import Estimate as Estimate
    from cede.insight.estimate import estimate as estimate
    from cede.insight.explain import Explanation as Explanation
    from cede.insight.explain import explain as explain
    from cede.insight.frequencies import mean_plan as mean_plan
    from cede.insight.summary import Summary as Summary
    from cede.insight.summary import summarise as summarise
    from cede.learning.algorithms import fixed as fixed
    from cede.learning.algorithms import greedy as greedy
    from cede.learning.algorithms import oracle as oracle
    from cede.learning.algorithms import posterior_sampling as posterior_sampling
    from cede.learning.algorithms import recommended as recommended
    from cede.learning.algorithms import ucrl2 as ucrl2
    from cede.learning.algorithms import ucrl2_mc as ucrl2_mc
    from cede.learning.counts import Counts as Counts
    from cede.learning.counts import Episode as Episode
    from cede.learning.counts import count as count
    from cede.learning.endless import EndlessLearner as EndlessLearner
    from cede.learning.forgetting import HalfLife as HalfLife
    from cede.learning.forgetting import Window as Window
    from cede.learning.learner import Learner as Learner
    from cede.learning.protocol import SwitchingLearner as SwitchingLearner
    from cede.learning.read_record import read_record as read_record
    from cede.learning.record import Record as Record
    from cede.learning.recorder import Recorder as Recorder
    from cede.learning.structure_check import StructureCheck as StructureCheck
    from cede.learning.structure_check import check_structure as check_structure
    from cede.learning.suggest import SuggestedStructure as SuggestedStructure
    from cede.learning.suggest import suggest_structure as suggest_structure
    from cede.planning.belief import Belief as Belief
    from cede.planning.belief import CostBelief as CostBelief
    from cede.planning.control_shares import Mixture as Mixture
    from cede.planning.flatten import flatten as flatten
    from cede.planning.passes import Plan as Plan
    from cede.planning.passes import set_threads as set_threads
    from cede.planning.planner import evaluate as evaluate
    from cede.planning.planner import expected_cost as expected_cost
    from cede.planning.planner import optimistic_plan as optimistic_plan
    from cede.planning.planner import solve as solve
    from cede.planning.scale import Scale as Scale
    from cede.planning.scale import StepDown as StepDown
    from cede.problem import encode as encode
    from cede.problem.model import Agent as Agent
    from cede.problem.model import Environment as Environment
    from cede.problem.model import Team as Team
    from cede.problem.model import TwoLayerMDP as TwoLayerMDP
    from cede.problem.structure import Outcomes as Outcomes
    from cede.problem.structure import Structure as Structure
    from cede.problem.task import Task as Task
    from cede.serve.client.async_client import AsyncClient as AsyncClient
    from cede.serve.client.client import Client as Client

# The module that each public name is imported from.
_HOME = {
    "problem.model": ("Environment", "Agent", "Team", "TwoLayerMDP"),
    "problem.task": ("Task",),
    "problem.structure": ("Structure", "Outcomes"),
    "planning.passes": ("Plan", "set_threads"),
    "planning.planner": ("solve", "evaluate", "expected_cost", "optimistic_plan"),
    "planning.control_shares": ("Mixture",),
    "planning.flatten": ("flatten",),
    "planning.belief": ("Belief", "CostBelief"),
    "planning.scale": ("Scale", "StepDown"),
    "learning.counts": ("Counts", "Episode", "count"),
    "learning.structure_check": ("StructureCheck", "check_structure"),
    "learning.suggest": ("SuggestedStructure", "suggest_structure"),
    "learning.forgetting": ("HalfLife", "Window"),
    "learning.learner": ("Learner",),
    "learning.endless": ("EndlessLearner",),
    "learning.recorder": ("Recorder",),
    "learning.record": ("Record",),
    "learning.read_record": ("read_record",),
    "learning.protocol": ("SwitchingLearner",),
    "learning.algorithms": ("recommended", "ucrl2_mc", "posterior_sampling", "ucrl2", "greedy", "fixed", "oracle"),
    "insight.bounds": ("Bounds", "bounds"),
    "insight.estimate": ("Estimate", "estimate"),
    "insight.explain": ("Explanation", "explain"),
    "insight.frequencies": ("mean_plan",),
    "insight.summary": ("Summary", "summarise"),
    "fleet.history": ("History", "FleetHistory"),
    "fleet.simulate": ("rollout", "simulate", "simulate_fleet"),
    "fleet.fleet": ("Fleet",),
    "fleet.checkpoint": ("Checkpoint",),
    "fleet.load": ("load",),
    "experiments.comparison.compare": ("compare",),
    "experiments.comparison.result": ("Comparison",),
    "serve.client.client": ("Client",),
    "serve.client.async_client": ("AsyncClient",),
    "_base.archive": ("UnreadableFile",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

_PACKAGES = {
    "encode": "problem.encode",
    "engines": "fleet.engines",
    "gym": "gym",
    "worlds": "worlds",
}  # modules that are public under these names

__all__ = [*_MODULE, *_PACKAGES, "__version__"]  # noqa: PLE0604 (names are strings)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used; keep it, so that this happens once."""
    if name in _PACKAGES:
        return import_module(f"cede.{_PACKAGES[name]}")
    if name in _MODULE:
        value = getattr(import_module(f"cede.{_MODULE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'cede' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet."""
    return sorted(__all__)
