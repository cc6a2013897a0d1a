"""A switching problem as a Gymnasium environment, in which the action is who gets control."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cede._base import check
from cede._base.extras import AGENT_COLOURS, need, pyplot
from cede._base.extras import label as label_of
from cede.problem.model import TwoLayerMDP
from cede.problem.takeover import next_agent_towards
from cede.worlds import lane_driving, riverswim, road

gymnasium: Any = need("gymnasium", "gym")


class SwitchingEnv(gymnasium.Env):  # type: ignore[misc]  # an extra: types see Any
    """A TwoLayerMDP as a Gymnasium environment, for any method that learns in those.

    Action: which member of the team should get control. If a hand-over takes time, the action begins it; while a hand-over is under
    way, the action has no effect. Observation: MultiDiscrete, the state and the agent in control. With time=True the time step
    comes before them; the best policy depends on it. Reward: minus the cost of the step. `info`: who acted ("agent"), the action
    that was taken ("action"), and the costs: of the environment, of control, of the hand-over, of arriving, and after an end what
    the rest of the steps cost. The episode terminates after `horizon` steps, or where the problem has an end.

    render_mode: None or "rgb_array".
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012 (Gymnasium wants it so)

    def __init__(self, mdp: TwoLayerMDP, *, time: bool = False, render_mode: str | None = None) -> None:
        check.instance("SwitchingEnv", "mdp", mdp, TwoLayerMDP)
        check.choice("SwitchingEnv", "render_mode", render_mode, (None, "rgb_array"))
        self.mdp, self.time, self.render_mode = mdp, check.truth("SwitchingEnv", "time", time), render_mode
        task = mdp.task
        if self.time and task.horizon is None:
            check.fail("SwitchingEnv", "time", True, "False without a horizon")
        sizes = [task.n_states, task.n_agents]
        self.observation_space = gymnasium.spaces.MultiDiscrete([task.horizon, *sizes] if self.time else sizes)
        self.action_space = gymnasium.spaces.Discrete(len(task.members))
        # (members, D): the agent who is in control next, given the member who should be and the agent who was before
        self._next = np.array([next_agent_towards(task.can_hand_over, member) for member in range(len(task.members))])
        self._cumulated = [np.cumsum(policy, axis=-1) for policy in mdp.policies]
        self.t, self.state, self.agent, self.is_over = 0, 0, int(task.start_agent), True  # no step before the first reset
        self.path: list[tuple[int, int]] = []  # for each step the state and the member who acted in it, for pictures

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return the first observation and an empty `info`, as Gymnasium wants it. Options are ignored."""
        super().reset(seed=seed)
        self.t, self.agent, self.path, self.is_over = 0, int(self.mdp.task.start_agent), [], False
        self.state = self._draw(self.mdp.environment.cumulated_start)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Hand control to a member and let it act once; return observation, reward, terminated, truncated and `info`."""
        task, s, environment = self.mdp.task, self.state, self.mdp.environment
        if self.is_over:
            check.fail("SwitchingEnv.step", "the episode", "over", "begun: call reset first")
        member = check.index("SwitchingEnv.step", "action", np.asarray(action)[()], len(task.members))
        prev, agent = self.agent, int(self._next[member, self.agent])
        table = self._cumulated[task.table[agent]]
        varies = task.table_varies[task.table[agent]]
        row = table[s] if varies is None else table[self.t if varies == "time" else prev, s]
        taken = self._draw(row)
        places = environment.tables[0 if environment.periods is None else int(environment.periods[self.t])]
        begin, end = places.indptr[s * task.n_actions + taken : s * task.n_actions + taken + 2]
        to = int(places.indices[begin + self._draw(np.cumsum(places.data[begin:end]))])
        control, switching = task.control_costs(s, prev, agent)
        possible = environment.random_cost
        charged = task.env_cost[s, taken] if possible is None else self.np_random.choice(possible[s, taken])
        costs = {
            "env_cost": float(charged),
            "control_cost": float(control),
            "switch_cost": float(switching),
            "enter_cost": 0.0 if task.enter_cost is None else float(task.enter_cost[to]),
            "cost_after_end": task.cost_of_ending(self.t + 1, to) if task.is_terminal[to] else 0.0,
        }
        self.path.append((s, int(task.acting[agent])))
        self.state, self.agent, self.t = to, agent, self.t + 1
        self.is_over = bool(task.is_terminal[to]) or self.t == task.horizon
        info = {"agent": task.members[task.acting[agent]], "action": taken, **costs}
        return self._observation(), 0.0 - sum(costs.values()), self.is_over, False, info

    def _observation(self) -> Any:
        """Return [state, agent], or [t, state, agent] with time=True; after the last step t is still the last one."""
        time = [min(self.t, self.mdp.task.horizon - 1)] if self.time else []
        return np.array([*time, self.state, self.agent], dtype=np.int64)

    def _draw(self, cumulated: Any) -> int:
        """Draw an index with the environment's random numbers; `cumulated` are the running sums of the probabilities."""
        return int(min(np.searchsorted(cumulated, self.np_random.random() * cumulated[-1], side="right"), len(cumulated) - 1))

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
            draw = draw_lane if is_road(self.mdp) else draw_states
            draw(axes, self)
            picture.canvas.draw()
            return np.asarray(picture.canvas.buffer_rgba())[..., :3].copy()
        finally:
            plt.close(picture)


def is_road(mdp: TwoLayerMDP) -> bool:
    """Tell by the names of the states whether a problem is lane driving, with any team."""
    return tuple(mdp.environment.state_names or ()) == tuple(road.states().names)


def draw_lane(axes: Any, env: SwitchingEnv) -> None:
    """Draw the cells that the car was on, those that it can see, and the car's way, coloured by who drove."""
    from cede.worlds.lane_driving import Drive
    from cede.worlds.pictures import draw_drive, legend_handles

    states, members = road.states(), env.mdp.task.members
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
    last = env.mdp.horizon or max(env.t, 10)
    draw_drive(axes, driven, members, f"step {env.t}" + ("" if env.mdp.horizon is None else f" of {last}"))
    axes.set_ylim(0, last + 2)
    axes.plot(lanes[-1] + 0.5, len(lanes) - 0.5, "^", color="black", markersize=9, zorder=6)
    axes.legend(handles=legend_handles(), loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, fontsize=6, frameon=False)


def draw_states(axes: Any, env: SwitchingEnv) -> None:
    """Draw one mark for each step, time to the right and states upward, in the colour of who acted."""
    for t, (s, who) in enumerate(env.path):
        label = label_of(env.mdp.task.members[who]) if who not in [w for _, w in env.path[:t]] else None
        axes.plot(t, s, "s", color=AGENT_COLOURS[who % len(AGENT_COLOURS)], label=label)
    axes.plot(env.t, env.state, "k^")
    axes.set(
        xlim=(-0.5, (env.mdp.horizon or max(env.t, 10)) + 0.5),
        ylim=(-0.5, env.mdp.task.n_states - 0.5),
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


WORLDS: dict[str, Callable[..., SwitchingEnv]] = {"cede/LaneDriving-v0": make_lane_driving, "cede/RiverSwim-v0": make_riverswim}


def register() -> None:
    """Register the worlds with Gymnasium, so that `gymnasium.make` finds them; called when this module is imported."""
    for name, make in WORLDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=f"{make.__module__}:{make.__name__}")


register()
