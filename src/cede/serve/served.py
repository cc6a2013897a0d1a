"""What a team is served by: its task and its learner's settings; how they are read from JSON, kept as bytes, and what is refused.

A served learner has no state of its own: its plan follows from counts and from the number of episodes; without a horizon, of steps.
Settings whose learners keep more than that are refused.
"""

import inspect
import io
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cede._base import check
from cede._base.archive import load_arrays, write_arrays
from cede.learning import algorithms
from cede.learning.files import OLDEST, SCHEMA, SavedLearner, pack_told, unpack_learner, unpack_told
from cede.learning.learner import Learner
from cede.learning.settings import Settings, for_newcomer
from cede.learning.state import LearnerState
from cede.problem.task import Task
from cede.serve.counting import Counter

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~:-]{0,127}")
ALGORITHMS: dict[str, Callable[..., Learner]] = {
    one.__name__: one for one in (algorithms.recommended, algorithms.ucrl2_mc, algorithms.posterior_sampling, algorithms.greedy)
}
NOT_IN_JSON = ("task", "seed", "structure", "known_environment", "forget", "forget_environment")  # arguments of these
OF_TEAM = ("agents", "control_cost", "switch_cost", "grab_cost", "start_agent", "varies_with", "takeover_delay", "on_takeover")
OF_TASK = (
    *OF_TEAM,
    "env_cost",
    "horizon",
    "n_states",
    "n_actions",
    "cost_range",
    "enter_cost",
    "enter_cost_range",
    "terminal",
    "discount",
    "periods",
    "state_names",
    "action_names",
)
MOST_AGENTS, MOST_ROWS, MOST_ENTRIES = 1000, 10**7, 10**8  # of tasks that are served: agents, states x actions, policy
MISSING = {"env_cost": math.nan, "enter_cost": math.nan, "switch_cost": math.inf, "grab_cost": math.inf}  # what null means in these


@dataclass(frozen=True, eq=False)
class Served:
    """Task and settings of a team."""

    task: Task
    told: Settings

    @cached_property
    def counter(self) -> Counter:
        """Return how its steps are counted."""
        return Counter.of(self.task, self.told)

    @property
    def endless(self) -> bool:
        """Return whether there is no horizon: teams have runs then, and every step is counted by itself."""
        return self.task.horizon is None

    @property
    def unit(self) -> str:
        """Return what is counted, and what numbers called `episodes` are numbers of: "episodes", or "steps" without a horizon."""
        return "steps" if self.endless else "episodes"

    @cached_property
    def ends(self) -> frozenset[int]:
        """Return the states in which an episode ends."""
        return frozenset(int(s) for s in self.task.terminal)

    @cached_property
    def packed(self) -> bytes:
        """Return it as bytes; `unpack` is the inverse."""
        nothing = SavedLearner(self.task, self.told, 0, LearnerState(), np.empty((0, 6), dtype=np.int64), np.empty((0, 2)))
        header, arrays = pack_told(nothing)
        file = io.BytesIO()
        write_arrays(file, "served", SCHEMA, header, arrays)
        return file.getvalue()


def unpack(data: bytes) -> Served:
    """Return what bytes hold that `Served.packed` returned."""
    return Served(*unpack_told(*load_arrays(data, "served", SCHEMA, OLDEST)))


def checked_name(owner: str, place: str, name: Any) -> str:
    """Check the name of an environment or a team, which may stand in an address, and return it."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        check.fail(owner, place, check.show(name), "1 to 128 letters, digits and . _ ~ : -, a letter or a digit first")
    return name


def checked(owner: str, task: Task, told: Settings) -> Served:
    """Check that a learner can be served: its plan must follow from counts and the number of episodes alone.

    Without a horizon any rule when to plan again is taken, since it only says when: the service plans whenever it can.
    """
    unit = "episodes" if task.horizon is not None else "steps"
    entries = task.plan_steps * task.n_states * task.n_agents
    if entries > MOST_ENTRIES:
        check.fail(owner, "horizon x states x agents", entries, f"at most {MOST_ENTRIES}")
    if told.forgets:
        check.fail(owner, "forget", "given", f"left out: what fades depends on the order of {unit}, which a log does not keep")
    if told.limits is not None or told.baseline is not None:
        what = "at_most or at_least" if told.limits is not None else "baseline"
        check.fail(owner, what, "given", f"left out: its promise depends on the order of {unit}, which a log does not keep")
    if told.planning != "full":
        check.fail(owner, "planning", repr(told.planning), "'full': greedy planning keeps values that do not follow from counts")
    if task.horizon is not None and told.replan not in ("every", 1):
        check.fail(owner, "replan", repr(told.replan), "'every': the service plans whenever episodes were counted")
    if not told.can_share:
        what = "one table for all" if told.flat else "one policy" if told.policy is not None else "a known environment"
        check.fail(owner, "learner", f"{told.name!r} with {what}", "one that learns the environment, which its teams share")
    return Served(task, told)


def filled(value: Any, missing: float) -> Any:
    """Return lists of numbers in which null was replaced."""
    if isinstance(value, list):
        return [filled(one, missing) for one in value]
    return missing if value is None else value


def check_sizes(owner: str, given: Mapping[str, Any]) -> None:
    """Check that a task from outside is not too large, before anything of its size is made."""
    agents, delays = given.get("agents", ()), given.get("takeover_delay") or {}
    n = len(agents) if isinstance(agents, list) else 1
    steps = [one for one in (delays.values() if isinstance(delays, dict) else [delays]) if isinstance(one, int)]
    if n + n * sum(steps) > MOST_AGENTS:
        check.fail(owner, "the number of agents, and steps of slow hand-overs", n + n * sum(steps), f"at most {MOST_AGENTS}")
    sides = {name: given.get(name) for name in ("n_states", "n_actions", "horizon")}
    found = {name: one if isinstance(one, int) else 1 for name, one in sides.items()}
    cost = given.get("env_cost")
    if isinstance(cost, list) and found["n_states"] == 1:
        found["n_states"] = len(cost)
    if found["n_states"] * found["n_actions"] > MOST_ROWS:
        check.fail(owner, "states x actions", found["n_states"] * found["n_actions"], f"at most {MOST_ROWS}")
    if found["n_states"] * found["horizon"] * n > MOST_ENTRIES:
        check.fail(owner, "horizon x states x agents", found["n_states"] * found["horizon"] * n, f"at most {MOST_ENTRIES}")


def task_from(owner: str, given: Mapping[str, Any]) -> Task:
    """Make a task from JSON: the arguments of `cede.Task` by name. Unknown costs, and hand-overs that cannot be, are null."""
    for name in given:
        check.choice(owner, "an entry of task", name, OF_TASK)
    check_sizes(owner, given)
    found = {name: filled(one, MISSING[name]) if isinstance(one, list) and name in MISSING else one for name, one in given.items()}
    try:
        return Task(**found)
    except (TypeError, OverflowError) as error:
        check.fail(owner, "task", "of a wrong form", f"arguments of cede.Task ({error})")


def environment_from(owner: str, task: Mapping[str, Any], learner: Mapping[str, Any]) -> Served:
    """Make task and settings from JSON. learner: "algorithm" and arguments of the function of this name."""
    told = dict(learner)
    algorithm = ALGORITHMS[check.choice(owner, "learner.algorithm", told.pop("algorithm", "recommended"), tuple(ALGORITHMS))]
    allowed = tuple(name for name in inspect.signature(algorithm).parameters if name not in NOT_IN_JSON)
    for name in told:
        check.choice(owner, "an entry of learner", name, allowed)
    try:
        made = algorithm(task_from(owner, task), **told)
    except (TypeError, OverflowError) as error:
        check.fail(owner, "learner", "of a wrong form", f"arguments of cede.{algorithm.__name__} ({error})")
    return checked(owner, made.task, made.told)


def environment_from_file(owner: str, data: bytes) -> Served:
    """Make task and settings from the bytes of a file that `Learner.save` wrote. It must not have learned anything yet."""
    header, arrays = load_arrays(data, "learner", SCHEMA, OLDEST)
    try:
        saved = unpack_learner(header, arrays)
    except (KeyError, TypeError, AttributeError) as error:
        check.fail(owner, "the file", "torn", f"as Learner.save wrote it ({error!r})")
    if saved.state.episodes or saved.state.environment_episodes:
        expected = "0: all that a served learner knows comes from the log"
        check.fail(owner, "the number of episodes of the learner", saved.state.episodes, expected)
    return checked(owner, saved.task, saved.told)


def team_from(owner: str, environment: Served, given: Mapping[str, Any]) -> Served:
    """Make task and settings of a team from JSON; those of the environment where nothing is given.

    given: arguments of `cede.Task` that are a team's own, all in terms of its own agents, and known_agents, policies by name.
    """
    for name in given:
        check.choice(owner, "an entry", name, (*OF_TEAM, "known_agents"))
    if not given:
        return environment
    task = environment.task
    if own := {name: one for name, one in given.items() if name != "known_agents"}:
        if "agents" not in own:
            check.fail(owner, "agents", "missing", f"given with {check.show(next(iter(own)))}")
        check_sizes(owner, {**own, "n_states": task.n_states, "horizon": task.horizon})
        own = {name: filled(one, MISSING[name]) if isinstance(one, list) and name in MISSING else one for name, one in own.items()}
        plain: dict[str, Any] = {"control_cost": 0.0, "switch_cost": 0.0, "start_agent": 0}
        plain |= dict.fromkeys(("varies_with", "modes", "grab_cost"))
        try:
            task = replace(task, **{**plain, **own})
        except (TypeError, OverflowError) as error:
            check.fail(owner, "the team", "of a wrong form", f"arguments of cede.Task ({error})")
    known = task.known_agents(owner, given.get("known_agents", {}))
    return checked(owner, task, for_newcomer(task, environment.told, environment.task, known))


def checked_fallback(owner: str, task: Task, agent: Any) -> int:
    """Check the agent that is named while there is no plan, an index or a name; None: the start agent. Return the index."""
    index = task.start_agent if agent is None else task.agent_index(owner, "fallback", agent)
    task.always(index)  # control must be able to come to it
    return int(index)
