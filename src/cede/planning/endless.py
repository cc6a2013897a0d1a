"""Plans and evaluations without a horizon: with a discount, or for the average cost of a step in the long run.

`planning/fixed_point.py` iterates the Bellman operator to a fixed point, by policies where values are too slow (iteration.py).
Where tables are known, a given policy is solved exactly (chains.py), and so is a plan (policy_iteration.py).
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede._kernels.limits import step_costs
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede.beliefs.known import true_beliefs
from cede.planning.chains import chain_of, reachable, recurrent_classes
from cede.planning.fixed_point import MEMORY, Endless, find_reached, settle
from cede.planning.iteration import EXTRA
from cede.planning.model import ModelArrays
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task

PATIENCE = 1000  # applications of the operator without gain before a search for a fixed point ends; more with more states
SOLVED, SOLVED_ONCE = 300, 1000  # most places of a chain that learners, and single plans, solve where iterating is not exact
CLOSE = 1e-11  # how exactly values are computed, relative to the largest cost of a step


def new_endless(task: Task, solved: int = SOLVED) -> Endless:
    """Make the scratch arrays of a fixed point; of a task with a horizon, empty ones. solved: the most places of a chain that is
    solved where iterating is not exact.
    """
    sides = (task.n_states, task.n_agents) if task.horizon is None else (0, 0)
    places = sides[0] * sides[1] if sides[0] * sides[1] <= solved else 0
    reached = np.ones(sides, dtype=np.bool_)
    if task.horizon is None and task.discount is None:
        reached[:] = [task.can_reach(d) for d in range(task.n_agents)]
    return Endless(
        points=np.empty((MEMORY, *sides)),
        images=np.empty((MEMORY, *sides)),
        image=np.empty(sides),
        normal=np.empty((MEMORY, MEMORY + 1)),
        system=np.empty((places + EXTRA if places else 0, places)),
        place=np.empty(sides, dtype=np.int64),
        reached=reached,
        patience=PATIENCE + task.n_states,
    )


def largest_step_cost(task: Task) -> float:
    """Return the largest size of the cost of a step."""
    least, most = task.extremes_of_env_cost
    n, enter = task.n_agents, task.extremes_of_enter_cost
    control, switching = task.control_cost.reshape(-1, n), task.switch_cost.reshape(-1, n, n)
    ends = step_costs(least, most - least, *enter, control, switching, task.is_terminal)
    return float(max(abs(end) for end in ends))


def accuracy_for(task: Task) -> float:
    """Return how exact a value without horizon is made, unless rounding forbids it."""
    return CLOSE * largest_step_cost(task)


def is_exact(task: Task, error: float) -> bool:
    """Return whether an error is rounding: small beside the largest value that there can be."""
    return error <= 2.0 * accuracy_for(task) / (1.0 if task.discount is None else 1.0 - task.discount)


def fixed_point(
    task: Task,
    model: ModelArrays,
    mode: int,
    policy: Policy,
    value: Floats,
    seed: int,
    scratch: PassScratch,
    thread: ThreadScratch,
    start: Floats | None = None,
) -> Endless:
    """Find the fixed point of the Bellman operator from value[0] on, as exactly as `accuracy_for` says.

    mode: CHOOSE or FOLLOW. policy: (1, S, D), written or read. value: (2, S, D), whose first part is replaced. start: for averages
    under tables that are known, (S,) where runs begin: only what can be reached from there counts.
    """
    endless = new_endless(task, SOLVED_ONCE)
    if start is not None and task.discount is None:
        find_reached(model, start, task.start_agent, endless.reached)
    settle(model, mode, policy[0], value, seed, accuracy_for(task), endless, scratch, thread)
    return endless


# ------------------------------------------------------------------------------------------------- connected or not


def check_connected(owner: str, mdp: TwoLayerMDP) -> None:
    """Check that the least average cost of a problem does not depend on where a run begins.

    That is so if, of all places that can be reached from the start, every one can be reached from every other one, except for
    those that are left for good whoever is in control. (A place: a state and who was in control before.)
    """
    task, n_agents = mdp.task, mdp.task.n_agents
    n = task.n_states * n_agents
    states, prevs = np.divmod(np.arange(n), n_agents)
    steps: list[sp.csr_array] = []  # by agent: where its steps can lead
    for d in range(n_agents):
        allowed = task.can_hand_over[prevs, d]
        policy = np.full((1, task.n_states, n_agents), d, dtype=np.int16)
        chain = chain_of(task, *true_beliefs(mdp), policy)
        steps.append(sp.csr_array(sp.diags_array(allowed.astype(np.float64)) @ chain.matrix))
    anyhow = steps[0].copy()
    for more in steps[1:]:
        anyhow = sp.csr_array(anyhow + more)
    anyhow.eliminate_zeros()
    reached = reachable(anyhow, np.flatnonzero((mdp.environment.start[states] > 0) & (prevs == task.start_agent)))
    closed = [part for part in recurrent_classes(anyhow) if reached[part[0]]]
    kept = np.ones(n, dtype=bool)  # places that can be kept to for ever outside of the last closed set
    kept[closed[-1]] = False
    kept &= reached
    while True:
        stays = np.zeros(n, dtype=bool)
        for d in range(n_agents):
            inside = np.asarray(steps[d] @ (~kept).astype(np.float64)) == 0.0
            stays |= inside & task.can_hand_over[prevs, d]
        if (kept & stays == kept).all():
            break
        kept &= stays
    if len(closed) > 1 or kept.any():
        part = closed[0] if len(closed) > 1 else np.flatnonzero(kept).tolist()
        one = len({place // n_agents for place in part}) == 1
        what = "never left" if len(closed) > 1 else "such that it can be stayed in for ever, or left for good"
        why = "so the average depends on where a run begins; use a discount"
        expected = f"connected to all others: {places(task, part, reached)} {'is' if one else 'are'} {what}, {why}"
        check.fail(owner, "a part of the problem without horizon", "apart", expected)


def places(task: Task, part: Sequence[int], reached: np.ndarray) -> str:
    """Return the states of some places of a chain in words, the first few of them; and the agents, if others can be before them
    there. reached: (S*D,) places that can be reached.
    """
    states, agents = (sorted(set(side)) for side in np.divmod(np.asarray(part), task.n_agents))
    names = [repr(task.state_names[s]) if task.state_names else str(s) for s in states[:5]]
    more = f" and {len(states) - 5} more" if len(states) > 5 else ""
    others = reached.reshape(-1, task.n_agents)[states].sum() > len(part)
    after = f" after {' or '.join(repr(task.agents[d]) for d in agents)}" if others else ""
    return f"state{'s' if len(states) > 1 else ''} {', '.join(names)}{more}{after}"
