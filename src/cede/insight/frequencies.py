"""Observed frequencies as beliefs of width 0, and the best plan under them."""

from dataclasses import dataclass

from cede._base import check
from cede._base.arrays import Floats
from cede.beliefs.belief import Belief
from cede.learners.learner import Learner
from cede.learners.limits import prices_of_steps
from cede.learners.options import Knowledge
from cede.learners.settings import Settings
from cede.learners.state import LearnerState
from cede.learners.working import WorkingLearner
from cede.planning.passes import Plan, best_plan


@dataclass(frozen=True, eq=False, repr=False)
class CountsAlone(Settings):
    """Settings of a learner that has counts and what is known, and nothing else: no sets, no limits, nothing fades.

    prior: pseudo-counts of a row if tables are drawn; 0: frequencies are taken for the truth.
    """

    prior: float = 0.0
    knowledge: Knowledge = Knowledge()

    name = "greedy"


def mean_plan(learner: Learner) -> Plan:
    """Return the best plan under the observed frequencies; rows without visits count as uniform.

    It does not explore: deploy it where learning has ended. The plan of a learner explores: with posterior sampling, for example,
    it is the best plan for a random table. Prices of limits count.

    learner: any but UCRL2, which has no frequencies of agents and environment.
    """
    owner = "mean_plan"
    check.instance(owner, "learner", learner, Learner)
    if learner.settings.flat:
        check.fail(owner, "learner", learner.settings.name, "one that tells agents and environment apart")
    costs, known = learner.costs.middle(owner, learner.task), learner.settings.knowledge.environment
    start = None if known is None else known.start
    return best_plan(costs, *frequencies(learner), seed=learner.seed, start=start, prices=prices_in_force(learner))


def frequencies(learner: Learner) -> tuple[Belief, Belief]:
    """Return the observed frequencies of the agents and of the environment, as beliefs of width 0.

    For UCRL2 it returns the learner's beliefs, whose centres are frequencies: its agents take their own action with certainty.
    """
    if learner.settings.flat:
        return learner.beliefs
    with learner.turn.lock:
        settings, state = CountsAlone(knowledge=learner.settings.knowledge), LearnerState(learner.state.counts)
        return WorkingLearner(learner.task, settings, state, learner.shared_environment).beliefs()


def prices_in_force(learner: Learner) -> Floats | None:
    """Return the prices of limits per step of each agent, (D,); None if the learner has no limits."""
    return prices_of_steps(learner.task, learner._working.arrays) if learner.prices else None
