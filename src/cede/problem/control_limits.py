"""Limits of control: the least and the most share of the steps in which each member of a team may act."""

from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats
from cede.problem.names import name_index
from cede.problem.task import Task

CLOSE = 1e-9  # sums of shares that miss 1 by less are rounding
LEAST_WORTH = 1e-250  # least discount^t of a step: below, prices, which are not discounted, would overflow


def limits_of(owner: str, task: Task, at_most: Any, at_least: Any) -> tuple[Floats, Floats]:
    """Check limits of control given by name, and return the least and the most share of each member, two (members,) arrays.

    owner: named in errors. at_most, at_least: shares by name, as in {"human": 0.3}, or None. Members that are not named get the
    limits 0 and 1.
    """
    ends = [np.zeros(len(task.members)), np.ones(len(task.members))]
    for name, shares, end in (("at_least", at_least, ends[0]), ("at_most", at_most, ends[1])):
        for agent, share in check.mapping(owner, name, shares, "shares by the agents' names, as in {'human': 0.3}").items():
            value = check.number(owner, f"{name}[{agent!r}]", share, least=0.0)
            if value > 1.0:
                check.fail(owner, f"{name}[{agent!r}]", value, "a share, at most 1")
            end[name_index(owner, f"an agent of {name}", agent, task.members)] = value
    least, most = ends
    if task.weighs_steps and task.layout.factor ** (task.plan_steps - 1) < LEAST_WORTH:
        expected = "larger with at_most or at_least: nothing that the last steps cost would count any more beside a share of them"
        check.fail(owner, "discount", task.discount, expected)
    for agent, name in enumerate(task.members):
        if least[agent] > most[agent]:
            check.fail(owner, f"at_least[{name!r}]", least[agent], f"at most {most[agent]}, its at_most")
    if least.sum() > 1.0 + CLOSE:
        check.fail(owner, "the sum of at_least", f"{least.sum():g}", "at most 1: somebody is in control at every step")
    if most.sum() < 1.0 - CLOSE:
        check.fail(owner, "the sum of at_most over all agents", f"{most.sum():g}", "at least 1: somebody must be in control")
    return least, most
