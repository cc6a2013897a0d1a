"""The episode loop of learners that are called from Python: choose, act, observe, add up."""

from typing import Any, Protocol

from cede.problem.task import Task
from cede.steps.cost import Account
from cede.steps.step import Step


class World(Protocol):
    """The system that a learner controls: tables (`fleet/by_calls.py`), or a Gymnasium environment with actors in it
    (`gym/loop.py`).
    """

    task: Task
    learner: Any  # a SwitchingLearner

    def choose(self, t: int, state: int, prev_agent: int) -> int:
        """Let the learner choose; return the agent that gets control."""
        ...

    def act(self, t: int, state: int, prev_agent: int, agent: int) -> tuple[Step, bool]:
        """Let the agent act once; return the step, and whether the episode is over with it."""
        ...

    def charged(self, step: Step) -> dict[str, float]:
        """Return the costs of a step that the learner is told, by the names of `observe`."""
        ...


def play(world: World, account: Account, state: int, agent: int, most: int | None) -> tuple[int, int, bool]:
    """Play one episode of the learner, or a part of a run without horizon, and add its steps to an account.

    state: the first state. agent: the agent in control before. most: the number of steps; None: until the end. Return the last
    state, the last agent, and whether the episode is over.
    """
    t, over, has_time = 0, False, world.task.horizon is not None
    account.begin()
    while not over and (most is None or t < most):
        prev_agent, agent = agent, world.choose(t, state, agent)
        step, over = world.act(t, state, prev_agent, agent)
        world.learner.observe(*step[0 if has_time else 1 : 6], **world.charged(step))
        account.add(step)
        state, agent, t = step.next_state, step.agent, t + 1  # an order may lead to another agent
    return state, agent, over
