"""Make a problem from Gymnasium's slippery FrozenLake, with three imperfect walkers as agents: a guide who knows the north half of
the lake, one who knows the south half, and one who is lost.
"""

from functools import cache
from typing import Any

import numpy as np

from cede import Agent, Outcomes, Structure, TwoLayerMDP

HORIZON = 40
CONTROL_COST = {"north": 0.002, "south": 0.002, "lost": 0.0}
SWITCH_COST = 0.005
CONFUSED = 0.1  # how often a guide walks in a random direction
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up: the actions of FrozenLake


@cache
def frozen_lake(map_name: str = "4x4", horizon: int = HORIZON) -> TwoLayerMDP:
    """Return the problem, with its structure declared. Reaching the goal is worth 1, and every move slips to either side with
    probability 1/3 each. A guide walks well in their own half and anywhere in the other one. map_name: as in Gymnasium.
    horizon: the steps of a walk.
    """
    import gymnasium

    from cede.gym.toy_text import from_toy_text

    env: Any = gymnasium.make("FrozenLake-v1", map_name=map_name, is_slippery=True)
    icy = env.unwrapped
    tiles = np.char.decode(icy.desc)
    north = np.arange(tiles.size) < tiles.size // 2
    anywhere = np.full((tiles.size, 4), 0.25)
    best = (1 - CONFUSED) * np.eye(4)[best_moves(icy.P)] + CONFUSED * anywhere
    policies = {
        "north": np.where(north[:, None], best, anywhere),
        "south": np.where(north[:, None], anywhere, best),
        "lost": anywhere,
    }
    agents = [Agent(name, policy, CONTROL_COST[name]) for name, policy in policies.items()]
    mdp = from_toy_text(env, agents, horizon, switch_cost=SWITCH_COST, start_agent="lost")
    structure = Structure(environment=slips(tiles))
    return TwoLayerMDP(mdp.environment, mdp.team, mdp.horizon, mdp.start_agent, structure)


def best_moves(model: Any) -> Any:
    """Return the best action in every state for a long walk, (n_states,). model: Gymnasium's table `env.unwrapped.P`."""
    value = np.zeros(len(model))
    for _ in range(1000):
        moves = np.array(
            [
                [sum(p * (reward + (not over) * value[to]) for p, to, reward, over in model[s][a]) for a in range(4)]
                for s in range(len(model))
            ]
        )
        value = moves.max(axis=1)
    return moves.argmax(axis=1)


def target(n: int, i: int, j: int, a: int) -> tuple[int, int]:
    """Return the tile (row, column) that move a leads to from tile (i, j) of n x n; a move over the edge stays."""
    di, dj = MOVES[a]
    return min(max(i + di, 0), n - 1), min(max(j + dj, 0), n - 1)


def slips(tiles: Any) -> Outcomes:
    """Declare that ice is equally slippery everywhere. tiles: the map, (n, n) letters.

    A move goes straight or slips to the left or right, with the same chances wherever these three lead to different tiles. At the
    edge some of them lead to the same tile; each such pattern is a group of its own.
    """
    n = tiles.shape[1]

    def pattern(s: int, a: int) -> tuple[Any, dict[Any, int]]:
        """Return the group of (s, a), and the state that each outcome of the group leads to."""
        i, j = divmod(s, n)
        if tiles[i, j] in "GH":
            return "over", {"stays": s}
        reached: dict[int, list[str]] = {}
        for name, turn in (("left", -1), ("straight", 0), ("right", 1)):
            x, y = target(n, i, j, (a + turn) % 4)
            reached.setdefault(x * n + y, []).append(name)
        return tuple(sorted(tuple(names) for names in reached.values())), {tuple(names): to for to, names in reached.items()}

    return Outcomes.by(range(tiles.size), range(4), pattern)
