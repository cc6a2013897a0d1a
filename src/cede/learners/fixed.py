"""Learners that never plan: always one agent or one policy; and the oracle, the only one that is given the true model."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Policy
from cede._base.calls import clear_call
from cede.learners.learner import MOST_SEED, Learner
from cede.learners.options import checked_task
from cede.learners.promises import checked_form
from cede.learners.settings import Settings
from cede.planning.passes import Plan
from cede.planning.planner import solve
from cede.problem.model import TwoLayerMDP
from cede.problem.policies import checked_switching_policy, names_one_agent
from cede.problem.task import Task


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Settings):
    """Settings of `fixed` and `oracle`."""

    switching: Policy  # (L, S, D) the policy that is used in every episode
    title: str = "fixed policy"  # name of the learner

    def __post_init__(self) -> None:
        check.name("Settings", "name", self.title)
        super().__post_init__()
        object.__setattr__(self, "switching", checked_form(self.owner, "policy", self.switching, 3, np.int16))

    @property
    def name(self) -> str:
        """Return the name of the learner: that of the agent, "fixed policy" or "oracle"."""
        return self.title

    @property
    def policy(self) -> Policy:
        """Return the policy that is used in every episode, (L, S, D)."""
        return self.switching

    def __repr__(self) -> str:
        return "oracle()" if self.title == "oracle" else f"fixed({self.title!r})"


@clear_call
def fixed(task: Task, agent: int | str | ArrayLike | Plan) -> Learner:
    """Make a learner that never plans: in every episode one agent (index or name) has control, or one switching policy, (L, S, D)
    or a Plan, is used.
    """
    checked_task("fixed", task)
    if names_one_agent(agent):
        index = task.agent_index("fixed", "agent", agent)
        policy = task.always(index).reshape(-1, task.n_states, task.n_agents)
        return Learner(task, Fixed(policy, task.agents[index]))
    return Learner(task, Fixed(checked_switching_policy("fixed", task, agent)))


def oracle(mdp: TwoLayerMDP, *, seed: int = 0) -> Learner:
    """Make a learner that uses the best switching policy of the true model from the first episode on: its regret is 0. seed: of
    ties.
    """
    check.instance("oracle", "mdp", mdp, TwoLayerMDP)
    seed = check.integer("oracle", "seed", seed, 0, MOST_SEED)
    policy = solve(mdp, seed=seed).policy.reshape(-1, mdp.task.n_states, mdp.task.n_agents)
    return Learner(mdp.task, Fixed(policy, "oracle"), seed=seed)
