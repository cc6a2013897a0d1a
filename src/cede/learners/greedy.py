"""Greedy: plans as if the frequencies counted so far were the truth. No confidence sets, no guarantee."""

from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from cede._base.calls import clear_call
from cede.learners.learner import Learner
from cede.learners.options import (
    ForgetRules,
    FullPlans,
    Knowledge,
    Planning,
    Plans,
    Replan,
    checked_forgetting,
    checked_knowledge,
    checked_plans,
)
from cede.learners.promises import ShareLimits, checked_limits
from cede.learners.settings import Settings
from cede.problem.model import Environment
from cede.problem.structure import Structure
from cede.problem.task import Task
from cede.rows.fading import Forget


@dataclass(frozen=True, eq=False, repr=False)
class Greedy(Settings):
    """Settings of `greedy`."""

    knowledge: Knowledge = Knowledge()
    forgetting: ForgetRules = ForgetRules()
    limits: ShareLimits | None = None
    plans: Plans = FullPlans()

    name = "greedy"


@clear_call
def greedy(
    task: Task,
    *,
    structure: Structure | None = None,
    known_agents: Mapping[str, ArrayLike] | None = None,
    known_environment: Environment | None = None,
    forget: Forget | Mapping[str, Forget] | None = None,
    forget_environment: Forget | None = None,
    at_most: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
    planning: Planning = "full",
    replan: Replan = None,
    seed: int = 0,
) -> Learner:
    """Make a learner that plans as if the frequencies seen so far were the truth; rows that were not seen count as uniform.

    It does not explore, and may settle on the wrong agent for ever. The arguments mean the same as for `ucrl2_mc`.
    """
    owner = "greedy"
    settings = Greedy(
        knowledge=checked_knowledge(owner, task, known_agents, known_environment, structure),
        forgetting=checked_forgetting(owner, task, forget, forget_environment),
        limits=(limits := checked_limits(owner, task, at_most, at_least)),
        plans=checked_plans(owner, task, planning, replan, limits),
    )
    return Learner(task, settings, seed=seed)
