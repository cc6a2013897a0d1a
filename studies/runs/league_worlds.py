"""The worlds of the league against other methods, each a problem in which it matters who is in control.

FrozenLake, CliffWalking and Taxi of Gymnasium, three of MiniGrid, RiverSwim, lane driving and the support desk. `WORLDS` has them
by name, `about` says how large one is, and what the best policy, each agent alone and chance cost in it.

cede.gym is imported where it is used, not at the top: figures are listed where Gymnasium is not installed.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cede import Agent, Environment, Team, TwoLayerMDP, expected_cost, solve
from cede.planning.planner import best_policy
from cede.worlds import support_desk
from studies.arrays import Floats
from studies.runs.frozen_lake import frozen_lake
from studies.runs.promises import machine_and_human, two_swimmers

if TYPE_CHECKING:
    from cede.gym.minigrid import MiniGridStates

WALK = ("left", "right", "forward")  # actions of MiniGrid where nothing is to be carried or opened
EAST, SOUTH, WEST, NORTH = range(4)


def newest(name: str, **options: Any) -> Any:
    """Make the newest version of an environment of Gymnasium, such as "Taxi"."""
    import gymnasium

    versions = [spec.version or 0 for spec in gymnasium.registry.values() if spec.name == name and spec.namespace is None]
    return gymnasium.make(f"{name}-v{max(versions)}", **options)


def minigrid(name: str, actions: tuple[str, ...], seed: int) -> "MiniGridStates":
    """Return the states of a MiniGrid environment with some of its actions and one layout."""
    import gymnasium

    from cede.gym.minigrid import minigrid_states

    return minigrid_states(gymnasium.make(f"MiniGrid-{name}-v0"), seed=seed, actions=actions)


def noisy(policy: Floats, chance: float) -> Floats:
    """Return a policy that takes any action at random with some chance. policy: (S, A)."""
    mixed: Floats = (1.0 - chance) * policy + chance / policy.shape[1]
    return mixed


def where(mask: Any, policy: Floats, otherwise: Floats) -> Floats:
    """Return a policy that follows one table where mask, (S,), is True, and another one elsewhere."""
    return np.where(np.asarray(mask)[:, None], policy, otherwise)


def anything(environment: Environment) -> Floats:
    """Return the policy of one who does anything, (S, A)."""
    return np.full((environment.n_states, environment.n_actions), 1.0 / environment.n_actions)


def someone(n_states: int, n_actions: int) -> list[Agent]:
    """Return a team for problems of which only the environment is wanted."""
    return [Agent("anyone", np.full((n_states, n_actions), 1.0 / n_actions))]


@cache
def frozen_lake_large() -> TwoLayerMDP:
    """Return FrozenLake 8x8 with the walkers of FrozenLake 4x4: guides for the north and the south, and one who is lost."""
    return frozen_lake("8x8", 100)


@cache
def cliff() -> TwoLayerMDP:
    """Return CliffWalking with a bold walker, and a careful one who costs as much as the way. A fall costs 1, a step 0.01.

    The bold one walks east along the row that they are in, also beside the cliff, and missteps often. The careful one climbs to the
    northern row before walking east. The best is to let the careful one climb, and then the bold one walk.
    """
    from cede.gym.toy_text import from_toy_text

    env = newest("CliffWalking")
    states = np.arange(48)
    row, column = states // 12, states % 12
    up, right, down = np.eye(4)[0], np.eye(4)[1], np.eye(4)[2]
    home = np.where((column == 11)[:, None], down, right)
    bold = np.where((row == 3)[:, None], up, home)
    careful = np.where(((row > 0) & (column < 11))[:, None], up, home)
    agents = [Agent("bold", noisy(bold, 0.2)), Agent("careful", noisy(careful, 0.05), control_cost=0.01)]
    mdp = from_toy_text(env, agents, 60, switch_cost=0.005)
    return replace(mdp, environment=replace(mdp.environment, cost=mdp.environment.cost / 100.0))


@cache
def taxi() -> TwoLayerMDP:
    """Return Taxi with a specialist for each leg and a generalist who costs. 40 steps; a step costs 0.05, a wrong pickup or
    drop-off 0.25, and after the passenger has arrived nothing does.

    The collector drives well until the passenger is in the taxi and does anything afterwards; with the deliverer it is the reverse.
    """
    from cede.gym.toy_text import from_toy_text

    env = newest("Taxi")
    mdp = from_toy_text(env, someone(500, 6), 40)
    cost = np.where(mdp.environment.cost > 5.0, 0.25, 0.05)
    cost[list(mdp.environment.terminal)] = 0.0
    environment = replace(mdp.environment, cost=cost)
    best, lost = noisy(best_policy(environment, 100), 0.05), anything(environment)
    riding = np.array([s < 500 and list(env.unwrapped.decode(s))[2] == 4 for s in range(environment.n_states)])
    agents = [
        Agent("collector", where(riding, lost, best)),
        Agent("deliverer", where(riding, best, lost)),
        Agent("generalist", best, control_cost=0.05),
    ]
    return from_tables(environment, agents, 40, 0.05)


def from_tables(environment: Environment, agents: list[Agent], horizon: int, switch_cost: float) -> TwoLayerMDP:
    """Return the problem of an environment and a team in which every hand-over costs the same; the first agent begins."""
    return TwoLayerMDP(environment, Team(agents, switch_cost), horizon)


def features(states: "MiniGridStates") -> list[Mapping[str, str]]:
    """Return for each state its features by name, as in {"x": "1", "facing": "east"}; none for ends."""
    return [dict(part.split("=") for part in name.split(", ") if "=" in part) for name in states.names]


def straight_to_goal(states: "MiniGridStates") -> Floats:
    """Return the policy of one who walks towards the goal, east or west first, and sees nothing that lies in between, (S, A)."""
    from cede.gym.minigrid import FACING

    grid = states.env.unwrapped.grid
    place = next(i for i, thing in enumerate(grid.grid) if thing is not None and thing.type == "goal")
    goal_x, goal_y = place % grid.width, place // grid.width
    policy = np.zeros((states.n_states, len(states.actions)))
    for s, seen in enumerate(features(states)):
        action = "forward"
        if seen:
            x, y = int(seen["x"]), int(seen["y"])
            aim = EAST if x < goal_x else WEST if x > goal_x else SOUTH if y < goal_y else NORTH
            action = ("forward", "right", "right", "left")[(aim - FACING.index(seen["facing"])) % 4]
        policy[s, states.actions.index(action)] = 1.0
    return policy


def lava(name: str, seed: int, horizon: int, slip: float) -> TwoLayerMDP:
    """Return a MiniGrid environment with lava, a novice who does not see it, and an expert who costs 0.02 a step.

    slip: how often the expert does anything; the novice does so in every tenth step.
    """
    from cede.gym.minigrid import from_minigrid

    states = minigrid(name, WALK, seed)
    environment = from_minigrid(states, someone(states.n_states, 3), horizon).environment
    novice = Agent("novice", noisy(straight_to_goal(states), 0.1))
    expert = Agent("expert", noisy(best_policy(environment, horizon), slip), control_cost=0.02)
    return from_minigrid(states, [novice, expert], horizon, switch_cost=0.005)


@cache
def dist_shift() -> TwoLayerMDP:
    """Return MiniGrid DistShift2: lava lies on the straight way to the goal, and the expert never errs."""
    return lava("DistShift2", 0, 50, 0.0)


@cache
def lava_gap() -> TwoLayerMDP:
    """Return MiniGrid LavaGapS7: a wall of lava with one gap, and an expert who errs now and then."""
    return lava("LavaGapS7", 0, 50, 0.03)


@cache
def door_key() -> TwoLayerMDP:
    """Return MiniGrid DoorKey-5x5: one fetches the key and opens the door, one walks to the goal, an expert can do both and costs.

    The opener wanders about once the door is open; the walker wanders about while it is not, and never picks the key up.
    """
    from cede.gym.minigrid import from_minigrid

    states = minigrid("DoorKey-5x5", (*WALK, "pickup", "toggle"), 0)
    environment = from_minigrid(states, someone(states.n_states, 5), 50).environment
    best = noisy(best_policy(environment, 50), 0.05)
    wandering = np.tile(np.array([1, 1, 1, 0, 0]) / 3.0, (states.n_states, 1))
    is_open = np.array([seen.get("door") == "open" for seen in features(states)])
    agents = [
        Agent("walker", where(is_open, best, wandering)),
        Agent("opener", where(is_open, wandering, best)),
        Agent("expert", best, control_cost=0.02),
    ]
    return from_minigrid(states, agents, 50, switch_cost=0.005)


WORLDS: dict[str, Callable[[], TwoLayerMDP]] = {
    "FrozenLake 4x4": frozen_lake,
    "FrozenLake 8x8": frozen_lake_large,
    "CliffWalking": cliff,
    "Taxi": taxi,
    "DistShift2": dist_shift,
    "LavaGapS7": lava_gap,
    "DoorKey-5x5": door_key,
    "RiverSwim": two_swimmers,
    "lane driving": machine_and_human,
    "support desk": support_desk,
}


def cost_of_chance(mdp: TwoLayerMDP) -> float:
    """Return the expected cost of an episode in which the next agent is drawn at random in every step, each as likely.

    Computed backwards: what the mean of all agents costs. For problems in which every agent can get control at once.
    """
    task, value = mdp.task, np.zeros((mdp.task.n_states, mdp.task.n_agents))
    environment, ends = mdp.environment, mdp.task.is_terminal
    enter = np.zeros(task.n_states) if task.enter_cost is None else task.enter_cost
    moves = environment.tables[0]
    states, agents = np.arange(task.n_states), np.arange(task.n_agents)
    for t in reversed(range(task.horizon)):
        after = np.zeros_like(value)
        for agent in agents:
            table = mdp.policies[task.table[agent]]
            policy = table[t] if task.table_varies[task.table[agent]] == "time" else table
            ahead = (moves @ (enter + value[:, agent])).reshape(task.n_states, task.n_actions)
            step = (policy * (task.env_cost + ahead)).sum(axis=1)
            for prev in agents:
                control, switching = task.control_costs(states, prev, agent)
                after[:, prev] += (step + control + switching) / task.n_agents
        after[ends] = (task.env_cost[ends, 0] * (task.horizon - t))[:, None]
        value = after
    return float(environment.start @ value[:, task.start_agent])


def about(mdp: TwoLayerMDP) -> dict[str, Any]:
    """Return the sizes of a problem, and the exact costs of the best policy, of each agent alone and of chance."""
    task = mdp.task
    sizes = {"states": task.n_states, "actions": task.n_actions, "agents": task.n_agents, "horizon": task.horizon}
    costs = {"best": expected_cost(mdp, solve(mdp).policy), "chance": cost_of_chance(mdp)}
    return {**sizes, **costs, **{f"{name} alone": expected_cost(mdp, task.always(name)) for name in task.members}}
