"""What a learner must be able to do: whatever can do this runs in `simulate` and in `cede.gym.run`, beside cede's own learners."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from cede._base import check

CALLS = ("choose", "observe", "end_episode")


@runtime_checkable
class SwitchingLearner(Protocol):
    """Anything that decides who is in control and is told what came of it: any object with these three methods.

    Agents, states and actions are indices from 0, as in the `Task`. Where the task has no horizon, t is left out: the calls are
    choose(state, prev_agent) and observe(state, prev_agent, agent, action, next_state, cost=..., enter_cost=...).

    If it has an attribute `plan` or `policy` that is a switching policy, (L, S, D), (S, D) without a horizon, or has one as a Plan
    does, then `simulate` computes what that costs, exactly. It must then choose as it says, in the whole episode. Without one (or
    with None), only what episodes really cost is known. It is read once in each episode, before the first step.

    Attributes `task` (a Task, which must fit the problem), `settings` (a mapping that goes into the history) and `drop_episode`
    (called if something fails during an episode) are used if they are there. Where its task says what an action costs, `observe` is
    given that, also in a world with random costs; else what was drawn.
    """

    def choose(self, t: int, state: int, prev_agent: int, /) -> int:
        """Return the agent to put in control at time t in a state, if prev_agent was in control before. A name will do, too."""
        ...

    def observe(
        self, t: int, state: int, prev_agent: int, agent: int, action: int, next_state: int, /, *, cost: float, enter_cost: float
    ) -> None:
        """Take note of one step. agent: who really acted. cost: what the environment charged for the action; enter_cost: for
        arriving. What control and hand-overs cost stands in the task (`task.step_cost` adds all up).
        """
        ...

    def end_episode(self) -> None:
        """Take note that the episode is over, and learn from it."""
        ...


def checked_learner(owner: str, learner: Any, place: str = "learner") -> SwitchingLearner:
    """Check that something has the methods of a learner, and return it. place: what it is called in an error."""
    missing = [name for name in CALLS if not callable(getattr(learner, name, None))]
    if missing or isinstance(learner, type):
        without = "" if isinstance(learner, type) or len(missing) == len(CALLS) else f": it has no {' and no '.join(missing)}"
        expected = f"a Learner, or anything with choose, observe and end_episode{without}"
        check.fail(owner, place, check.show(learner), expected)
    result: SwitchingLearner = learner
    return result


def settings_of(learner: Any) -> dict[str, Any]:
    """Return the settings of any learner, as far as it tells them: at least its name."""
    settings = getattr(learner, "about", None) or getattr(learner, "settings", None)
    return {"learner": type(learner).__name__, **(settings if isinstance(settings, Mapping) else {})}


def drop_episode(learner: Any) -> None:
    """Let a learner drop the running episode, if it can."""
    drop = getattr(learner, "drop_episode", None)
    if callable(drop):
        drop()
