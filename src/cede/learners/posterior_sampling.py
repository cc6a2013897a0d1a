"""Posterior sampling: plans with tables drawn from the posterior of what was counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from cede._base import check
from cede._base.calls import clear_call
from cede.beliefs.posterior import checked_prior
from cede.learners.learner import Learner
from cede.learners.options import (
    ForgetRules,
    FullPlans,
    Knowledge,
    Replan,
    checked_forgetting,
    checked_full_plans,
    checked_knowledge,
    checked_task,
)
from cede.learners.promises import ShareLimits, checked_limits
from cede.learners.settings import Settings
from cede.problem.features import Features, read_features
from cede.problem.model import Environment
from cede.problem.structure import Structure
from cede.problem.task import Task
from cede.rows.fading import Forget


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorSampling(Settings):
    """Settings of `posterior_sampling`."""

    prior: float = 1.0
    features: Features | None = None
    knowledge: Knowledge = Knowledge()
    forgetting: ForgetRules = ForgetRules()
    limits: ShareLimits | None = None
    plans: FullPlans = FullPlans()

    name = "posterior_sampling"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_prior(self.owner, self.prior)


def checked_features(owner: str, task: Any, features: Any) -> Features | None:
    """Check the features of `posterior_sampling`, and return them; None stays None, True reads the names of the states."""
    if features is None:
        return None
    if features is True and checked_task(owner, task).state_names is None:
        check.fail(owner, "features", True, "a table: the states of this task have no names to read them from")
    return read_features(owner, checked_task(owner, task), None if features is True else features, None)


@clear_call
def posterior_sampling(
    task: Task,
    *,
    prior: float = 1.0,
    features: Any = None,
    structure: Structure | None = None,
    known_agents: Mapping[str, ArrayLike] | None = None,
    known_environment: Environment | None = None,
    forget: Forget | Mapping[str, Forget] | None = None,
    forget_environment: Forget | None = None,
    at_most: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
    replan: Replan = None,
    seed: int = 0,
) -> Learner:
    """Make a learner by posterior sampling (Strens 2000; Osband, Russo and Van Roy 2013).

    Every row of every agent and of the environment has a Dirichlet posterior. For each plan one table is drawn from it, and the
    plan is the best one for this table. There are no confidence sets, and no guarantee for a given truth.

    prior: pseudo-counts of every row, spread evenly over its outcomes. features: what tells the states apart, as for
    `suggest_structure`, or True to read it from the names of the states; models of what comes next, fitted to what was seen, then
    add to the priors of rows that were not seen, as far as they predict well (docs/structure.md).

    seed: of ties and of the draws. A draw follows from the seed, the episode and what was seen, so give each learner of a fleet a
    seed of its own; otherwise all draw the same table of the environment they share. All other arguments: as for `ucrl2_mc`.
    """
    owner = "posterior_sampling"
    settings = PosteriorSampling(
        prior=checked_prior(owner, prior),
        features=checked_features(owner, task, features),
        knowledge=checked_knowledge(owner, task, known_agents, known_environment, structure),
        forgetting=checked_forgetting(owner, task, forget, forget_environment),
        limits=(limits := checked_limits(owner, task, at_most, at_least)),
        plans=checked_full_plans(owner, task, replan, limits),
    )
    return Learner(task, settings, seed=seed)
