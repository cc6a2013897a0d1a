"""Run a team in any Gymnasium environment with discrete actions, while a learner chooses the agent in control.

Episodes of the environment and of the learner's task need not have the same length:

- If an episode terminates, the learner's episode ends, too: in a state that the task declares to be terminal.
- If it is truncated (cut off by a time limit), the learner sees only the steps that happened.
- If it is longer than the horizon, the learner sees several episodes, each of which begins where the one before ended.
- If the task is for averages, its run has no end: after a terminated episode, the next state is the first of the next episode.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cede._base import check
from cede._base.arrays import Floats
from cede._base.progress import Progress
from cede.fleet.history import RunHistory
from cede.gym.live import OVER, LiveTeam, actions_of, check_env, encoder_of, live_team
from cede.learners.learner import Learner
from cede.learners.protocol import SwitchingLearner, checked_learner, drop_episode, settings_of
from cede.problem.costs import checked_range
from cede.problem.task import Task
from cede.steps.cost import Account
from cede.steps.loop import play
from cede.steps.step import Step

REWARDS = (-1.0, 1.0)  # default range of rewards, and so of costs


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GymHistory(RunHistory):
    """The results of K episodes of an environment, with a team of D members.

    cost: of an episode by the task: environment, control, hand-overs, arriving, and after a terminal state the remaining steps.
    settings: the learner's, the environment's name and its seed.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("returns", "cost", "switches", "lengths", "terminated")

    returns: Floats  # (K,) sum of the environment's rewards
    terminated: Any  # (K,) bool: True if the episode terminated, False if it was truncated


def task_for(
    env: Any,
    agents: Sequence[str],
    horizon: int | None,
    *,
    encode: Callable[..., int] | None = None,
    cost: Any = None,
    cost_range: tuple[float, float] = REWARDS,
    terminal: Any = None,
    over_cost: float = 0.0,
    discount: float | None = None,
    control_cost: Any = 0.0,
    switch_cost: Any = 0.0,
    start_agent: Any = 0,
    **more: Any,
) -> Task:
    """Return the Task for a Gymnasium environment: its states are those of `encode`, and "over", where terminated episodes end.

    env: with a Discrete action space. agents: names of the members. encode: an encoder with n_states, such as `uniform_bins`
    makes; not needed for Discrete and MultiDiscrete observations.

    cost: the cost of a step, one number, (S,) or (S, A) without the state "over". None, the default, to learn it from rewards: it
    is minus the reward, which must lie within cost_range.

    terminal: terminal states, if `encode` has them: then no state is added. over_cost: cost of each remaining step of the horizon
    after an episode has terminated, for the state "over": 0 if ending is the goal or rewards contain all costs, else a cost of
    failure. All other arguments are those of `Task`. With neither horizon nor discount there are no terminal states, and no state
    is added.
    """
    owner = "task_for"
    check_env(owner, env)
    coder = encoder_of(owner, env.observation_space) if encode is None else encode
    n_states, n_actions = getattr(coder, "n_states", None), actions_of(owner, env)
    if n_states is None:
        check.fail(owner, "encode", check.show(coder), "a function that says how many states there are (n_states), or build a Task")
    n_states = check.integer(owner, "n_states of encode", n_states, 1)
    ends = checked_range(owner, "cost_range", cost_range)
    if ends is None:
        check.fail(owner, "cost_range", None, "two numbers, the least and the most that minus a reward can be")
    if cost is None:
        costs = np.full(n_states, np.nan)
    else:
        stated = np.full(n_states, check.number(owner, "cost", cost)) if check.ndim(cost) == 0 else cost
        costs = check.copied(owner, "cost", stated, "() or (S,) or (S, A)")
    if costs.shape not in ((n_states,), (n_states, n_actions)):
        check.fail(owner, "the shape of cost", costs.shape, f"() or (S,) = ({n_states},) or (S, A) = ({n_states}, {n_actions})")
    table = np.broadcast_to(costs[:, None] if costs.ndim == 1 else costs, (n_states, n_actions))
    afterwards = check.number(owner, "over_cost", over_cost)
    names, adds = getattr(coder, "names", None), terminal is None and (horizon is not None or discount is not None)
    if afterwards and not (adds and horizon is not None):
        check.fail(owner, "over_cost", afterwards, 'left out: there is no state "over" with steps that are left')
    if adds:
        table = np.concatenate([table, np.full((1, n_actions), afterwards)])
        names = None if names is None else [*names, OVER]
    return Task(
        env_cost=table,
        agents=agents,
        horizon=horizon,
        discount=discount,
        terminal=[n_states] if adds else terminal if terminal is not None else (),
        cost_range=ends if cost is None else None,
        control_cost=control_cost,
        switch_cost=switch_cost,
        start_agent=start_agent,
        **{"state_names": names, **more},
    )


def run(
    env: Any,
    team: Any,
    learner: SwitchingLearner | Learner,
    *,
    episodes: int,
    task: Task | None = None,
    encode: Callable[..., int] | None = None,
    override: Callable[[int, int, int, int], int] | None = None,
    team_costs: Callable[[int, int, int], Any] | None = None,
    seed: int = 0,
    record: str | Path | None = None,
    progress: bool | Callable[[int], None] = True,
) -> GymHistory:
    """Run episodes of a Gymnasium environment, in which a learner chooses agents and learns; return the results.

    team: a Team, a sequence of actors, or a mapping from names to actors, functions or tables (see `actor`); the names are those
    of `learner.task.tables`. encode: a function from observations to states, not needed for Discrete and MultiDiscrete spaces. If
    it has parameters named env, info, reward or terminated, it gets these, too. If the task has one state more than `encode`, an
    episode that terminates goes to that last state (`task_for`); if not, it must terminate in a terminal state of the task. Costs
    that the task does not state are minus the rewards.

    learner: one of cede's own, or any `SwitchingLearner`. task: for a learner without an attribute `task`.

    override: a function override(t, state, prev_agent, chosen) that returns the agent that really gets control, an index or a name.
    Use it where people may take control, or where another controller decides while the learner only observes.

    team_costs: a function team_costs(state, prev_agent, agent) that returns what the agent's control and the hand-over cost, as
    `Task.control_costs` does; needed if the task does not state these costs.

    seed: the first episode resets the environment with it, and actions of tables and of functions that return probabilities are
    drawn from it. Models and people are not seeded. To continue with the same learner, give another seed.

    record: a file in which every step is recorded, for `cede.read_record`; see `Learner.record_to`.

    If something fails during an episode, its steps that are not counted yet are dropped.
    """
    owner = "run"
    task, progress = task_of(owner, checked_learner(owner, learner), task), check.progress(owner, progress)
    if override is not None:
        check.function(owner, "override", override, "a function override(t, state, prev_agent, chosen)")
    if (team_costs is None) == task.learns_team_costs:
        given, expected = ("missing", "given") if task.learns_team_costs else ("given", "left out")
        check.fail(owner, "team_costs", given, f"{expected}: costs of control and of hand-overs that the task does not state")
    charged = check.function(
        owner, "team_costs", team_costs or task.control_costs, "a function team_costs(state, prev_agent, agent)"
    )
    if record is not None:
        check.instance(owner, "learner", learner, Learner, ", with record: others keep their own")
    live = live_team(owner, env, team, task, encode, "the learner's task")
    if isinstance(learner, Learner) and learner.observed:
        check.fail(owner, "the number of steps of the learner's running episode", learner.observed, "0: end it first")
    episodes, seed = check.integer(owner, "episodes", episodes, 1), check.integer(owner, "seed", seed, 0, 2**32 - 1)
    world = LiveWorld(live, task, learner, override, np.random.default_rng([seed, 8]), charged)
    columns: dict[str, list[Any]] = {name: [] for name in ("returns", "cost", "control", "switches", "terminated")}
    with (
        learner.record_to(record) if record is not None and isinstance(learner, Learner) else nullcontext(),
        Progress("episodes", episodes, progress, 1) as bar,
    ):
        for k in range(episodes):
            try:
                account = world.play_episode(seed if k == 0 else None)
            except BaseException:  # a part of an episode is not counted
                drop_episode(learner)
                raise
            results = (world.gained, account.cost, account.control, account.switches, live.terminated)
            for column, value in zip(columns.values(), results, strict=True):
                column.append(value)
            bar.advance(1)
    where = {"environment": str(getattr(getattr(env, "spec", None), "id", env)), "environment_seed": seed}
    arrays: dict[str, Any] = {name: np.array(values) for name, values in columns.items()}
    return GymHistory(**arrays, agents=task.members, settings={**settings_of(learner), **where})


def task_of(owner: str, learner: Any, task: Any) -> Task:
    """Return the task of a learner, or `task` if the learner has none."""
    own = getattr(learner, "task", None)
    if isinstance(own, Task):
        if task is not None and task is not own:
            check.fail(owner, "task", "given", "left out: the learner has its own")
        return own
    return check.instance(owner, "task", task, Task, ": the learner has none of its own")


@dataclass(eq=False)
class LiveWorld:
    """A Gymnasium environment with actors in it, as a `World`."""

    live: LiveTeam
    task: Task
    learner: Any  # a SwitchingLearner
    override: Callable[[int, int, int, int], int] | None
    rng: np.random.Generator  # for the actors' actions
    team_costs: Callable[[int, int, int], Any]  # needed where the task does not state costs of control or of hand-overs
    gained: float = 0.0  # rewards of the episode

    def play_episode(self, seed: int | None) -> Account:
        """Play one episode of the environment: one of the learner, or several if it is longer than the horizon.

        seed: for the environment's reset; None continues its random numbers.
        """
        state, agent, account = self.live.begin(seed), int(self.task.start_agent), Account(self.task, self.task.layout.factor)
        self.gained, over = 0.0, False
        while not over:
            state, agent, over = play(self, account, state, agent, self.task.horizon)
            self.learner.end_episode()
        return account

    def choose(self, t: int, state: int, prev_agent: int) -> int:
        """Return the agent that gets control next: the learner's choice, or the agent that `override` returns.

        If that agent cannot get control at once, the result is the next step of the hand-over to it: a hand-over may take several
        steps, and cannot be cancelled. While a lock forbids it, the previous agent stays. Random answers are drawn.
        """
        task, timed = self.task, () if self.task.horizon is None else (t,)
        agent = task.agent_index("run", "what choose answered", self.learner.choose(*timed, state, prev_agent))
        if self.override is None:
            return task.roles.orders.drawn(prev_agent, agent, self.rng)
        named = task.agent_index("run", "the agent that override gave", self.override(t, state, prev_agent, agent))
        ways = task.ways_to(named)
        return task.roles.orders.drawn(prev_agent, int(ways[min(state, len(ways) - 1), prev_agent]), self.rng)

    def act(self, t: int, state: int, prev_agent: int, agent: int) -> tuple[Step, bool]:
        """Let the agent act; return the step, and whether the episode is over. Costs that the task does not state are -reward."""
        live, ends, task = self.live, self.task.cost_range, self.task
        step = live.step(t, state, prev_agent, agent, self.rng)
        self.gained += live.reward
        if np.isnan(self.task.env_cost[state, step.action]) and not ends[0] <= step.cost <= ends[1]:
            expected = f"from {-ends[1]:g} to {-ends[0]:g}: give task_for a cost_range that holds minus every reward"
            check.fail("run", "the reward of env", live.reward, expected)
        if task.learns_team_costs:
            found = check.items("run", "what team_costs returned", self.team_costs(state, prev_agent, agent), "two numbers")
            if len(found) != 2:
                check.fail("run", "what team_costs returned", check.show(found), "two numbers: of control, and of the hand-over")
            control, switching = (check.number("run", "what team_costs returned", cost) for cost in found)
            step = step._replace(control_cost=control, switch_cost=switching)
        return step, live.terminated or live.truncated

    def charged(self, step: Step) -> dict[str, float]:
        """Return the costs of a step for `observe`."""
        return {name: getattr(step, name) for name in self.task.charges}
