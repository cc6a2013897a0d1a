"""The road of the lane driving task (the paper's obstacle avoidance): three lanes of cells, and a car that moves one row per step.

A state is the reading of the car's sensors: the traffic level of the row ahead, the type of the cell that the car is on, and the
types of the three cells ahead (left, straight, right), with a wall where there is no lane. The lane follows from the walls. Of the
3 x 5^4 combinations 1,152 can occur: 768 in the middle lane and 192 in each outer lane.

The process is exactly Markov. The next level depends on the level, the car gets onto the cell to which it steered, and the cells
of the new row ahead are drawn independently, given the level of that row.
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
WALL = len(CELLS)  # the type of a cell ahead where there is no lane

CELL_COST = np.array([0.0, 2.0, 4.0, 10.0])  # of being on each type of cell
# Probabilities of Appendix D: [level of a row, type of each of its cells] and [level of a row, level of the next row].
CELL_TABLE = np.array([[0.7, 0.2, 0.1, 0.0], [0.6, 0.2, 0.1, 0.1], [0.5, 0.2, 0.1, 0.2]])
LEVEL_TABLE = np.array([[0.99, 0.01, 0.0], [0.01, 0.98, 0.01], [0.0, 0.01, 0.99]])


@dataclass(frozen=True, eq=False)
class States:
    """The states that can occur, one array for each feature."""

    level: Ints  # (S,) traffic level of the row ahead, an index into LEVELS
    lane: Ints  # (S,) 0 left, 1 middle, 2 right
    cell: Ints  # (S,) type of the cell that the car is on, an index into CELLS
    ahead: Ints  # (S, 3) types of the cells ahead, left, straight and right; WALL where there is no lane
    index: dict[tuple[int, int, tuple[int, ...]], int]  # from (level, cell, ahead) to the state's number

    @property
    def names(self) -> list[str]:
        """Return a name for each state, such as "light: on road, ahead grass car wall"."""
        kinds = (*CELLS, "wall")
        return [
            f"{LEVELS[level]}: on {kinds[cell]}, ahead {' '.join(kinds[c] for c in ahead)}"
            for level, cell, ahead in zip(self.level, self.cell, self.ahead, strict=True)
        ]


@lru_cache(maxsize=1)
def states() -> States:
    """Return all states that can occur, ordered by lane, level, cell and the cells ahead; the last varies fastest."""
    rows = []
    for lane, level, cell in product(range(3), range(3), range(4)):
        for ahead in product(*[(WALL,) if lane + side not in (0, 1, 2) else range(4) for side in (-1, 0, 1)]):
            rows.append((level, lane, cell, ahead))
    index = {(level, cell, ahead): i for i, (level, _, cell, ahead) in enumerate(rows)}
    columns = [np.array([row[i] for row in rows]) for i in range(4)]
    return States(columns[0], columns[1], columns[2], columns[3], index)


def target_lane(lane: Any, action: Any) -> Any:
    """Return the lane to which an action leads from a lane; numbers or arrays. Steering into the wall keeps the lane."""
    return np.clip(lane + action - 1, 0, 2)


@lru_cache(maxsize=1)
def rows_ahead() -> tuple[tuple[tuple[Ints, Ints, Floats], ...], ...]:
    """Return the possible rows ahead by lane: entry [lane][level] is (next levels, states, probabilities), three 1-d arrays.

    lane: of the car after it steered. level: of the row that the car is entering. Each entry lists the possible levels and cells of
    the row ahead, as the states of a car that is on a cell of type road; `transition` replaces that type by the true one.
    """
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
    """Return the probability of each next state, sparse, (S * 3, S), row 3 * s + action."""
    s, n = states(), len(states().level)
    # In the order of `states`, two states that differ only in the cell the car is on, by one type, are this many states apart:
    # the number of combinations of cells ahead, 4^3 in the middle lane and 4^2 in the outer ones.
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
    """Return which pairs of state and action have the same outcomes with the same probabilities.

    A case is a traffic level, together with whether the car steers to the middle lane or to an outer one; the two outer lanes are
    mirror images. An outcome is a level and the cells ahead; rows of level no-car have no cars. The car is then on the cell to
    which it steered. There are 6 cases instead of 3,456 pairs.
    """
    s = states()
    level, lane, car = s.level.tolist(), s.lane.tolist(), CELLS.index("car")
    ahead = [tuple(view) for view in s.ahead.tolist()]
    possible = [i for i in range(len(level)) if s.cell[i] == 0 and not (level[i] == 0 and car in ahead[i])]
    seen_from = [[(level[i], ahead[i]) for i in possible if lane[i] == where] for where in range(3)]

    def steer(state: int, action: int) -> tuple[tuple[int, bool], dict[Any, int]]:
        """Return the case, and the next state that each outcome means."""
        onto_lane = int(target_lane(lane[state], action))
        onto = ahead[state][1 + onto_lane - lane[state]]
        turn = -1 if onto_lane == 2 else 1  # the right lane is the mirror image of the left one
        return (level[state], onto_lane == 1), {(new, view[::turn]): s.index[new, onto, view] for new, view in seen_from[onto_lane]}

    return Outcomes.by(range(len(level)), range(3), steer)


def start(traffic: ArrayLike | None = None) -> Floats:
    """Return the start distribution, (S,): the car is in the middle lane on a cell of type road.

    traffic: probabilities of the levels of the first row, (3,), uniform by default; the state has the level of the row after it.
    """
    gamma = np.full(3, 1 / 3) if traffic is None else np.asarray(traffic, dtype=float)
    result = np.zeros(len(states().level))
    for level in range(3):
        _, at, chance = rows_ahead()[1][level]
        result[at] += gamma[level] * chance
    return result


@lru_cache(maxsize=8)
def environment(traffic: tuple[float, float, float] | None = None) -> Environment:
    """Return the road as an Environment; traffic: probabilities of the initial levels no-car, light, heavy, or None for uniform."""
    return Environment(
        transition=transition(),
        cost=CELL_COST[states().cell],
        start=start(traffic),
        state_names=states().names,
        action_names=ACTIONS,
    )


def traffic_mix(owner: str, traffic: Any) -> tuple[float, float, float] | None:
    """Check `traffic`, a level's name, three probabilities or None (uniform), and return the three probabilities, or None."""
    if traffic is None:
        return None
    if isinstance(traffic, str):
        level = LEVELS.index(check.choice(owner, "traffic", traffic, LEVELS))
        mix = np.eye(3)[level]
    else:
        mix = check.probabilities(owner, "traffic", traffic, (3,), "(3,)")
    return float(mix[0]), float(mix[1]), float(mix[2])


@dataclass(frozen=True, eq=False)
class Road:
    """A stretch of road, nearest row first. The car starts in the middle of row 0."""

    levels: Ints  # (rows,) traffic levels, indices into LEVELS
    cells: Ints  # (rows, 3) types of cells, indices into CELLS


def sample_road(rows: int, traffic: Any = None, seed: int | np.random.Generator = 0) -> Road:
    """Draw a random road with `rows` rows and a cell of type road in the middle of row 0; traffic: as in `lane_driving`."""
    rows = check.integer("sample_road", "rows", rows, 1)
    rng = check.generator("sample_road", "seed", seed)
    mix = traffic_mix("sample_road", traffic) or (1 / 3, 1 / 3, 1 / 3)
    levels, cells = np.empty(rows, dtype=int), np.empty((rows, 3), dtype=int)
    for r in range(rows):
        levels[r] = rng.choice(3, p=mix if r == 0 else LEVEL_TABLE[levels[r - 1]])
        cells[r] = rng.choice(4, size=3, p=CELL_TABLE[levels[r]])
    cells[0, 1] = CELLS.index("road")
    return Road(levels, cells)


def state_on(road: Road, row: int, lane: int) -> int:
    """Return the state of a car in a given row and lane of a road, which must have one more row after that."""
    ahead = [int(road.cells[row + 1, lane + side]) if 0 <= lane + side <= 2 else WALL for side in (-1, 0, 1)]
    return states().index[int(road.levels[row + 1]), int(road.cells[row, lane]), tuple(ahead)]
