"""RiverSwim (Strehl and Littman 2008): swim against a current to the far bank. Agents differ in how often they swim right.

There are two published tables of the current, "osband" and "strehl-littman". The paper's picture with its numbers is lost; its
costs and its horizon fit "osband", the default.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats
from cede.problem.model import Agent, Environment, Team, TwoLayerMDP
from cede.problem.structure import Outcomes, Structure

N_STATES = 6
LEFT, RIGHT = 0, 1

# Swimming right: (stay, forward) on the near bank, (back, stay, forward) in the middle, (back, stay) on the far bank.
CURRENTS = {
    "osband": ((0.4, 0.6), (0.05, 0.6, 0.35), (0.4, 0.6)),
    "strehl-littman": ((0.7, 0.3), (0.1, 0.6, 0.3), (0.7, 0.3)),
}
COST = np.array([0.995, 1.0, 1.0, 1.0, 1.0, 0.0])  # (6,) of a step in each state


def transitions(version: str) -> Floats:
    """Return the probabilities of one step, (6, 2, 6) [s, a, s_next], for a name in CURRENTS. Swimming left always succeeds."""
    near, middle, far = CURRENTS[version]
    p = np.zeros((N_STATES, 2, N_STATES))
    for s in range(N_STATES):
        p[s, LEFT, max(s - 1, 0)] = 1.0
    p[0, RIGHT, :2] = near
    for s in range(1, N_STATES - 1):
        p[s, RIGHT, s - 1 : s + 2] = middle
    p[-1, RIGHT, -2:] = far
    return p


def macro_steps(p: Floats, cost: Floats, m: int) -> tuple[Floats, Floats, list[tuple[int, ...]]]:
    """Combine m steps into one macro step; there is one macro action for each sequence of m actions.

    p: (S, 2, S), cost: (S,). Returns the transitions (S, 2^m, S), the expected sum of costs (S, 2^m), and the 2^m sequences.
    """
    sequences = list(product((LEFT, RIGHT), repeat=m))
    moves, costs = [], []
    for sequence in sequences:
        reached, total = np.eye(N_STATES), np.zeros(N_STATES)
        for a in sequence:
            total = total + reached @ cost
            reached = reached @ p[:, a, :]
        moves.append(reached)
        costs.append(total)
    return np.stack(moves, axis=1), np.stack(costs, axis=1), sequences


def riverswim(
    agents: Sequence[float] = (0.0, 1.0),
    *,
    version: str = "osband",
    macro: int = 1,
    horizon: int | None = 20,
    control_cost: Any = 0.0,
    switch_cost: Any = 0.0,
    discount: float | None = None,
) -> TwoLayerMDP:
    """Return the problem RiverSwim with one agent for each probability of swimming right, the same in all states.

    agents: D probabilities. version: the current, "osband" or "strehl-littman". macro: how many steps of the river one decision
    takes, the paper's action size; there are then 2^macro actions, the cost of an action is the expected sum over its steps, and
    the horizon counts decisions (the paper does not say). control_cost: one number or D. switch_cost: one number or (D, D).
    horizon, discount: as in `TwoLayerMDP`; without both, as in the first papers on this river, the objective is the average cost of
    a step.
    """
    owner = "riverswim"
    chances = check.array(owner, "agents", agents, (None,), "(D,)")
    for i, chance in enumerate(chances):
        if not 0.0 <= chance <= 1.0:
            check.fail(owner, f"agents[{i}]", chance, "a probability")
    check.choice(owner, "version", version, tuple(CURRENTS))
    macro = check.integer(owner, "macro", macro, 1, 10)
    sequences = list(product((LEFT, RIGHT), repeat=macro))
    if check.ndim(control_cost) == 0:
        control_cost = np.full(len(chances), check.number(owner, "control_cost", control_cost))
    control = check.array(owner, "control_cost", control_cost, (len(chances),), "(D,)")
    team = []
    for i, chance in enumerate(chances):
        mix = [float(np.multiply.reduce([chance if a == RIGHT else 1.0 - chance for a in sequence])) for sequence in sequences]
        team.append(Agent(agent_name(chances, i), np.array([mix] * N_STATES), control[i]))
    structure = Structure(environment=river_outcomes(macro))
    return TwoLayerMDP(river(version, macro), Team(team, switch_cost), horizon, structure=structure, discount=discount)


def riverswim_teams(n: int, *, seed: int = 0, switch_cost: Any = 0.0) -> list[TwoLayerMDP]:
    """Return the paper's n teams in one river: two agents that swim right with probability p and 1 - p, p uniform for each team."""
    n, seed = check.integer("riverswim_teams", "n", n, 1), check.integer("riverswim_teams", "seed", seed, 0)
    chances = np.random.default_rng([seed, 6]).uniform(size=n)
    return [riverswim(agents=[p, 1 - p], switch_cost=switch_cost) for p in chances]


@lru_cache(maxsize=40)
def river(version: str, macro: int) -> Environment:
    """Return the river as an Environment; the same object for all teams, so that a fleet keeps it once."""
    p, cost, sequences = macro_steps(transitions(version), COST, macro)
    letters = ["".join("LR"[a] for a in sequence) for sequence in sequences]
    return Environment(
        transition=p,
        cost=cost,
        start=np.eye(N_STATES)[0],
        state_names=[f"s{i + 1}" for i in range(N_STATES)],
        action_names=["left", "right"] if macro == 1 else letters,
    )


@lru_cache(maxsize=40)
def river_outcomes(macro: int) -> Outcomes:
    """Return which pairs of state and action have the same outcomes with the same probabilities.

    An outcome is the distance swum, -macro to macro states. In the middle, where no bank can be reached before the last of the
    `macro` steps, the current is the same in all states. Each state nearer to a bank is a separate case for each action.
    """

    def swim(s: int, action: int) -> tuple[Any, dict[int, int]]:
        """Return the case, and the next state that each outcome means."""
        where = "middle" if macro <= s <= N_STATES - 1 - macro else s
        distances = range(max(-macro, -s), min(macro, N_STATES - 1 - s) + 1)
        return (where, action), {distance: s + distance for distance in distances}

    return Outcomes.by(range(N_STATES), range(2**macro), swim)


def agent_name(chances: Floats, i: int) -> str:
    """Return the name of agent i, such as "p=0.3", with its index behind it if another agent would have the same name."""
    names = [f"p={chance:.3g}" for chance in chances]
    return names[i] if names.count(names[i]) == 1 else f"{names[i]} ({i})"
