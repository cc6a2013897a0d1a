"""A third-party problem for the league: Gymnasium's FrozenLake, slippery, with three imperfect walkers: a guide who knows the
north, one who knows the south, and one who is lost.
"""

from functools import cache
from typing import Any

import numpy as np

from cede._base.extras import need
from cede.gym import from_toy_text
from cede.problem.model import Agent, TwoLayerMDP
from cede.problem.structure import Outcomes, Structure

HORIZON = 40
CONTROL_COST = {"north": 0.002, "south": 0.002, "lost": 0.0}
SWITCH_COST = 0.005
CONFUSED = 0.1  # how often a guide walks anywhere
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up: the actions of FrozenLake


@cache
def frozen_lake() -> TwoLayerMDP:
    """Reach the goal and do not fall in; every move slips to either side with probability 1/3. Reward 1 at the goal."""
    env = need("gymnasium", "gym").make("FrozenLake-v1", map_name="4x4", is_slippery=True)
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
    mdp = from_toy_text(env, agents, HORIZON, switch_cost=SWITCH_COST, start_agent="lost")
    structure = Structure(environment=ice(tiles))
    return TwoLayerMDP(mdp.environment, mdp.team, mdp.horizon, mdp.start_agent, structure)


def best_moves(model: Any) -> Any:
    """The best action in every state, for a long walk."""
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
    """The tile that a move leads to; the edge of the lake holds."""
    di, dj = MOVES[a]
    return min(max(i + di, 0), n - 1), min(max(j + dj, 0), n - 1)


def ice(tiles: Any) -> Outcomes:
    """What may be declared: ice is ice. A move goes straight or slips to either side, with the same chances wherever these lead to
    different tiles; at the edge some lead to the same one, and each such pattern is a case of its own.
    """
    n = tiles.shape[1]

    def slide(s: int, a: int) -> tuple[Any, dict[Any, int]]:
        i, j = divmod(s, n)
        if tiles[i, j] in "GH":
            return "over", {"stays": s}
        ways: dict[int, list[str]] = {}
        for name, turn in (("left", -1), ("straight", 0), ("right", 1)):
            x, y = target(n, i, j, (a + turn) % 4)
            ways.setdefault(x * n + y, []).append(name)
        return tuple(sorted(tuple(names) for names in ways.values())), {tuple(names): to for to, names in ways.items()}

    return Outcomes.by(range(tiles.size), range(4), slide)
