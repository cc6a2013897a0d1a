"""UCRL2, the baseline of the appendix: one confidence set for p(s' | s, d), which ignores actions."""

from cede._base import check
from cede.beliefs.scale import Scale, ScaleOf, scale_of
from cede.learners.algorithms import FORMS, UCRL2
from cede.learners.learner import Learner
from cede.learners.options import Planning, Replan, checked_plans, checked_task
from cede.problem.task import Task


def ucrl2(
    task: Task,
    *,
    delta: float = 0.1,
    radius: str = "appendix",
    scale: Scale | ScaleOf = 1.0,
    planning: Planning = "full",
    replan: Replan = None,
    seed: int = 0,
) -> Learner:
    """Make a UCRL2 learner for the switching problem (Algorithm 2 of the appendix): optimism over p(s' | s, d), ignoring actions.

    radius: "appendix", as printed there; or "same-form", the form of UCRL2-MC's radius for a table of this size, which is narrower.
    How large the gain of UCRL2-MC looks depends on this choice. scale: as for `ucrl2_mc`; of a `Scale` the environment's part is
    used. All other arguments: as for `ucrl2_mc`.
    """
    owner = "ucrl2"
    settings = UCRL2(
        form=check.choice(owner, "radius", radius, tuple(FORMS)),
        delta=check.probability(owner, "delta", delta),
        scale=scale_of(owner, scale),
        plans=checked_plans(owner, checked_task(owner, task), planning, replan),
    )
    return Learner(task, settings, seed=seed)
