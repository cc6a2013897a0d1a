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
    from cede import insight as insight
    from cede import testing as testing
    from cede import worlds as worlds
    from cede._base.archive import UnreadableFile as UnreadableFile
    from cede.beliefs.scale import Scale as Scale
    from cede.client.async_client import AsyncClient as AsyncClient
    from cede.client.client import Client as Client
    from cede.comparison.compare import compare as compare
    from cede.features import encode as encode
    from cede.fleet import engines as engines
    from cede.fleet.checkpoint import Checkpoint as Checkpoint
    from cede.fleet.fleet import Fleet as Fleet
    from cede.fleet.load import load as load
    from cede.fleet.replay import replay as replay
    from cede.fleet.simulate import rollout as rollout
    from cede.fleet.simulate import simulate as simulate
    from cede.fleet.simulate import simulate_fleet as simulate_fleet
    from cede.insight.estimating import estimate as estimate
    from cede.insight.explaining import explain as explain
    from cede.learners.fixed import fixed as fixed
    from cede.learners.fixed import oracle as oracle
    from cede.learners.greedy import greedy as greedy
    from cede.learners.learner import Learner as Learner
    from cede.learners.posterior_sampling import posterior_sampling as posterior_sampling
    from cede.learners.recommended import recommended as recommended
    from cede.learners.ucrl2 import ucrl2 as ucrl2
    from cede.learners.ucrl2_mc import ucrl2_mc as ucrl2_mc
    from cede.planning.planner import evaluate as evaluate
    from cede.planning.planner import expected_cost as expected_cost
    from cede.planning.planner import solve as solve
    from cede.problem.model import Agent as Agent
    from cede.problem.model import Environment as Environment
    from cede.problem.model import Team as Team
    from cede.problem.model import TwoLayerMDP as TwoLayerMDP
    from cede.problem.structure import Outcomes as Outcomes
    from cede.problem.structure import Structure as Structure
    from cede.problem.task import Task as Task
    from cede.rows.fading import HalfLife as HalfLife
    from cede.rows.fading import Window as Window
    from cede.steps.read_record import read_record as read_record

# The module that each public name is imported from.
_HOME = {
    "problem.model": ("Environment", "Agent", "Team", "TwoLayerMDP"),
    "problem.task": ("Task",),
    "problem.structure": ("Structure", "Outcomes"),
    "steps.read_record": ("read_record",),
    "planning.planner": ("solve", "evaluate", "expected_cost"),
    "beliefs.scale": ("Scale",),
    "rows.fading": ("HalfLife", "Window"),
    "learners.learner": ("Learner",),
    "learners.recommended": ("recommended",),
    "learners.ucrl2_mc": ("ucrl2_mc",),
    "learners.posterior_sampling": ("posterior_sampling",),
    "learners.ucrl2": ("ucrl2",),
    "learners.greedy": ("greedy",),
    "learners.fixed": ("fixed", "oracle"),
    "insight.estimating": ("estimate",),
    "insight.explaining": ("explain",),
    "fleet.replay": ("replay",),
    "fleet.simulate": ("rollout", "simulate", "simulate_fleet"),
    "fleet.fleet": ("Fleet",),
    "fleet.checkpoint": ("Checkpoint",),
    "fleet.load": ("load",),
    "comparison.compare": ("compare",),
    "client.client": ("Client",),
    "client.async_client": ("AsyncClient",),
    "_base.archive": ("UnreadableFile",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

_PACKAGES = {
    "encode": "features.encode",
    "engines": "fleet.engines",
    "gym": "gym",
    "insight": "insight",
    "testing": "testing",
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
