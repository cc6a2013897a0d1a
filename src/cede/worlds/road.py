"""The road of the lane driving task (the paper's obstacle avoidance): three lanes, rows of cells that come nearer.

A state is what the car's sensors tell: the traffic level of the row ahead, the type of the cell it is on, and the types of the
three cells ahead, a wall where there is no lane. The lane follows from the walls. Of the 3 x 5^4 combinations 1,152 can occur:
768 in the middle lane and 192 in each outer one. The process is exactly Markov: the next level depends on the level, the car
gets onto the cell it steered to, and the cells of the new row ahead are drawn independently given its level.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede.problem.model import Environment
from cede.problem.structure import Outcomes

LEVELS = ("no-car", "light", "heavy")
CELLS = ("road", "grass", "stone", "car")
ACTIONS = ("left", "straight", "right")
LANES = ("left lane", "middle lane", "right lane")
WALL = len(CELLS)

CELL_COST = np.array([0.0, 2.0, 4.0, 10.0])
# [level, cell type] and [level of a row, level of the next]; Appendix D
CELL_TABLE = np.array([[0.7, 0.2, 0.1, 0.0], [0.6, 0.2, 0.1, 0.1], [0.5, 0.2, 0.1, 0.2]])
LEVEL_TABLE = np.array([[0.99, 0.01, 0.0], [0.01, 0.98, 0.01], [0.0, 0.01, 0.99]])


@dataclass(frozen=True, eq=False)
class States:
    """The states that can occur, in columns."""

    level: Ints  # (S,) traffic of the row ahead
    lane: Ints  # (S,)
    cell: Ints  # (S,) type of the cell that the car is on
    ahead: Ints  # (S, 3) types of the cells to the left, straight and right ahead; WALL where there is no lane
    index: dict[tuple[int, int, tuple[int, ...]], int]  # (level, cell, ahead) -> state

    @property
    def names(self) -> list[str]:
        kinds = (*CELLS, "wall")
        return [
            f"{LEVELS[level]}: on {kinds[cell]}, ahead {' '.join(kinds[c] for c in ahead)}"
            for level, cell, ahead in zip(self.level, self.cell, self.ahead, strict=True)
        ]


@lru_cache(maxsize=1)
def states() -> States:
    rows = []
    for lane, level, cell in product(range(3), range(3), range(4)):
        for ahead in product(*[(WALL,) if lane + side not in (0, 1, 2) else range(4) for side in (-1, 0, 1)]):
            rows.append((level, lane, cell, ahead))
    index = {(level, cell, ahead): i for i, (level, _, cell, ahead) in enumerate(rows)}
    columns = [np.array([row[i] for row in rows]) for i in range(4)]
    return States(columns[0], columns[1], columns[2], columns[3], index)


def target_lane(lane: Any, action: Any) -> Any:
    """The lane that an action leads to; steering into the wall keeps the lane."""
    return np.clip(lane + action - 1, 0, 2)


@lru_cache(maxsize=1)
def rows_ahead() -> tuple[tuple[tuple[Ints, Ints, Floats], ...], ...]:
    """[lane][level]: the next (level, cells ahead as a state of a car on road), with their probabilities."""
    s = states()
    result = []
    for lane in range(3):
        of_lane = []
        for level in range(3):
            here = (s.lane == lane) & (s.cell == 0)
            chance = LEVEL_TABLE[level][s.level]
            for side in range(3):
                if 0 <= lane + side - 1 <= 2:
                    chance = chance * CELL_TABLE[s.level, np.minimum(s.ahead[:, side], 3)]
            at = np.flatnonzero(here & (chance > 0))
            of_lane.append((s.level[at], at, chance[at]))
        result.append(tuple(of_lane))
    return tuple(result)


@lru_cache(maxsize=1)
def transition() -> sp.csr_array:
    """(S * 3, S) probabilities."""
    s, n = states(), len(states().level)
    # In the order of `states`, cars in one lane and level on different cells stand 4^k or 4^2 states apart.
    block = np.where(s.lane == 1, 64, 16)
    ahead = rows_ahead()
    rows, columns, data = [], [], []
    for i, a in product(range(n), range(3)):
        lane = int(target_lane(s.lane[i], a))
        onto = s.ahead[i, 1 + lane - s.lane[i]]
        _, at, chance = ahead[lane][s.level[i]]
        rows.append(np.full(len(at), 3 * i + a))
        columns.append(at + onto * block[at])
        data.append(chance)
    triplet = (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns)))
    return sp.csr_array(triplet, shape=(3 * n, n))


@lru_cache(maxsize=1)
def outcomes() -> Outcomes:
    """The road by cases: a traffic level, and whether the car steers to the middle or to one of the outer lanes, which mirror each
    other. What may come is any level with any cells ahead, but no car in a row without cars; the car is then on the cell it steered
    to. 6 cases instead of 3,456 pairs of states and actions.
    """
    s = states()
    level, lane, car = s.level.tolist(), s.lane.tolist(), CELLS.index("car")
    ahead = [tuple(view) for view in s.ahead.tolist()]
    possible = [i for i in range(len(level)) if s.cell[i] == 0 and not (level[i] == 0 and car in ahead[i])]
    seen_from = [[(level[i], ahead[i]) for i in possible if lane[i] == where] for where in range(3)]

    def steer(state: int, action: int) -> tuple[tuple[int, bool], dict[Any, int]]:
        onto_lane = int(target_lane(lane[state], action))
        onto = ahead[state][1 + onto_lane - lane[state]]
        turn = -1 if onto_lane == 2 else 1  # the right lane in the mirror
        return (level[state], onto_lane == 1), {(new, view[::turn]): s.index[new, onto, view] for new, view in seen_from[onto_lane]}

    return Outcomes.by(range(len(level)), range(3), steer)


def start(traffic: ArrayLike | None = None) -> Floats:
    """Start distribution: middle lane, on road, the row behind has a level drawn from `traffic` (uniform by default)."""
    gamma = np.full(3, 1 / 3) if traffic is None else np.asarray(traffic, dtype=float)
    result = np.zeros(len(states().level))
    for level in range(3):
        _, at, chance = rows_ahead()[1][level]
        result[at] += gamma[level] * chance
    return result


@lru_cache(maxsize=8)
def environment(traffic: tuple[float, float, float] | None = None) -> Environment:
    """The road. traffic: probabilities of the initial traffic levels no-car, light, heavy."""
    return Environment(
        transition=transition(),
        cost=CELL_COST[states().cell],
        start=start(traffic),
        state_names=states().names,
        action_names=ACTIONS,
    )


def traffic_mix(owner: str, traffic: Any) -> tuple[float, float, float] | None:
    """Probabilities of the initial levels: None (uniform), one level by name, or three numbers."""
    if traffic is None:
        return None
    if isinstance(traffic, str):
        level = LEVELS.index(check.choice(owner, "traffic", traffic, LEVELS))
        mix = np.eye(3)[level]
    else:
        mix = check.array(owner, "traffic", traffic, (3,), "(3,)")
        check.distributions(owner, "traffic", mix)
    return float(mix[0]), float(mix[1]), float(mix[2])


@dataclass(frozen=True, eq=False)
class Road:
    """A stretch of road, nearest row first. The car starts in the middle of row 0."""

    levels: Ints  # (rows,)
    cells: Ints  # (rows, 3)


def sample_road(rows: int, traffic: Any = None, seed: int | np.random.Generator = 0) -> Road:
    """A road of so many rows; traffic as in `lane_driving`."""
    check.integer("sample_road", "rows", rows, 1)
    rng = np.random.default_rng(seed)
    mix = traffic_mix("sample_road", traffic) or (1 / 3, 1 / 3, 1 / 3)
    levels, cells = np.empty(rows, dtype=int), np.empty((rows, 3), dtype=int)
    for r in range(rows):
        levels[r] = rng.choice(3, p=mix if r == 0 else LEVEL_TABLE[levels[r - 1]])
        cells[r] = rng.choice(4, size=3, p=CELL_TABLE[levels[r]])
    cells[0, 1] = CELLS.index("road")
    return Road(levels, cells)


def state_on(road: Road, row: int, lane: int) -> int:
    """The state of a car on a given cell; the row ahead must be part of the road."""
    ahead = [int(road.cells[row + 1, lane + side]) if 0 <= lane + side <= 2 else WALL for side in (-1, 0, 1)]
    return states().index[int(road.levels[row + 1]), int(road.cells[row, lane]), tuple(ahead)]
