"""Whether settings fit a task: shapes and names, and which algorithms can have which tasks."""

import numpy as np

from cede._base import check
from cede.learners.options import checked_environment
from cede.learners.promises import Baseline, ShareLimits
from cede.learners.settings import Settings
from cede.problem.policies import checked_switching_policy, known_policies
from cede.problem.structure import checked_structure
from cede.problem.task import Task


def check_fits(owner: str, task: Task, settings: Settings) -> None:
    """Check settings that come from a file against the task of the learner."""
    for table, policies in settings.known_agents.items():
        name = task.tables[check.index(owner, "the number of a known agent", table, len(task.tables))]
        shape = (int(task.layout.n_slots[table]), task.n_states, task.n_actions)
        if policies.shape != shape:
            check.fail(owner, f"the shape of the policy of {name!r}", policies.shape, str(shape))
        known_policies(owner, task, {name: policies.reshape(task.slot_shape(table))})
    checked_environment(owner, task, settings.known_environment)
    checked_structure(owner, settings.structure, task.n_states, task.n_actions, task.tables)
    if settings.features is not None and len(settings.features.codes) != task.n_states:
        check.fail(owner, "the number of rows of features", len(settings.features.codes), f"{task.n_states}, the number of states")
    check_task(owner, task, settings)
    for name in settings.forget:
        check.choice(owner, "forget", name, task.tables)
    if isinstance(settings.promise, ShareLimits | Baseline):
        settings.promise.check_fits(owner, task)
    if settings.policy is not None:
        checked_switching_policy(owner, task, settings.policy if task.horizon is not None else settings.policy[0])


def check_task(owner: str, task: Task, settings: Settings) -> None:
    """Check that a learner with these settings can be made for a task: without horizon, with ends, with unknown costs."""
    if settings.structure is not None and settings.structure.environment is not None and task.periods is not None:
        expected = "left out where the environment varies with time: its cases would have to hold at all times"
        check.fail(owner, "structure.environment", "given", expected)
    if settings.known_environment is not None and not np.array_equal(settings.known_environment.periods, task.periods):
        check.fail(owner, "the periods of known_environment", "others", "those of the task")
    if settings.planning == "greedy" and task.enter_cost is not None and np.isnan(task.enter_cost).any():
        check.fail(owner, "planning", "'greedy'", "'full' where costs of arriving are learned: they change values everywhere")
    if settings.baseline is not None and task.discount is not None and task.horizon is not None:
        check.fail(owner, "discount", task.discount, "left out with a baseline: its proofs add up whole episodes")
    if settings.features is not None and not modelled_agents(task, settings) and not models_environment(task, settings):
        check.fail(owner, "features", "given", "left out where all agents and the environment are known or declared")
    if task.horizon is not None:
        return
    if settings.features is not None:
        check.fail(owner, "features", "given", "left out without a horizon: priors are made anew between episodes")
    if settings.baseline is not None:
        check.fail(owner, "baseline", str(settings.baseline), "left out without a horizon: its proofs count whole episodes")
    if settings.planning == "greedy":
        check.fail(owner, "planning", "'greedy'", "'full' without a horizon: greedy planning goes through an episode")
    if settings.trial_episodes:
        check.fail(owner, "trial_episodes", True, "False without a horizon: there are no whole episodes")
    if settings.replan == "every" and settings.policy is None:
        check.fail(owner, "replan", "'every'", "'doubling' or a number of steps without a horizon: there are no episodes")
    if callable(settings.scale.agents) or callable(settings.scale.environment):
        check.fail(owner, "scale", str(settings.scale), "numbers without a horizon: a schedule goes by episodes")


def modelled_agents(task: Task, settings: Settings) -> set[str]:
    """Return the agents, by their names in `task.tables`, whose priors are made from features: neither known nor declared."""
    declared = {} if settings.structure is None else settings.structure.agents
    return {name for table, name in enumerate(task.tables) if table not in settings.known_agents and name not in declared}


def models_environment(task: Task, settings: Settings) -> bool:
    """Return whether the environment's prior is made from features: it is neither known nor declared, and the same at all times."""
    return settings.known_environment is None and settings.outcomes is None and task.n_periods == 1
