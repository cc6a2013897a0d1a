"""Learners by the names that the command line has for them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cede.belief import Scale
from cede.learners import Learner, greedy, ucrl2, ucrl2_mc
from cede.model import TwoLayerMDP


def scale_of(radii: str, episodes: int) -> Scale:
    """printed: as they are; authors: their schedule for so many episodes; small: constants."""
    return {"printed": Scale(), "authors": Scale.authors(episodes), "small": Scale(0.1, 0.01)}[radii]


def make_learner(
    mdp: TwoLayerMDP,
    method: str,
    delta: float,
    scale: Scale,
    seed: int,
    *,
    known: Sequence[str] = (),
    **ways: Any,
) -> Learner:
    """ucrl2-mc, ucrl2, ucrl2-same-form or greedy. known: agents that need not be learned; UCRL2 has no use for that, and learns
    one table for each agent, pooled over time, as in the appendix. ways: planning and replan.
    """
    policies = {agent.name: agent.policy for agent in mdp.team.agents if agent.name in known}
    if method == "greedy":
        return greedy(mdp.task, known_agents=policies, seed=seed, **ways)
    if method == "ucrl2-mc":
        return ucrl2_mc(mdp.task, delta=delta, scale=scale, known_agents=policies, seed=seed, **ways)
    radius = "appendix" if method == "ucrl2" else "same-form"
    task = replace(mdp.task, varies_with=None) if known else mdp.task
    return ucrl2(task, delta=delta, radius=radius, scale=scale, seed=seed, **ways)
