"""The learners by name. Each function makes a `Learner` with other settings.

recommended          the one to begin with: optimism over calibrated sets, which needs no tuning and promises nothing
ucrl2_mc             the paper's Algorithm 1: separate confidence sets for the agents and the environment
ucrl2                the baseline of the appendix: one confidence set for p(s' | s, d), which ignores actions
posterior_sampling   plans with tables drawn from the posterior of what it has seen
greedy               plans as if the frequencies seen so far were the truth (no confidence sets, no guarantee)
fixed                always one agent, or one policy
oracle               the best policy, for comparison: the only one that is told the true model
"""

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from cede._base import check
from cede.beliefs.scale import Scale, ScaleOf, scale_of
from cede.learners.baseline import checked_baseline
from cede.learners.endless import new_learner
from cede.learners.learner import MOST_SEED, Learner
from cede.learners.settings import (
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
    resolved,
)
from cede.planning.passes import Plan
from cede.planning.planner import solve
from cede.problem.features import Features, read_features
from cede.problem.model import Environment, TwoLayerMDP
from cede.problem.structure import Structure
from cede.problem.task import Task, checked_switching_policy, names_one_agent
from cede.rows.fading import Forget


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
    come sooner. Not together with at_most or at_least: docs/guarantees.md says why, and what to do instead.

    planning: "full" makes a whole plan; "greedy" backs up only the states that are visited, from values that are only ever raised
    (Efroni et al. 2019), which is much cheaper; docs/speed.md says what it costs in regret. replan: make a new plan for "every"
    episode; when some count has doubled since the last plan ("doubling", the rule of UCRL2, and the default where there is no
    horizon); or every n episodes, without horizon every n steps, with n an integer. seed: breaks ties between agents.

    Costs that the task does not state are learned: the plan uses the least mean within an interval (beliefs/belief.py).
    """
    owner = "ucrl2_mc"
    settings = Settings(
        owner,
        **checked_belief(owner, belief),
        delta=check.probability(owner, "delta", delta),
        scale=scale_of(owner, scale),
        **checked_knowledge(owner, task, known_agents, known_environment, structure),
        **checked_forgetting(owner, task, forget, forget_environment),
        **(limits := checked_limits(owner, task, at_most, at_least)),
        baseline=checked_baseline(owner, task, baseline, alpha, start),
        planning=planning,
        replan=resolved(owner, task, replan, limits["limits"], planning),
    )
    return new_learner(task, settings, seed=seed, checked=True)


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
    seed: int = 0,
) -> Learner:
    """Make the learner that we recommend where nothing is known of a problem but its sizes, costs and ends.

    It is UCRL2-MC with calibrated sets (beliefs/belief.py): balls of relative entropy whose scale follows from what was seen. An
    agent whose behaviour in a state was never seen may do anything there. And there are auditions: every member has control for a
    whole episode, one after the other, in the first n episodes of a team of n, in n from episode 8 n + 1 on, then from 64 n + 1,
    and so on, ever more seldom. So nobody is ignored for ever. With limits, with a baseline, or without a horizon there are none.

    There is no guarantee: with a baseline, too, it is only believed that it is kept to.

    All arguments are those of `ucrl2_mc`, and say more than nothing: what is declared or known is used.
    """
    owner = "recommended"
    knowledge = checked_knowledge(owner, task, known_agents, known_environment, structure)
    promised = at_most is not None or at_least is not None or baseline is not None
    settings = Settings(
        owner,
        radius="calibrated",
        **knowledge,
        **checked_forgetting(owner, task, forget, forget_environment),
        **(limits := checked_limits(owner, task, at_most, at_least)),
        baseline=checked_baseline(owner, task, baseline, alpha, start),
        auditions=task.horizon is not None and not promised,
        replan=resolved(owner, task, replan, limits["limits"]),
    )
    return new_learner(task, settings, seed=seed, checked=True)


def checked_prior(owner: str, prior: Any) -> float:
    """Check the prior of `posterior_sampling`, pseudo-counts of a row, and return it. 0 is refused: in `Settings` it means no
    sampling.
    """
    result = check.number(owner, "prior", prior)
    if not LEAST_PRIOR <= result <= MOST_PRIOR:
        check.fail(owner, "prior", result, f"from {LEAST_PRIOR:g} to {MOST_PRIOR:g}")
    return result


def checked_features(owner: str, task: Any, features: Any) -> Features | None:
    """Check the features of `posterior_sampling`, and return them; None stays None, True reads the names of the states."""
    if features is None:
        return None
    if features is True and checked_task(owner, task).state_names is None:
        check.fail(owner, "features", True, "a table: the states of this task have no names to read them from")
    return read_features(owner, checked_task(owner, task), None if features is True else features, None)


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
    settings = Settings(
        owner,
        radius=None,
        prior=checked_prior(owner, prior),
        features=checked_features(owner, task, features),
        **checked_knowledge(owner, task, known_agents, known_environment, structure),
        **checked_forgetting(owner, task, forget, forget_environment),
        **(limits := checked_limits(owner, task, at_most, at_least)),
        replan=resolved(owner, task, replan, limits["limits"]),
    )
    return new_learner(task, settings, seed=seed, checked=True)


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
    check.choice(owner, "radius", radius, ("appendix", "same-form"))
    settings = Settings(
        f"ucrl2 ({radius})",
        radius="appendix" if radius == "appendix" else "printed",
        delta=check.probability(owner, "delta", delta),
        scale=scale_of(owner, scale),
        flat=True,
        planning=planning,
        replan=resolved(owner, task, replan, None, planning),
    )
    return new_learner(checked_task(owner, task), settings, seed=seed, checked=True)


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
    settings = Settings(
        owner,
        radius=None,
        **checked_knowledge(owner, task, known_agents, known_environment, structure),
        **checked_forgetting(owner, task, forget, forget_environment),
        **(limits := checked_limits(owner, task, at_most, at_least)),
        planning=planning,
        replan=resolved(owner, task, replan, limits["limits"], planning),
    )
    return new_learner(task, settings, seed=seed, checked=True)


def fixed(task: Task, agent: int | str | ArrayLike | Plan) -> Learner:
    """Make a learner that never plans: in every episode one agent (index or name) has control, or one switching policy, (L, S, D)
    or a Plan, is used.
    """
    checked_task("fixed", task)
    if names_one_agent(agent):
        index = task.agent_index("fixed", "agent", agent)
        return new_learner(
            task,
            Settings(task.agents[index], radius=None, policy=task.always(index).reshape(-1, task.n_states, task.n_agents)),
            checked=True,
        )
    policy = checked_switching_policy("fixed", task, agent)
    return new_learner(task, Settings("fixed policy", radius=None, policy=policy), checked=True)


def oracle(mdp: TwoLayerMDP, *, seed: int = 0) -> Learner:
    """Make a learner that uses the best switching policy of the true model from the first episode on: its regret is 0. seed: of
    ties.
    """
    check.instance("oracle", "mdp", mdp, TwoLayerMDP)
    seed = check.integer("oracle", "seed", seed, 0, MOST_SEED)
    policy = solve(mdp, seed=seed).policy.reshape(-1, mdp.task.n_states, mdp.task.n_agents)
    return new_learner(mdp.task, Settings("oracle", radius=None, policy=policy), seed=seed, checked=True)
