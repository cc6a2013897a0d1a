"""Make learners by the names that the command line gives them (`--method`, `--radii`)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cede._base import check
from cede.beliefs.registry import sets_that_allow
from cede.beliefs.scale import Scale
from cede.learners.greedy import greedy
from cede.learners.learner import Learner
from cede.learners.posterior_sampling import posterior_sampling
from cede.learners.recommended import recommended
from cede.learners.ucrl2 import ucrl2
from cede.learners.ucrl2_mc import ucrl2_mc
from cede.problem.model import TwoLayerMDP

SCALED = {  # values of --radii that are no sets of their own
    "authors": "printed, times the authors' schedule; no guarantee",
    "small": "printed, times 0.1 (agents) and 0.01 (environment); no guarantee",
}


def radii_names() -> tuple[str, ...]:
    """Return the values of --radii: all sets that UCRL2-MC can have, and the printed ones by two scales."""
    return (*sets_that_allow("two layers"), *SCALED)


def scale_of(radii: str, episodes: int) -> Scale:
    """Return the scale for a value of --radii, in a run of so many episodes."""
    check.choice("learner", "radii", radii, radii_names())
    return {"authors": Scale.authors(episodes), "small": Scale(0.1, 0.01)}.get(radii, Scale())


def make_learner(
    mdp: TwoLayerMDP,
    method: str,
    delta: float,
    radii: str,
    episodes: int,
    seed: int,
    *,
    known: Sequence[str] = (),
    structured: bool = False,
    **ways: Any,
) -> Learner:
    """Make a learner from options of the command line.

    method: recommended, ucrl2-mc, posterior-sampling, ucrl2, ucrl2-same-form or greedy; known: names of agents whose policies it
    knows (UCRL2 cannot use them: it learns one table for each agent, pooled over time, as in the appendix); structured: use the
    structure that comes with the world; ways: planning, replan, at_most, at_least, and for UCRL2-MC baseline, alpha and start.
    Raises ValueError if a method does not have an option.
    """
    limits = {name: ways.pop(name, None) for name in ("at_most", "at_least")}
    if "baseline" in ways and method not in ("ucrl2-mc", "recommended"):
        check.fail(method, "baseline", ways["baseline"], "left out: it has no sets to tell what deviating costs")
    scale, belief = scale_of(radii, episodes), "printed" if radii in SCALED else radii
    knowledge: dict[str, Any] = {"known_agents": {agent.name: agent.policy for agent in mdp.team.agents if agent.name in known}}
    if structured:
        knowledge["structure"] = mdp.structure
    if method == "greedy":
        return greedy(mdp.task, seed=seed, **limits, **knowledge, **ways)
    if method in ("posterior-sampling", "recommended"):
        if ways.pop("planning", "full") != "full":
            check.fail(method.replace("-", "_"), "planning", "'greedy'", "'full': it makes whole plans")
        make = posterior_sampling if method == "posterior-sampling" else recommended
        return make(mdp.task, seed=seed, **limits, **knowledge, **ways)
    if method == "ucrl2-mc":
        return ucrl2_mc(mdp.task, delta=delta, scale=scale, belief=belief, seed=seed, **limits, **knowledge, **ways)
    for name, wanted in (("structured", structured), (f"radii {belief}", belief != "printed"), *limits.items()):
        if wanted:
            check.fail(method, name, "asked for", "left out: it is the baseline of the paper, as it is there")
    radius = "appendix" if method == "ucrl2" else "same-form"
    task = replace(mdp.task, varies_with=None) if known else mdp.task
    return ucrl2(task, delta=delta, radius=radius, scale=scale, seed=seed, **ways)
