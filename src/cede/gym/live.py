"""Steps of actors in a real environment, for `run` and `SwitchingEnv`.

An encoder turns an observation of the environment into a state, an integer from 0. Any function of the observation can be one;
`cede.encode` makes some. If it has parameters named `env`, `info`, `reward` or `terminated`, it also gets the environment without
its wrappers, and these results of the step. Some environments, as those of MiniGrid, have parts of the state only there. Discrete
and MultiDiscrete observations are numbered without loss (`encode.Grid`).
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cede._base import check
from cede._base.extras import need
from cede.features.encode import Grid
from cede.gym.actors import Actor, actors_of
from cede.gym.toy_text import DONE
from cede.problem.task import Task
from cede.steps.step import Step

OVER = "over"  # name of the state that `task_for` adds, in which an episode ends
SEEN = ("env", "info", "reward", "terminated")  # further arguments of an encoder that has parameters of that name


def check_env(owner: str, env: Any) -> None:
    """Check that an object is a Gymnasium environment, by the attributes that are used."""
    if isinstance(env, type) or not all(hasattr(env, name) for name in ("observation_space", "action_space", "reset", "step")):
        check.fail(owner, "env", check.show(env), "an environment, as gymnasium.make gives one")


def actions_of(owner: str, env: Any) -> int:
    """Check that an environment's action space is Discrete and begins with 0; return the number of actions."""
    space = env.action_space
    if not isinstance(space, need("gymnasium.spaces", "gym").Discrete) or int(space.start) != 0:
        check.fail(owner, "the action space of env", check.show(space), "Discrete, from 0 on")
    return int(space.n)


@dataclass(eq=False)
class LiveTeam:
    """A team of actors in an environment: begins episodes and takes steps.

    Make one with `live_team`, which checks that everything fits together.
    """

    owner: str  # the caller, for errors
    env: Any
    actors: Sequence[Actor]  # (T,) in the order of task.tables
    task: Task
    encode: Callable[..., int]  # encode(observation, env=, info=, reward=, terminated=), from `with_what_it_sees`
    over: int | None  # the state to which an episode goes when it terminates; None: it ends in the state in which it terminated
    observation: Any = None  # the last one
    begun: int | None = None  # the first state of an episode that was begun already
    reward: float = 0.0  # of the last step
    terminated: bool = False  # whether the last step ended the episode
    truncated: bool = False  # whether a time limit ended it

    def begin(self, seed: int | None) -> int:
        """Begin an episode; return its first state. seed: None continues the environment's random numbers."""
        if self.begun is not None:
            first, self.begun = self.begun, None
            return first
        answer = self.env.reset(seed=seed)
        if not isinstance(answer, tuple) or len(answer) != 2:
            check.fail(self.owner, "what env.reset returned", check.show(answer), "(observation, info)")
        self.observation = answer[0]
        return self.state_of(answer[1], 0.0, False)

    def step(self, t: int, state: int, prev_agent: int, agent: int, rng: np.random.Generator) -> Step:
        """Let the agent in control act once; return the step. Its cost is that of the task, or -reward if the task states none."""
        task = self.task
        who = self.actors[task.table[agent]]
        answer = who.act(self.observation, state, rng)
        action = check.index(self.owner, f"the action of {who.name!r}", answer, task.n_actions)
        answer = self.env.step(action)
        if not isinstance(answer, tuple) or len(answer) != 5:
            expected = "(observation, reward, terminated, truncated, info)"
            check.fail(self.owner, "what env.step returned", check.show(answer), expected)
        self.observation, reward, terminated, truncated, info = answer
        self.reward = check.number(self.owner, "the reward of env", reward)
        self.terminated = check.truth(self.owner, "terminated", terminated)
        self.truncated = check.truth(self.owner, "truncated", truncated)
        to = self.next_state(info)
        stated = float(task.env_cost[state, action])
        arriving = 0.0 if task.enter_cost is None else float(task.enter_cost[to])
        return Step(t, state, prev_agent, agent, action, to, -self.reward if np.isnan(stated) else stated, arriving)

    def next_state(self, info: Any) -> int:
        """Return the state after the last step.

        A step that ends the episode leads to the added last state, or to a terminal state of the task. If the task has no terminal
        states, the next episode begins, and the result is its first state.
        """
        task = self.task
        if self.terminated and self.over is not None:
            return self.over
        if self.terminated and task.horizon is None and not task.terminal:
            self.begun = self.begin(None)
            return self.begun
        to = self.state_of(info, self.reward, self.terminated)
        if self.terminated and not task.is_terminal[to]:
            ends = "one in which an episode ends (terminal), or a state more for that"
            check.fail(self.owner, "the state in which env terminated", to, ends)
        if task.is_terminal[to] and not self.terminated:
            check.fail(self.owner, "the state in which env went on", to, "another one: it is terminal")
        return to

    def state_of(self, info: Any, reward: float, terminated: bool) -> int:
        """Return the state of the last observation; check that it is a state of the task, and not the added last state."""
        below = self.task.n_states if self.over is None else self.over
        inner = getattr(self.env, "unwrapped", self.env)
        state = self.encode(self.observation, env=inner, info=info, reward=reward, terminated=terminated)
        return check.index(self.owner, "the state of an observation", state, below)


def live_team(owner: str, env: Any, team: Any, task: Task, encode: Any, task_owner: str) -> LiveTeam:
    """Check an environment, a team and an encoder against a task; return a LiveTeam. task_owner: owner of the task, for errors."""
    check_env(owner, env)
    coder = encoder_of(owner, env.observation_space) if encode is None else encode
    if not callable(coder):
        check.fail(owner, "encode", check.show(coder), "a function from observations to states")
    if actions_of(owner, env) != task.n_actions:
        check.fail(owner, "the number of actions of env", actions_of(owner, env), f"{task.n_actions}, as in {task_owner}")
    known = getattr(coder, "n_states", None)
    if known is None:  # a plain function: the last state was added if its name is OVER or DONE
        known = task.n_states - bool(task.state_names and task.state_names[-1] in (OVER, DONE))
    if task.n_states - known not in (0, 1):
        check.fail(owner, "the number of states of encode", known, f"{task.n_states} or {task.n_states - 1}, by {task_owner}")
    over = task.n_states - 1 if task.n_states == known + 1 else None
    return LiveTeam(owner, env, actors_of(owner, team, task), task, with_what_it_sees(owner, coder), over)


def encoder_of(owner: str, space: Any) -> Any:
    """Return the encoder of a Discrete or MultiDiscrete space. Raises ValueError for any other space: it needs `encode`."""
    spaces = need("gymnasium.spaces", "gym")
    if isinstance(space, spaces.Discrete):
        return Grid((int(space.n),), (int(space.start),))
    if not isinstance(space, spaces.MultiDiscrete):
        expected = "given: a function from observations to states, as uniform_bins or quantile_bins make one"
        check.fail(owner, "encode", f"None for {check.show(space)}", expected)
    least = np.asarray(getattr(space, "start", np.zeros_like(space.nvec)))
    return Grid(tuple(map(int, np.ravel(space.nvec))), tuple(map(int, np.ravel(least))))


def with_what_it_sees(owner: str, encode: Any) -> Callable[..., int]:
    """Return a function encode(observation, env=, info=, reward=, terminated=) that passes on the parameters of an encoder.

    The first parameter of the encoder is the observation, whatever its name. Functions without a signature, such as some built-in
    ones, get the observation alone.
    """
    try:
        parameters = list(inspect.signature(encode).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    asked = [parameter.name for parameter in parameters[1:] if parameter.kind in named and parameter.name in SEEN]
    for parameter in parameters[1:]:
        if parameter.name not in asked and parameter.default is inspect.Parameter.empty and parameter.kind in named:
            check.fail(owner, f"the parameter {parameter.name!r} of encode", "not known", f"left out, or {check.one_of(SEEN)}")

    def encoded(observation: Any, **seen: Any) -> int:
        state: int = encode(observation, **{name: seen[name] for name in asked})
        return state

    return encoded
