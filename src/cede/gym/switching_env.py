"""The switching problem itself as a Gymnasium environment: the action is which agent gets control."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cede._base import check
from cede._base.extras import AGENT_COLOURS, need, pyplot
from cede.problem.model import TwoLayerMDP
from cede.problem.takeover import way_to
from cede.worlds import lane_driving, riverswim, road

gymnasium: Any = need("gymnasium", "gym")


class SwitchingEnv(gymnasium.Env):  # type: ignore[misc]  # an extra: types see Any
    """A `TwoLayerMDP` to be controlled by any method for Gymnasium.

    Action: which member of the team gets control. Observation: the state and the agent in control, MultiDiscrete; with `time=True`
    the time step before them, without which no policy can be the best one. Reward: minus the cost of the step. `info`: who acted,
    the action, and the three costs. After `horizon` steps the episode has terminated: there is nothing left to lose.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012 (Gymnasium wants it so)

    def __init__(self, mdp: TwoLayerMDP, *, time: bool = False, render_mode: str | None = None) -> None:
        if not isinstance(mdp, TwoLayerMDP):
            check.fail("SwitchingEnv", "mdp", check.show(mdp), "a TwoLayerMDP")
        check.choice("SwitchingEnv", "render_mode", render_mode, (None, "rgb_array"))
        self.mdp, self.time, self.render_mode = mdp, bool(time), render_mode
        task = mdp.task
        sizes = [task.n_states, task.n_agents]
        self.observation_space = gymnasium.spaces.MultiDiscrete([task.horizon, *sizes] if self.time else sizes)
        self.action_space = gymnasium.spaces.Discrete(len(task.members))
        self._next = np.array([way_to(task.switch_cost, member) for member in range(len(task.members))])  # (members, D)
        self._cumulated = [np.cumsum(policy, axis=-1) for policy in mdp.policies]
        self.t, self.state, self.agent = task.horizon, 0, int(task.start_agent)  # no step before the first reset
        self.path: list[tuple[int, int]] = []  # (state, agent who acts there), for pictures

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.agent, self.path = 0, int(self.mdp.task.start_agent), []
        self.state = self._draw(self.mdp.environment.cumulated_start)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        task, s = self.mdp.task, self.state
        if self.t >= task.horizon:
            check.fail("SwitchingEnv.step", "the number of steps", self.t, f"below {task.horizon}: call reset first")
        member = check.index("SwitchingEnv.step", "action", np.asarray(action)[()], len(task.members))
        prev, agent = self.agent, int(self._next[member, self.agent])
        table = self._cumulated[task.table[agent]]
        varies = task.table_varies[task.table[agent]]
        row = table[s] if varies is None else table[self.t if varies == "time" else prev, s]
        taken = self._draw(row)
        places = self.mdp.environment.transition
        begin, end = places.indptr[s * task.n_actions + taken : s * task.n_actions + taken + 2]
        to = int(places.indices[begin + self._draw(np.cumsum(places.data[begin:end]))])
        costs = {
            "env_cost": float(task.env_cost[s, taken]),
            "control_cost": float(task.control_cost[agent]),
            "switch_cost": float(task.switch_cost[prev, agent]),
        }
        self.path.append((s, int(task.acting[agent])))
        self.state, self.agent, self.t = to, agent, self.t + 1
        info = {"agent": task.members[task.acting[agent]], "action": taken, **costs}
        return self._observation(), 0.0 - sum(costs.values()), self.t == task.horizon, False, info

    def _observation(self) -> Any:
        time = [min(self.t, self.mdp.task.horizon - 1)] if self.time else []
        return np.array([*time, self.state, self.agent], dtype=np.int64)

    def _draw(self, cumulated: Any) -> int:
        """An outcome, from running sums of probabilities."""
        return int(min(np.searchsorted(cumulated, self.np_random.random() * cumulated[-1], side="right"), len(cumulated) - 1))

    def render(self) -> Any:
        """(height, width, 3): in lane driving the road so far, elsewhere the states and who acted in them."""
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
    """Is it lane driving, with whatever team?"""
    return tuple(mdp.environment.state_names or ()) == tuple(road.states().names)


def draw_lane(axes: Any, env: SwitchingEnv) -> None:
    """The cells that the car has been on and those that it can see, and its way, coloured by who drove."""
    from cede.worlds.pictures import draw_drive, legend_handles

    states, members = road.states(), env.mdp.task.members
    way = [*(s for s, _ in env.path), env.state]
    lanes = [int(states.lane[s]) for s in way]
    rows = np.zeros((len(way) + 1, 3), dtype=int)  # as far as the car has seen
    for t, (s, lane) in enumerate(zip(way, lanes, strict=True)):
        rows[t, lane] = states.cell[s]
        for side in (-1, 0, 1):
            if 0 <= lane + side <= 2:
                rows[t + 1, lane + side] = states.ahead[s, 1 + side]
    stretch = road.Road(np.zeros(len(rows), dtype=int), rows)
    driven = lane_drive(stretch, lanes, [who for _, who in env.path])
    draw_drive(axes, driven, members, f"step {env.t} of {env.mdp.horizon}")
    axes.set_ylim(0, env.mdp.horizon + 2)
    axes.plot(lanes[-1] + 0.5, len(lanes) - 0.5, "^", color="black", markersize=9, zorder=6)
    axes.legend(handles=legend_handles(), loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, fontsize=6, frameon=False)


def lane_drive(stretch: Any, lanes: list[int], who: list[int]) -> Any:
    from cede.worlds.lane_driving import Drive

    return Drive(stretch, np.array(lanes), np.array(who, dtype=int), 0.0)


def draw_states(axes: Any, env: SwitchingEnv) -> None:
    """States upward, time to the right, one mark for each step in the colour of who acted."""
    for t, (s, who) in enumerate(env.path):
        label = env.mdp.task.members[who] if who not in [w for _, w in env.path[:t]] else None
        axes.plot(t, s, "s", color=AGENT_COLOURS[who % len(AGENT_COLOURS)], label=label)
    axes.plot(env.t, env.state, "k^")
    axes.set(xlim=(-0.5, env.mdp.horizon + 0.5), ylim=(-0.5, env.mdp.task.n_states - 0.5), xlabel="time", ylabel="state")
    if env.path:
        axes.legend(fontsize=6)


def make_lane_driving(*, time: bool = False, render_mode: str | None = None, **world: Any) -> SwitchingEnv:
    """`cede/LaneDriving-v0`; world: arguments of `worlds.lane_driving`."""
    return SwitchingEnv(lane_driving(**world), time=time, render_mode=render_mode)


def make_riverswim(*, time: bool = False, render_mode: str | None = None, **world: Any) -> SwitchingEnv:
    """`cede/RiverSwim-v0`; world: arguments of `worlds.riverswim`."""
    return SwitchingEnv(riverswim(**world), time=time, render_mode=render_mode)


WORLDS: dict[str, Callable[..., SwitchingEnv]] = {"cede/LaneDriving-v0": make_lane_driving, "cede/RiverSwim-v0": make_riverswim}


def register() -> None:
    """Make the worlds known to `gymnasium.make`."""
    for name, make in WORLDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=f"{make.__module__}:{make.__name__}")


register()
