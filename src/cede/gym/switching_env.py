"""A switching problem as a Gymnasium environment. Its action is the member of the team that gets control.

Steps come from the tables of a TwoLayerMDP (`TableTeam`), or from another environment and actors in it (live.py: `LiveTeam`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cede._base import check
from cede._base.extras import AGENT_COLOURS, need, pyplot
from cede._base.extras import label as label_of
from cede.gym.live import LiveTeam, live_team
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task
from cede.steps.cost import cost_parts
from cede.steps.step import Step
from cede.worlds import lane_driving, riverswim, road

gymnasium: Any = need("gymnasium", "gym")


class TableTeam:
    """A team in an environment that follows the tables of a TwoLayerMDP: it begins episodes and takes steps."""

    truncated = False  # no time limit ends an episode

    def __init__(self, mdp: TwoLayerMDP) -> None:
        self.mdp, self.task = mdp, mdp.task
        self._cumulated = [np.cumsum(policy, axis=-1) for policy in mdp.policies]

    def begin(self, rng: np.random.Generator) -> int:
        """Return the first state of an episode."""
        return drawn(self.mdp.environment.cumulated_start, rng)

    def step(self, t: int, s: int, prev: int, agent: int, rng: np.random.Generator) -> Step:
        """Let the agent in control act; return the step."""
        task, environment = self.task, self.mdp.environment
        table = self._cumulated[task.table[agent]]
        varies = task.table_varies[task.table[agent]]
        taken = drawn(table[s] if varies is None else table[t if varies == "time" else prev, s], rng)
        places = environment.tables[0 if environment.periods is None else int(environment.periods[t])]
        begin, end = places.indptr[s * task.n_actions + taken : s * task.n_actions + taken + 2]
        to = int(places.indices[begin + drawn(np.cumsum(places.data[begin:end]), rng)])
        possible = environment.random_cost
        cost = float(task.env_cost[s, taken] if possible is None else rng.choice(possible[s, taken]))
        return Step(t, s, prev, agent, taken, to, cost, 0.0 if task.enter_cost is None else float(task.enter_cost[to]))


def drawn(cumulated: Any, rng: np.random.Generator) -> int:
    """Draw an index; `cumulated` are the running sums of the probabilities."""
    return int(min(np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right"), len(cumulated) - 1))


class SwitchingEnv(gymnasium.Env):  # type: ignore[misc]  # an extra: types see Any
    """A switching problem as a Gymnasium environment, for any method that learns in such environments.

    mdp: a TwoLayerMDP, whose tables are followed. Or a Gymnasium environment with discrete actions; then give also the team that
    acts in it, anything that `run` takes, the task, as `task_for` makes one, and encode, as in `run`.

    Action: the member of the team that should get control. If a hand-over takes time, the action begins it; during a hand-over the
    action has no effect. Observation: MultiDiscrete, the state and the agent in control. With time=True the time step precedes
    them; the best policy depends on it. With raw=True it is a Dict instead: the "observation" of the environment, the "agent", and
    with time=True the "time".

    Reward: minus the cost of the step. `info`: the acting member ("agent"), its action ("action"), and the costs: of the
    environment, of control, of the hand-over, of arriving, and after a terminal state of the remaining steps. The episode
    terminates after `horizon` steps, or in a terminal state. It is truncated when the environment truncates it. While a lock
    forbids a hand-over, its action has no effect; `action_masks` shows that beforehand.

    render_mode: None or "rgb_array".
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012 (Gymnasium wants it so)

    def __init__(
        self,
        mdp: Any,
        *,
        team: Any = None,
        task: Task | None = None,
        encode: Callable[..., int] | None = None,
        time: bool = False,
        raw: bool = False,
        render_mode: str | None = None,
    ) -> None:
        owner = "SwitchingEnv"
        self.mdp = mdp if isinstance(mdp, TwoLayerMDP) else None
        check.choice(owner, "render_mode", render_mode, (None, "rgb_array"))
        self.time, self.raw, self.render_mode = check.truth(owner, "time", time), check.truth(owner, "raw", raw), render_mode
        if isinstance(mdp, TwoLayerMDP):
            for name, value in (("team", team), ("task", task), ("encode", encode), ("raw", raw or None)):
                if value is not None:
                    check.fail(owner, name, check.show(value), "left out where mdp is a TwoLayerMDP, which has its own")
            self.source: TableTeam | LiveTeam = TableTeam(mdp)
        elif all(hasattr(mdp, name) for name in ("observation_space", "action_space", "reset", "step")):
            check.instance(owner, "task", task, Task, ", as task_for makes one for the environment")
            assert task is not None
            if task.learns_team_costs:
                check.fail(owner, "control_cost or switch_cost of the task", "not known", "known: rewards are minus all costs")
            self.source = live_team(owner, mdp, team, task, encode, "the task")
        else:
            check.fail(owner, "mdp", check.show(mdp), "a TwoLayerMDP, or an environment as gymnasium.make gives one")
        self.task = task = self.source.task
        if self.time and task.horizon is None:
            check.fail(owner, "time", True, "False without a horizon")
        sizes = [task.n_states, task.n_agents]
        self.observation_space = gymnasium.spaces.MultiDiscrete([task.horizon, *sizes] if self.time else sizes)
        if isinstance(self.source, LiveTeam) and self.raw:
            parts = {"observation": mdp.observation_space, "agent": gymnasium.spaces.Discrete(task.n_agents)}
            times = {"time": gymnasium.spaces.Discrete(task.horizon)} if self.time else {}
            self.observation_space = gymnasium.spaces.Dict({**parts, **times})
        self.action_space = gymnasium.spaces.Discrete(len(task.members))
        # (members, S or 1, D): the next agent in control, by the chosen member, the state and the previous agent
        self._next = np.array([task.ways_to(member) for member in range(len(task.members))])
        self.t, self.state, self.agent, self.is_over = 0, 0, int(task.start_agent), True  # no step before the first reset
        self.path: list[tuple[int, int]] = []  # for each step the state and the member who acted in it, for pictures

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return the first observation and an empty `info`, as Gymnasium requires. Options are ignored."""
        super().reset(seed=seed)
        self.t, self.agent, self.path, self.is_over = 0, int(self.task.start_agent), [], False
        self.state = self.source.begin(seed) if isinstance(self.source, LiveTeam) else self.source.begin(self.np_random)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Hand control to a member and let it act once; return observation, reward, terminated, truncated and `info`."""
        task, s, prev = self.task, self.state, self.agent
        if self.is_over:
            check.fail("SwitchingEnv.step", "the episode", "over", "begun: call reset first")
        member = check.index("SwitchingEnv.step", "action", np.asarray(action)[()], len(task.members))
        agent = self.task.roles.orders.drawn(prev, self._order(member), self.np_random)
        step = self.source.step(self.t, s, prev, agent, self.np_random)
        parts, truncated = cost_parts(task, step), self.source.truncated
        costs = {name: float(part) for name, part in parts._asdict().items()}
        self.path.append((s, int(task.acting[agent])))
        self.state, self.agent, self.t = step.next_state, agent, self.t + 1
        terminated = bool(task.is_terminal[step.next_state]) or self.t == task.horizon
        self.is_over = terminated or truncated
        info = {"agent": task.members[task.acting[agent]], "action": step.action, **costs}
        return self._observation(), 0.0 - float(parts.total), terminated, truncated and not terminated, info

    def _order(self, member: int) -> int:
        """Return the next agent on the way to a member from here."""
        return int(self._next[member, min(self.state, self._next.shape[1] - 1), self.agent])

    def action_masks(self) -> Any:
        """Return for each member whether choosing it has an effect now, (members,), in the form of sb3-contrib: control can be
        handed to it, or a hand-over to it begins or goes on. The member that has control is never masked.
        """
        aim, possible = self.task.layout.aim, self.task.may_choose(self.state, self.agent)
        return np.isin(np.arange(len(self.task.members)), [aim[self.agent], *aim[possible]])

    def _observation(self) -> Any:
        """Return [state, agent], or [t, state, agent] with time=True; after the last step t is still the last one."""
        time = [] if not self.time else [min(self.t, self.task.horizon - 1)]
        if isinstance(self.source, LiveTeam) and self.raw:
            seen = {"observation": self.source.observation, "agent": np.int64(self.agent)}
            return {**seen, "time": np.int64(time[0])} if self.time else seen
        return np.array([*time, self.state, self.agent], dtype=np.int64)

    def close(self) -> None:
        """Close the environment in which the team acts, if there is one."""
        if isinstance(self.source, LiveTeam):
            self.source.env.close()

    def render(self) -> Any:
        """Return a picture of the episode so far, (height, width, 3), or None if render_mode is None.

        It shows the road in lane driving, and in any other problem the states and who acted in them.
        """
        if self.render_mode is None:
            return None
        plt = pyplot()
        picture = plt.figure(figsize=(2.6, 5.2), dpi=80, layout="constrained")
        try:
            axes = picture.add_subplot()
            draw = draw_lane if is_road(self.task) else draw_states
            draw(axes, self)
            picture.canvas.draw()
            return np.asarray(picture.canvas.buffer_rgba())[..., :3].copy()
        finally:
            plt.close(picture)


def is_road(task: Task) -> bool:
    """Return whether a problem is lane driving, with any team, by the names of its states."""
    return tuple(task.state_names or ()) == tuple(road.states().names)


def draw_lane(axes: Any, env: SwitchingEnv) -> None:
    """Draw the cells that the car was on, those that it can see, and the car's way, coloured by who drove."""
    from cede.worlds.lane_driving import Drive
    from cede.worlds.pictures import draw_drive, legend_handles

    states, members = road.states(), env.task.members
    way = [*(s for s, _ in env.path), env.state]
    lanes = [int(states.lane[s]) for s in way]
    rows = np.zeros((len(way) + 1, 3), dtype=int)  # one row further than the car has come
    for t, (s, lane) in enumerate(zip(way, lanes, strict=True)):
        rows[t, lane] = states.cell[s]
        for side in (-1, 0, 1):
            if 0 <= lane + side <= 2:
                rows[t + 1, lane + side] = states.ahead[s, 1 + side]
    stretch = road.Road(np.zeros(len(rows), dtype=int), rows)
    driven = Drive(stretch, np.array(lanes), np.array([who for _, who in env.path], dtype=int), 0.0)
    last = env.task.horizon or max(env.t, 10)
    draw_drive(axes, driven, members, f"step {env.t}" + ("" if env.task.horizon is None else f" of {last}"))
    axes.set_ylim(0, last + 2)
    axes.plot(lanes[-1] + 0.5, len(lanes) - 0.5, "^", color="black", markersize=9, zorder=6)
    axes.legend(handles=legend_handles(), loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, fontsize=6, frameon=False)


def draw_states(axes: Any, env: SwitchingEnv) -> None:
    """Draw one mark for each step, time to the right and states upward, in the colour of who acted."""
    for t, (s, who) in enumerate(env.path):
        label = label_of(env.task.members[who]) if who not in [w for _, w in env.path[:t]] else None
        axes.plot(t, s, "s", color=AGENT_COLOURS[who % len(AGENT_COLOURS)], label=label)
    axes.plot(env.t, env.state, "k^")
    axes.set(
        xlim=(-0.5, (env.task.horizon or max(env.t, 10)) + 0.5),
        ylim=(-0.5, env.task.n_states - 0.5),
        xlabel="time",
        ylabel="state",
    )
    if env.path:
        axes.legend(fontsize=6)


def make_lane_driving(*, time: bool = False, render_mode: str | None = None, **world: Any) -> SwitchingEnv:
    """Make the environment `cede/LaneDriving-v0`; further arguments are those of `worlds.lane_driving`."""
    return SwitchingEnv(lane_driving(**world), time=time, render_mode=render_mode)


def make_riverswim(*, time: bool = False, render_mode: str | None = None, **world: Any) -> SwitchingEnv:
    """Make the environment `cede/RiverSwim-v0`; further arguments are those of `worlds.riverswim`."""
    return SwitchingEnv(riverswim(**world), time=time, render_mode=render_mode)


# Registered with Gymnasium, so that `gymnasium.make` finds them.
WORLDS: dict[str, Callable[..., SwitchingEnv]] = {"cede/LaneDriving-v0": make_lane_driving, "cede/RiverSwim-v0": make_riverswim}
for _name, _make in WORLDS.items():
    if _name not in gymnasium.registry:
        gymnasium.register(id=_name, entry_point=f"{_make.__module__}:{_make.__name__}")
