"""UCRL2-MC, the paper's Algorithm 1: optimism over separate confidence sets of every agent and of the environment."""

from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from cede._base import check
from cede._base.calls import clear_call
from cede.beliefs.scale import Scale, ScaleOf, scale_of
from cede.learners.learner import Learner
from cede.learners.options import (
    BeliefNames,
    ForgetRules,
    FullPlans,
    Knowledge,
    Planning,
    Plans,
    Replan,
    checked_belief,
    checked_forgetting,
    checked_knowledge,
    checked_plans,
)
from cede.learners.promises import Baseline, ShareLimits, checked_baseline, checked_limits
from cede.learners.settings import Settings
from cede.planning.passes import Plan
from cede.problem.model import Environment
from cede.problem.structure import Structure
from cede.problem.task import Task
from cede.rows.fading import Forget


@dataclass(frozen=True, eq=False, repr=False)
class UCRL2MC(Settings):
    """Settings of `ucrl2_mc`."""

    belief: BeliefNames = BeliefNames()
    delta: float = 0.1
    scale: Scale = Scale()
    knowledge: Knowledge = Knowledge()
    forgetting: ForgetRules = ForgetRules()
    limits: ShareLimits | None = None
    baseline: Baseline | None = None
    plans: Plans = FullPlans()

    name = "ucrl2_mc"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.allows("two layers"):
            both = f"{self.belief.environment!r} and {self.belief.agents!r}"
            check.fail(self.owner, "radius", both, "sets that this learner can have")


@clear_call
def ucrl2_mc(
    task: Task,
    *,
    delta: float = 0.1,
    scale: Scale | ScaleOf = 1.0,
    belief: str | Mapping[str, str] = "printed",
    structure: Structure | None = None,
    known_agents: Mapping[str, ArrayLike] | None = None,
    known_environment: Environment | None = None,
    forget: Forget | Mapping[str, Forget] | None = None,
    forget_environment: Forget | None = None,
    at_most: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
    baseline: int | str | ArrayLike | Plan | None = None,
    alpha: float = 0.1,
    start: ArrayLike | None = None,
    planning: Planning = "full",
    replan: Replan = None,
    seed: int = 0,
) -> Learner:
    """Make a UCRL2-MC learner (Algorithm 1): optimism over separate confidence sets of every agent and of the environment.

    With scale 1, all sets contain the truth with probability 1 - delta, and the regret obeys Theorem 2 if every step costs less
    than 1.

    task: what the learner is told of the problem, as in `mdp.task`. delta: the probability with which the sets may fail. scale: the
    factor by which radii are multiplied: a number, a function of the episode k = 1, 2, ..., or a `Scale` with one for each layer.

    belief: the kind of the sets: "printed", the L1 balls of the paper, or another name of the table in docs/guarantees.md; or
    {"agents": ..., "environment": ...}. structure: which places share one distribution. The learner then learns much faster, and
    the guarantee holds if the structure is true.

    known_agents: policies that need not be learned, by the agents' names, (S, A), (L, S, A) or (D, S, A) as in `Agent`.
    known_environment: an Environment whose transitions need not be learned.

    forget: how fast counts of the agents fade, a `HalfLife` or `Window` for all agents, or one for each name. forget_environment:
    the same for counts of the environment.

    at_most, at_least: limits of the share of the steps in which agents have control, by name, as in at_most={"human": 0.3}. The
    learner adds prices to the control costs and moves them after every episode, so that the shares of all steps come to lie within
    the limits.

    baseline: an agent (index or name) or a switching policy, (L, S, D) or a Plan, which the learner must not be much worse than. It
    deviates from the baseline only if it can prove that the expected cost of all episodes so far stays within 1 + alpha times that
    of the baseline. This holds with probability 1 - 2 delta if radii are not scaled and if the learner's choices are followed.
    alpha: the part of the baseline's cost that may be lost. start: (S,) probabilities of the first state, if known; proofs then
    come sooner. With at_most or at_least, too, the plan is made with the prices of the limits, and the baseline is kept to unless
    this plan is proven not to be much worse; docs/guarantees.md says what then holds of each.

    planning: "full" makes a whole plan; "greedy" backs up only the states that are visited, from values that are only ever raised
    (Efroni et al. 2019), which is much cheaper; docs/speed.md says what it costs in regret. replan: make a new plan for "every"
    episode; when some count has doubled since the last plan ("doubling", the rule of UCRL2, and the default where there is no
    horizon); or every n episodes, without horizon every n steps, with n an integer. seed: breaks ties between agents.

    Costs that the task does not state are learned: the plan uses the least mean within an interval (beliefs/belief.py).
    """
    owner = "ucrl2_mc"
    settings = UCRL2MC(
        belief=checked_belief(owner, belief),
        delta=check.probability(owner, "delta", delta),
        scale=scale_of(owner, scale),
        knowledge=checked_knowledge(owner, task, known_agents, known_environment, structure),
        forgetting=checked_forgetting(owner, task, forget, forget_environment),
        limits=(limits := checked_limits(owner, task, at_most, at_least)),
        baseline=checked_baseline(owner, task, baseline, alpha, start),
        plans=checked_plans(owner, task, planning, replan, limits),
    )
    return Learner(task, settings, seed=seed)
