"""UCRL2, the baseline of the appendix: one confidence set for p(s' | s, d), which ignores actions."""

from dataclasses import dataclass, field

from cede._base import check
from cede._base.calls import clear_call
from cede.beliefs.scale import Scale, ScaleOf, scale_of
from cede.learners.learner import Learner
from cede.learners.options import BeliefNames, FullPlans, Planning, Plans, Replan, checked_plans, checked_task
from cede.learners.settings import Settings
from cede.problem.task import Task

FORMS = {"appendix": "appendix", "same-form": "printed"}  # kinds of sets by the argument `radius`


@dataclass(frozen=True, eq=False, repr=False)
class UCRL2(Settings):
    """Settings of `ucrl2`."""

    form: str = field(default="appendix", metadata={"argument": "radius"})  # of the radius: "appendix" or "same-form"
    delta: float = 0.1
    scale: Scale = Scale()
    plans: Plans = FullPlans()

    flat = True

    def __post_init__(self) -> None:
        check.choice("ucrl2", "radius", self.form, tuple(FORMS))
        super().__post_init__()

    @property
    def name(self) -> str:
        """Return the name of the learner."""
        return f"ucrl2 ({self.form})"

    @property
    def belief(self) -> BeliefNames:
        """Return the kind of the set."""
        return BeliefNames(FORMS[self.form])


@clear_call
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
