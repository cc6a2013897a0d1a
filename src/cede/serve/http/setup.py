"""Reads environments and teams from requests or files, and refuses settings that cannot be served.

A plan of the service follows from counts and numbers of episodes alone (without a horizon, of steps). Settings whose learners keep
more state are refused.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cede._base import check
from cede._base.archive import load_arrays
from cede.learners.files import OLDEST, SCHEMA
from cede.learners.greedy import greedy
from cede.learners.learner import Learner
from cede.learners.posterior_sampling import posterior_sampling
from cede.learners.reading import unpack_learner
from cede.learners.recommended import recommended
from cede.learners.settings import Settings, for_newcomer
from cede.learners.ucrl2_mc import ucrl2_mc
from cede.problem.policies import known_policies
from cede.problem.task import Task
from cede.serve.served import Served

ALGORITHMS: dict[str, Callable[..., Learner]] = {
    function.__name__: function for function in (recommended, ucrl2_mc, posterior_sampling, greedy)
}
NOT_IN_JSON = ("task", "seed", "structure", "known_environment", "forget", "forget_environment")  # arguments of these
PRICES = ("control_cost", "switch_cost", "can_switch", "grab_cost")
OF_TEAM = ("agents", *PRICES, "start_agent", "varies_with", "takeover_delay", "on_takeover")
OF_TASK = tuple(name for name in inspect.signature(Task).parameters if name != "modes")
MOST_AGENTS, MOST_ROWS, MOST_ENTRIES = 1000, 10**7, 10**8  # limits: agents, states x actions, entries of a policy
MISSING = {"env_cost": math.nan, "enter_cost": math.nan, "switch_cost": math.inf, "grab_cost": math.inf}  # values for null


def checked(owner: str, task: Task, settings: Settings) -> Served:
    """Check that a learner can be served, and return its task and settings.

    Without a horizon every rule for replanning is accepted: the service plans as soon as it can.
    """
    if task.has_orders:
        check.fail(owner, "takeover_delay", "random", "a number of steps: the service does not know who an order led to")
    unit = "episodes" if task.horizon is not None else "steps"
    entries = task.plan_steps * task.n_states * task.n_agents
    if entries > MOST_ENTRIES:
        check.fail(owner, "horizon x states x agents", entries, f"at most {MOST_ENTRIES}")
    if settings.forgetting.any:
        check.fail(owner, "forget", "given", f"left out: it depends on the order of {unit}, which the service does not keep")
    if settings.limits is not None or settings.baseline is not None:
        name = "at_most or at_least" if settings.limits is not None else "baseline"
        check.fail(owner, name, "given", f"left out: it depends on the order of {unit}, which the service does not keep")
    if settings.planning != "full":
        check.fail(
            owner, "planning", repr(settings.planning), "'full': greedy planning needs values that do not follow from counts"
        )
    if task.horizon is not None and settings.replan not in ("every", 1):
        check.fail(owner, "replan", repr(settings.replan), "'every': the service plans whenever episodes were counted")
    if not settings.can_share:
        kind = "one table for all" if settings.flat else "one policy" if settings.policy is not None else "a known environment"
        check.fail(owner, "learner", f"{settings.name!r} with {kind}", "one that learns the environment, which its teams share")
    if task.learns_team_costs:
        expected = "known: the service learns costs of the environment only"
        check.fail(owner, "control_cost or switch_cost of the task", "not known (NaN)", expected)
    return Served(task, settings)


def without_null(given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace null in lists of costs by NaN (unknown) or infinity (hand-over not possible)."""

    def filled(value: Any, missing: float) -> Any:
        if isinstance(value, list):
            return [filled(part, missing) for part in value]
        return missing if value is None else value

    return {
        name: filled(value, MISSING[name]) if isinstance(value, list) and name in MISSING else value
        for name, value in given.items()
    }


def check_sizes(owner: str, given: Mapping[str, Any]) -> None:
    """Check the sizes of a task before any array of that size is made."""
    agents, delays = given.get("agents", ()), given.get("takeover_delay") or {}
    n = len(agents) if isinstance(agents, list) else 1
    steps = sum(delay for delay in (delays.values() if isinstance(delays, dict) else [delays]) if isinstance(delay, int))
    if n + n * steps > MOST_AGENTS:
        check.fail(owner, "the number of agents, and steps of slow hand-overs", n + n * steps, f"at most {MOST_AGENTS}")
    cost = given.get("env_cost")
    sizes = {"n_states": len(cost) if isinstance(cost, list) else 1, "n_actions": 1, "horizon": 1}
    sizes |= {name: given[name] for name in sizes if isinstance(given.get(name), int) and given[name] != 1}
    if sizes["n_states"] * sizes["n_actions"] > MOST_ROWS:
        check.fail(owner, "states x actions", sizes["n_states"] * sizes["n_actions"], f"at most {MOST_ROWS}")
    if sizes["n_states"] * sizes["horizon"] * n > MOST_ENTRIES:
        check.fail(owner, "horizon x states x agents", sizes["n_states"] * sizes["horizon"] * n, f"at most {MOST_ENTRIES}")


def environment_from(owner: str, task: Mapping[str, Any], learner: Mapping[str, Any]) -> Served:
    """Make task and settings from JSON.

    task: arguments of `cede.Task` by name; null for unknown costs and for hand-overs that are not possible. learner: "algorithm",
    and arguments of that function.
    """
    options = dict(learner)
    algorithm = ALGORITHMS[check.choice(owner, "learner.algorithm", options.pop("algorithm", "recommended"), tuple(ALGORITHMS))]
    allowed = tuple(name for name in inspect.signature(algorithm).parameters if name not in NOT_IN_JSON)
    for name in options:
        check.choice(owner, "an entry of learner", name, allowed)
    for name in task:
        check.choice(owner, "an entry of task", name, OF_TASK)
    check_sizes(owner, task)
    try:
        problem = Task(**without_null(task))
    except (TypeError, OverflowError) as error:
        check.fail(owner, "task", "of a wrong form", f"arguments of cede.Task ({error})")
    try:
        result = algorithm(problem, **options)
    except (TypeError, OverflowError) as error:
        check.fail(owner, "learner", "of a wrong form", f"arguments of cede.{algorithm.__name__} ({error})")
    return checked(owner, result.task, result.settings)


def environment_from_file(owner: str, data: bytes) -> Served:
    """Make task and settings from the bytes of a file of `Learner.save`. The learner must have counted no episode."""
    header, arrays = load_arrays(data, "learner", SCHEMA, OLDEST)
    try:
        saved = unpack_learner(header, arrays)
    except (KeyError, TypeError, AttributeError) as error:
        check.fail(owner, "the file", "damaged", f"as Learner.save wrote it ({error!r})")
    if saved.state.episodes or saved.state.environment_episodes:
        expected = "0: a served learner knows only the steps in the log"
        check.fail(owner, "the number of episodes of the learner", saved.state.episodes, expected)
    return checked(owner, saved.task, saved.settings)


def team_from(owner: str, environment: Served, given: Mapping[str, Any]) -> Served:
    """Make task and settings of a team from JSON; without entries, those of the environment.

    given: arguments of `cede.Task` that belong to a team, for its own agents, and known_agents, policies by name.
    """
    for name in given:
        check.choice(owner, "an entry", name, (*OF_TEAM, "known_agents"))
    if not given:
        return environment
    task = environment.task
    if own := {name: value for name, value in given.items() if name != "known_agents"}:
        if "agents" not in own:
            check.fail(owner, "agents", "missing", f"given with {check.show(next(iter(own)))}")
        check_sizes(owner, {**own, "n_states": task.n_states, "horizon": task.horizon})
        defaults: dict[str, Any] = {"control_cost": 0.0, "switch_cost": 0.0, "start_agent": 0}
        defaults |= dict.fromkeys(("varies_with", "modes", "grab_cost"))
        try:
            task = replace(task, **{**defaults, **without_null(own)})
        except (TypeError, OverflowError) as error:
            check.fail(owner, "the team", "of a wrong form", f"arguments of cede.Task ({error})")
    known = known_policies(owner, task, given.get("known_agents", {}))
    return checked(owner, task, for_newcomer(task, environment.settings, environment.task, known))


def checked_fallback(owner: str, task: Task, agent: Any) -> int:
    """Check the agent that acts while there is no plan, an index or a name; None: the start agent. Return its index."""
    index = task.start_agent if agent is None else task.agent_index(owner, "fallback", agent)
    task.always(index)  # fails if control cannot reach it
    return int(index)
