"""Any Gymnasium environment with discrete actions, driven by a team under a learner's control.

Where an episode terminates it goes on, as far as the learner is concerned, in a state that nothing leads out of, at the cost that
the task has for it. Where it is only cut off (truncated), nothing more is seen of it. One that is longer than the task's horizon
is a row of episodes to the learner, each of which begins where the one before ended.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede._base.extras import need
from cede._base.progress import Progress
from cede.gym.actors import Actor, actors_of
from cede.gym.encoders import encoder_of
from cede.gym.toy_text import DONE
from cede.learning.learner import Learner
from cede.problem.takeover import way_to
from cede.problem.task import Task

OVER = "over"  # name of the state in which nothing happens any more


@dataclass(frozen=True, eq=False)
class GymHistory:
    """What happened in K episodes of an environment."""

    returns: Floats  # (K,) sum of rewards
    cost: Floats  # (K,) environment, control and switching cost of the steps that were taken, as the task has them
    control: Ints  # (K, D) steps of each agent
    switches: Ints  # (K,)
    lengths: Ints  # (K,) steps
    terminated: Any  # (K,) bool: ended by itself; else it was cut off
    agents: tuple[str, ...]  # (D,) names
    settings: dict[str, Any]


def task_for(
    env: Any,
    agents: Sequence[str],
    horizon: int,
    *,
    encode: Callable[[Any], int] | None = None,
    cost: Any = 0.0,
    over_cost: float = 0.0,
    control_cost: Any = 0.0,
    switch_cost: Any = 0.0,
    start_agent: Any = 0,
    **more: Any,
) -> Task:
    """What a learner is told of an environment: one state for each that `encode` knows, and behind them `over`, after the end.

    cost: of a step, a number, (S,) or (S, A); a learner is told costs, it does not learn them. over_cost: of every step that is
    left after an episode has terminated: 0 if the end is what one wants, the cost of failure if it is not. more: as for `Task`.
    """
    owner = "task_for"
    check_env(owner, env)
    coder = encoder_of(owner, env.observation_space) if encode is None else encode
    n_states, n_actions = getattr(coder, "n_states", None), actions_of(owner, env)
    if n_states is None:
        check.fail(owner, "encode", check.show(coder), "a function that says how many states there are (n_states), or build a Task")
    n_states = check.integer(owner, "n_states of encode", n_states, 1)
    costs = check.copied(owner, "cost", cost, "() or (S,) or (S, A)")
    wide = costs[:, None] if costs.ndim == 1 else costs
    try:
        table = np.broadcast_to(wide, (n_states, n_actions))
    except ValueError:
        check.fail(owner, "the shape of cost", costs.shape, f"() or (S,) = ({n_states},) or (S, A) = ({n_states}, {n_actions})")
    after = np.full((1, n_actions), check.number(owner, "over_cost", over_cost))
    names = getattr(coder, "names", None)
    return Task(
        env_cost=np.concatenate([table, after]),
        agents=agents,
        horizon=horizon,
        control_cost=control_cost,
        switch_cost=switch_cost,
        start_agent=start_agent,
        **{"state_names": None if names is None else [*names, OVER], **more},
    )


def check_env(owner: str, env: Any) -> None:
    if not all(hasattr(env, name) for name in ("observation_space", "action_space", "reset", "step")):
        check.fail(owner, "env", check.show(env), "an environment, as gymnasium.make gives one")


def actions_of(owner: str, env: Any) -> int:
    space = env.action_space
    if not isinstance(space, need("gymnasium.spaces", "gym").Discrete) or int(space.start) != 0:
        check.fail(owner, "the action space of env", check.show(space), "Discrete, from 0 on")
    return int(space.n)


def run(
    env: Any,
    team: Any,
    learner: Learner,
    *,
    episodes: int,
    encode: Callable[[Any], int] | None = None,
    override: Callable[[int, int, int, int], int] | None = None,
    seed: int = 0,
    progress: bool | Callable[[int], None] = True,
) -> GymHistory:
    """Let a learner hand control around in an environment, and learn.

    team: who acts: a Team, or actors, functions or tables by name (see `actor`), named as in the learner's task. encode: from
    observations to states; Discrete and MultiDiscrete spaces need none. If the task has one state more than `encode`, that one
    comes after the end (`task_for`); otherwise episodes stay in the state in which they ended (`from_toy_text`).

    override: who really gets control, from the time, the state, the agent before and the one that the learner chose: people may
    take control, or somebody else may still decide while the learner watches.

    The first episode resets the environment with the seed; tables and functions that give probabilities draw from it, too, models
    and people have luck of their own. To go on with the same learner, give another seed. If something fails in an episode, what was
    seen of it since the learner's last plan is dropped.
    """
    owner = "run"
    if not isinstance(learner, Learner):
        check.fail(owner, "learner", check.show(learner), "a Learner")
    task = learner.task
    check_env(owner, env)
    coder = encoder_of(owner, env.observation_space) if encode is None else encode
    if not callable(coder):
        check.fail(owner, "encode", check.show(coder), "a function from observations to states")
    if actions_of(owner, env) != task.n_actions:
        check.fail(owner, "the number of actions of env", actions_of(owner, env), f"{task.n_actions}, as in the learner's task")
    if learner.observed:
        check.fail(owner, "the number of steps of the learner's running episode", learner.observed, "0: end it first")
    known = getattr(coder, "n_states", None)
    if known is None:  # a plain function: the task must say whether it has a state for what comes after the end
        known = task.n_states - bool(task.state_names and task.state_names[-1] in (OVER, DONE))
    if task.n_states - known not in (0, 1):
        check.fail(owner, "the number of states of encode", known, f"{task.n_states} or {task.n_states - 1}, by the learner's task")
    episodes, seed = check.integer(owner, "episodes", episodes, 1), check.integer(owner, "seed", seed, 0, 2**32 - 1)
    over = task.n_states - 1 if task.n_states == known + 1 else None
    actors, rng = actors_of(owner, team, task), np.random.default_rng([seed, 8])
    drive = Drive(env, actors, learner, coder, over, override, rng)
    rows = []
    with Progress("episodes", episodes, progress, 1) as bar:
        for k in range(episodes):
            try:
                rows.append(drive.episode(seed if k == 0 else None))
            except BaseException:  # half an episode teaches nothing: the learner is as it was before it
                learner.drop_episode()
                raise
            bar.advance(1)
    returns, cost, control, switches, lengths, terminated = zip(*rows, strict=True)
    settings = {**learner.settings, "environment": str(getattr(env.spec, "id", env)), "environment_seed": seed}
    return GymHistory(
        np.array(returns, dtype=np.float64),
        np.array(cost, dtype=np.float64),
        np.array(control, dtype=np.int64),
        np.array(switches, dtype=np.int64),
        np.array(lengths, dtype=np.int64),
        np.array(terminated, dtype=np.bool_),
        task.members,
        settings,
    )


@dataclass(frozen=True, eq=False)
class Drive:
    """A learner in an environment."""

    env: Any
    actors: Sequence[Actor]  # by policy of the task
    learner: Learner
    encode: Callable[[Any], int]
    over: int | None  # the state after the end; None: an episode stays where it ended
    override: Callable[[int, int, int, int], int] | None
    rng: np.random.Generator

    def episode(self, seed: int | None) -> tuple[Any, ...]:
        """One episode of the environment; what it came to."""
        task, learner = self.learner.task, self.learner
        observation, _ = self.env.reset(seed=seed)
        state, agent = self.state_of(observation), int(task.start_agent)
        gained, cost, switches, steps, t = 0.0, 0.0, 0, 0, 0
        control = np.zeros(len(task.members), dtype=np.int64)
        terminated = truncated = False
        while not (terminated or truncated):
            prev, agent = agent, self.next_agent(t, state, agent)
            who = self.actors[task.table[agent]]
            action = check.index("run", f"the action of {who.name!r}", who.act(observation, state, self.rng), task.n_actions)
            observation, reward, terminated, truncated, _ = self.env.step(action)
            to = self.over if terminated and self.over is not None else self.state_of(observation)
            learner.observe(t, state, prev, agent, action, to)
            gained, steps = gained + float(reward), steps + 1
            cost += float(task.step_cost(state, prev, agent, action))
            control[task.acting[agent]] += 1
            switches += int(task.aim[prev] != task.aim[agent])
            state, t = to, t + 1
            if t == task.horizon and not terminated:
                learner.end_episode()
                t = 0
        if t > 0:
            learner.end_episode(stays_in=state if terminated else None)
        return gained, cost, control, switches, steps, terminated

    def next_agent(self, t: int, state: int, prev: int) -> int:
        """Who gets control."""
        agent, task = self.learner.choose(t, state, prev), self.learner.task
        if self.override is None:
            return agent
        given = task.agent_index("run", "the agent that override gave", self.override(t, state, prev, agent))
        return given if np.isfinite(task.switch_cost[prev, given]) else way_to(task.switch_cost, given)[prev]  # as soon as can be

    def state_of(self, observation: Any) -> int:
        below = self.learner.task.n_states if self.over is None else self.over
        return check.index("run", "the state of an observation", self.encode(observation), below)
