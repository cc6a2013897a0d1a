"""The protocol of learners. Any object that follows it runs in `simulate` and in `cede.gym.run`."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from cede._base import check

CALLS = ("choose", "observe", "end_episode")


@runtime_checkable
class SwitchingLearner(Protocol):
    """Protocol of a learner: choose, observe, end_episode.

    Agents, states and actions are indices from 0, as in the `Task`. Where the task has no horizon, t is left out: the calls are
    choose(state, prev_agent) and observe(state, prev_agent, agent, action, next_state, cost=..., enter_cost=...).

    It may have an attribute `plan` or `policy`: a switching policy, (L, S, D), or (S, D) without a horizon, or a Plan. Then
    `simulate` computes its exact cost, and the learner must follow it in the whole episode. It is read once in each episode, before
    the first step. Without it (or with None), only the realised costs of episodes are known.

    Optional attributes: `task` (a Task, which must fit the problem), `settings` (a mapping that goes into the history) and
    `drop_episode` (called if something fails during an episode). `observe` gets the cost that its task states for the action, also
    in a world with random costs; if the task states none, the cost that was drawn.
    """

    def choose(self, t: int, state: int, prev_agent: int, /) -> int:
        """Return the agent to put in control at time t in a state, by index or name, if prev_agent was in control before."""
        ...

    def observe(
        self, t: int, state: int, prev_agent: int, agent: int, action: int, next_state: int, /, *, cost: float, enter_cost: float
    ) -> None:
        """Observe one step. agent: the agent that really acted. cost: the environment's cost of the action; enter_cost: of
        arriving. Control and hand-over costs are in the task (`task.step_cost` returns the sum of all); a learner whose task does
        not state all of them gets them, too, as control_cost and switch_cost.
        """
        ...

    def end_episode(self) -> None:
        """End the episode, and learn from it."""
        ...


def checked_learner(owner: str, learner: Any, place: str = "learner") -> SwitchingLearner:
    """Check that an object has the methods of a learner, and return it. place: its name in errors."""
    missing = [name for name in CALLS if not callable(getattr(learner, name, None))]
    if missing or isinstance(learner, type):
        without = "" if isinstance(learner, type) or len(missing) == len(CALLS) else f": it has no {' and no '.join(missing)}"
        expected = f"a Learner, or anything with choose, observe and end_episode{without}"
        check.fail(owner, place, check.show(learner), expected)
    result: SwitchingLearner = learner
    return result


def settings_of(learner: Any) -> dict[str, Any]:
    """Return the settings of any learner; its name if it has no settings."""
    settings = getattr(learner, "about", None) or getattr(learner, "settings", None)
    return {"learner": type(learner).__name__, **(settings if isinstance(settings, Mapping) else {})}


def drop_episode(learner: Any) -> None:
    """Call `drop_episode` of a learner, if it has this method."""
    drop = getattr(learner, "drop_episode", None)
    if callable(drop):
        drop()
