"""The learner to begin with: optimism over calibrated sets, which needs no tuning and promises nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from cede._base.calls import clear_call
from cede.learners.learner import Learner
from cede.learners.options import (
    BeliefNames,
    ForgetRules,
    FullPlans,
    Knowledge,
    Replan,
    checked_forgetting,
    checked_full_plans,
    checked_knowledge,
)
from cede.learners.promises import Baseline, ShareLimits, TrialEpisodes, checked_baseline, checked_limits, checked_trials
from cede.learners.settings import Settings
from cede.planning.passes import Plan
from cede.problem.model import Environment
from cede.problem.structure import Structure
from cede.problem.task import Task
from cede.rows.fading import Forget

CALIBRATED = BeliefNames("calibrated")


@dataclass(frozen=True, eq=False, repr=False)
class Recommended(Settings):
    """Settings of `recommended`."""

    knowledge: Knowledge = Knowledge()
    forgetting: ForgetRules = ForgetRules()
    limits: ShareLimits | None = None
    baseline: Baseline | None = None
    trials: TrialEpisodes | None = TrialEpisodes()
    plans: FullPlans = FullPlans()

    name = "recommended"
    belief = CALIBRATED


@clear_call
def recommended(
    task: Task,
    *,
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
    replan: Replan = None,
    trials: bool | int | Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Learner:
    """Make the learner that we recommend where nothing is known of a problem but its sizes, costs and ends.

    It is UCRL2-MC with calibrated sets (beliefs/belief.py): balls of relative entropy whose scale follows from what was seen. An
    agent whose behaviour in a state was never seen may do anything there. And there are trial episodes: every member has control
    for a whole episode, one after the other, in the first n episodes of a team of n, in n from episode 8 n + 1 on, then from
    64 n + 1, and so on, ever more seldom. So nobody is ignored for ever. A member whose known costs alone are more than the mean
    cost of an episode so far is left out. `learner.next_trial` announces the next one. With limits or a baseline there are
    none unless `trials` is given; without a horizon there are none.

    trials: False for none; a number of steps, at the beginning of a trial episode, after which the plan takes over; or a mapping
    with some of "steps", "states" (the member has control only there), "agents" (who are tried) and "approval" (True: a trial
    episode takes place only after `learner.approve_trial`).

    There is no guarantee: with a baseline, too, it is only believed that it is kept to.

    All other arguments are those of `ucrl2_mc`: what is declared or known is used.
    """
    owner = "recommended"
    knowledge = checked_knowledge(owner, task, known_agents, known_environment, structure)
    forgetting = checked_forgetting(owner, task, forget, forget_environment)
    limits = checked_limits(owner, task, at_most, at_least)
    promised = checked_baseline(owner, task, baseline, alpha, start)
    plans = checked_full_plans(owner, task, replan, limits)
    trials = False if trials is None and (limits is not None or promised is not None) else trials
    tried = checked_trials(owner, task, trials)
    return Learner(task, Recommended(knowledge, forgetting, limits, promised, tried, plans), seed=seed)
