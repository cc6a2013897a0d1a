"""Learners by name: each function tells a Learner how to count, believe and plan.

ucrl2_mc             the paper's Algorithm 1: separate confidence sets for the agents and the environment
ucrl2                the baseline of the appendix: one confidence set for p(s' | s, d), blind to actions
posterior_sampling   plans for tables drawn from what it has seen
greedy               takes what it has seen for the truth (no confidence sets, no guarantee)
fixed                one agent, or one policy, always
oracle               the best policy, for comparison: it alone is told the truth
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede._base import check
from cede.learning.baseline import checked_baseline
from cede.learning.forgetting import Forget
from cede.learning.learner import Learner
from cede.learning.settings import (
    LEAST_PRIOR,
    MOST_PRIOR,
    Planning,
    Replan,
    Settings,
    checked_belief,
    checked_forgetting,
    checked_knowledge,
    checked_limits,
    checked_task,
)
from cede.planning.planner import solve
from cede.planning.scale import Scale, ScaleOf, scale_of
from cede.problem.model import Environment, TwoLayerMDP
from cede.problem.structure import Structure
from cede.problem.task import Task, checked_switching_policy


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
    baseline: int | str | ArrayLike | None = None,
    alpha: float = 0.1,
    start: ArrayLike | None = None,
    planning: Planning = "full",
    replan: Replan = "every",
    seed: int = 0,
) -> Learner:
    """UCRL2-MC (Algorithm 1): optimism over separate confidence sets of every agent and of the environment.

    With scale 1 the truth lies in all sets with probability 1 - delta and the regret obeys Theorem 2, if every step costs less than
    1. known_agents: policies that need not be learned, by name. known_environment: likewise.

    belief: "printed", the L1 balls of the paper, or "bernstein", an interval around each outcome (see belief.py), narrower where
    outcomes are few; or {"agents": ..., "environment": ...}. structure: which rows share one distribution; it learns far faster
    then, and the guarantee stays if the structure is true. forget: how fast what agents did is forgotten, for all or by name;
    forget_environment: likewise.

    at_most, at_least: shares of the steps that agents may or must have control, as in at_most={"human": 0.3}; what they cost is
    adjusted after every episode until their shares, on average, are within. baseline: an agent, or a switching policy, than which
    the learner must not be worse: it deviates only when it can prove that the expected cost of all episodes so far stays within
    1 + alpha of the baseline's, with probability 1 - 2 delta if radii are unscaled and its decisions are followed. start: (S,)
    probabilities of the first state, if they are known; proofs come sooner then.

    planning="greedy" backs up only the states that are visited, from values that are only ever raised (Efroni et al. 2019): far
    cheaper, and what it costs in regret is in docs/speed.md. replan: plan anew for "every" episode, when some count has
    doubled since the last plan ("doubling", the rule of UCRL2), or for every n-th episode.
    """
    owner = "ucrl2_mc"
    told = Settings(
        owner,
        **checked_belief(owner, belief),
        delta=check.probability(owner, "delta", delta),
        scale=scale_of(owner, scale),
        **checked_knowledge(owner, task, known_agents, known_environment, structure),
        **checked_forgetting(owner, task, forget, forget_environment),
        **checked_limits(owner, task, at_most, at_least),
        baseline=checked_baseline(owner, task, baseline, alpha, start),
        planning=planning,
        replan=replan,
    )
    return Learner(task, told, seed=seed)


def checked_prior(owner: str, prior: Any) -> float:
    """Check the pseudo-counts of a row; `Settings` takes 0 for a learner that does not sample."""
    result = check.number(owner, "prior", prior)
    if not LEAST_PRIOR <= result <= MOST_PRIOR:
        check.fail(owner, "prior", result, f"from {LEAST_PRIOR:g} to {MOST_PRIOR:g}")
    return result


def posterior_sampling(
    task: Task,
    *,
    prior: float = 1.0,
    structure: Structure | None = None,
    known_agents: Mapping[str, ArrayLike] | None = None,
    known_environment: Environment | None = None,
    forget: Forget | Mapping[str, Forget] | None = None,
    forget_environment: Forget | None = None,
    at_most: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
    replan: Replan = "every",
    seed: int = 0,
) -> Learner:
    """Posterior sampling (Strens 2000; Osband, Russo and Van Roy 2013) with a Dirichlet posterior for every row of every agent and
    of the environment: for each plan one table is drawn, and the plan is the best for it. No confidence sets, no guarantee for a
    given truth.

    prior: pseudo-counts of every row, spread evenly over its outcomes. The draw follows from the seed, the episode and what was
    seen: in a fleet give every learner a seed of its own, or all draw the same table of what they share. at_most, at_least: as for
    `ucrl2_mc`.
    """
    owner = "posterior_sampling"
    told = Settings(
        owner,
        radius=None,
        prior=checked_prior(owner, prior),
        **checked_knowledge(owner, task, known_agents, known_environment, structure),
        **checked_forgetting(owner, task, forget, forget_environment),
        **checked_limits(owner, task, at_most, at_least),
        replan=replan,
    )
    return Learner(task, told, seed=seed)


def ucrl2(
    task: Task,
    *,
    delta: float = 0.1,
    radius: str = "appendix",
    scale: Scale | ScaleOf = 1.0,
    planning: Planning = "full",
    replan: Replan = "every",
    seed: int = 0,
) -> Learner:
    """UCRL2 on the switching problem (Algorithm 2 of the appendix): optimism over p(s' | s, d).

    radius: "appendix", as printed there, or "same-form", that of UCRL2-MC for a table of this size, which is narrower. Which one
    the baseline gets decides how large the gain of UCRL2-MC looks. Of a Scale it takes the environment's part.
    """
    owner = "ucrl2"
    check.choice(owner, "radius", radius, ("appendix", "same-form"))
    told = Settings(
        f"ucrl2 ({radius})",
        radius="appendix" if radius == "appendix" else "printed",
        delta=check.probability(owner, "delta", delta),
        scale=scale_of(owner, scale),
        flat=True,
        planning=planning,
        replan=replan,
    )
    return Learner(checked_task(owner, task), told, seed=seed)


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
    replan: Replan = "every",
    seed: int = 0,
) -> Learner:
    """Plans as if the frequencies seen so far were the truth, unseen rows uniform. May settle on the wrong agent for ever."""
    owner = "greedy"
    told = Settings(
        owner,
        radius=None,
        **checked_knowledge(owner, task, known_agents, known_environment, structure),
        **checked_forgetting(owner, task, forget, forget_environment),
        **checked_limits(owner, task, at_most, at_least),
        planning=planning,
        replan=replan,
    )
    return Learner(task, told, seed=seed)


def fixed(task: Task, agent: int | str | ArrayLike) -> Learner:
    """One agent (index or name), or one switching policy (L, S, D), in every episode."""
    checked_task("fixed", task)
    if check.ndim(agent) == 0:
        index = task.agent_index("fixed", "agent", agent)
        return Learner(task, Settings(task.agents[index], radius=None, policy=task.always(index)))
    policy = checked_switching_policy("fixed", task, np.asarray(agent)).copy()
    return Learner(task, Settings("fixed policy", radius=None, policy=policy))


def oracle(mdp: TwoLayerMDP, *, seed: int = 0) -> Learner:
    """The best switching policy from the first episode on: regret 0."""
    return Learner(mdp.task, Settings("oracle", radius=None, policy=solve(mdp, seed=seed).policy), seed=seed)
