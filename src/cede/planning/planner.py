"""One planner (Theorem 1) for every question: the best policy under a belief, under the truth, and what a policy costs.

optimistic_plan   least cost over all policies and all tables within the belief
solve             the same with the true tables, width 0
evaluate          the same recursion with the policy given instead of chosen
flatten           the switching problem as UCRL2 sees it: the action is the agent
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import NamedTuple, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from cede import _kernels
from cede._base import check
from cede._base.arrays import Floats, Policy
from cede._kernels import Hands, Layer, Problem, Room
from cede.planning.belief import Belief, true_beliefs
from cede.planning.tables import read_only
from cede.problem.model import Environment, Team, TwoLayerMDP
from cede.problem.task import Task

MOST_BYTES = 2**28  # of working arrays that are kept per thread, beside those in use
WORTH_THREADS = 100_000  # outcomes times time steps of a plan below which one thread is faster than several


@dataclass(frozen=True, eq=False)
class Plan:
    """A switching policy and the value that its maker believes it to have. Usable without the learner that made it."""

    policy: Policy  # (L, S, D): policy[t, s, prev_agent] is the agent to put in control
    value: Floats  # (L + 1, S, D), the last row zero; not a number where nothing is believed


def optimistic_plan(task: Task, agents: Belief, environment: Belief, *, seed: int = 0) -> Plan:
    """The policy and tables of least cost, exactly (Theorem 1, Eq. 12). Ties between agents are broken by the seed."""
    owner = "optimistic_plan"
    slots = (int(task.n_slots.sum()), task.n_states)
    for argument, belief, shape, columns in (
        ("agents", agents, slots, task.n_actions),
        ("environment", environment, (task.n_states, task.n_actions), task.n_states),
    ):
        if belief.row.shape != shape or belief.centre.n_columns != columns:
            got = (*belief.row.shape, belief.centre.n_columns)
            check.fail(owner, f"the places and outcomes of {argument}", got, str((*shape, columns)))
    check.integer(owner, "seed", seed, 0, 2**63 - 1)
    policy, value = empty_plan(task)
    run_pass(problem_of(task), agents.layer, environment.layer, _kernels.CHOOSE, policy, value, seed)
    return Plan(policy, value)


def empty_plan(task: Task) -> tuple[Policy, Floats]:
    """Arrays for a policy and its value."""
    shape = (task.horizon, task.n_states, task.n_agents)
    return np.empty(shape, dtype=np.int16), np.empty((shape[0] + 1, *shape[1:]))


def solve(mdp: TwoLayerMDP, *, seed: int = 0) -> Plan:
    """The best switching policy when all is known (Eq. 2)."""
    return optimistic_plan(mdp.task, *true_beliefs(mdp), seed=seed)


def evaluate(mdp: TwoLayerMDP, policy: ArrayLike) -> Floats:
    """value[t, s, prev_agent] of a switching policy under the true model (Eq. 10)."""
    return value_of(mdp, checked_policy("evaluate", mdp.task, policy))


def value_of(mdp: TwoLayerMDP, policy: Policy) -> Floats:
    return followed(mdp.task, *true_beliefs(mdp), policy)


def followed(task: Task, agents: Belief, environment: Belief, policy: Policy) -> Floats:
    """value[t, s, prev_agent] of a checked policy under given tables; where they are sets, the least that it can be."""
    _, value = empty_plan(task)
    run_pass(problem_of(task), agents.layer, environment.layer, _kernels.FOLLOW, policy, value, 0)
    return value


def negated(task: Task) -> Task:
    """With all costs the other way round: the least of it is minus the most of the task itself."""
    switch_cost = np.where(np.isinf(task.switch_cost), np.inf, -task.switch_cost)  # what cannot be is in no policy
    return replace(task, env_cost=-task.env_cost, control_cost=-task.control_cost, switch_cost=switch_cost)


def expected_cost(mdp: TwoLayerMDP, policy: ArrayLike) -> float:
    """Expected cost of an episode from the problem's start."""
    return start_cost(mdp, evaluate(mdp, policy))


def start_cost(mdp: TwoLayerMDP, value: Floats) -> float:
    """What a value says of a whole episode: its mean over the start distribution, d_0 in control before."""
    return float(_kernels.start_mean(mdp.environment.start, value, mdp.task.start_agent))


# ------------------------------------------------------------------------------------------------- running the kernel

_threads, _most_threads = 1, 1  # now, and at any time so far
_helpers: ThreadPoolExecutor | None = None  # one fewer than most
_helpers_lock = threading.Lock()
_kept = threading.local()  # rooms to work in of this thread, by size


def set_threads(threads: int) -> int:
    """Let one plan or evaluation use so many threads, and return how many it was before.

    Every number of threads gives the same bits. More than one pays for large problems; small ones are done by one thread anyway.
    """
    global _threads, _most_threads, _helpers
    threads = check.integer("set_threads", "threads", threads, 1, 1024)
    with _helpers_lock:
        if threads > _most_threads:
            _helpers, _most_threads = ThreadPoolExecutor(threads - 1, "cede"), threads
        before, _threads = _threads, threads
    return before


def threads_for(environment: Layer, horizon: int) -> int:
    """How many threads a pass over this table is worth."""
    return _threads if environment.column.size * horizon >= WORTH_THREADS else 1


def problem_of(task: Task, env_cost: Floats | None = None) -> Problem:
    """What kernels need of a task; with costs that may differ from its own."""
    costs = (task.env_cost if env_cost is None else env_cost, task.control_cost, task.switch_cost)
    return Problem(task.slot, task.vary, *map(read_only, costs))


def run_pass(
    problem: Problem,
    agents: Layer,
    environment: Layer,
    mode: int,
    policy: Policy,
    value: Floats,
    seed: int,
    source: Floats | None = None,
) -> None:
    """One whole pass of the kernel. Helpers join where there are several threads; who comes late finds nothing left to do."""
    room, horizon = room_for(problem, policy.shape, agents, environment), len(policy)
    pass_on = (agents, environment, problem, mode, policy, policy, value, value if source is None else source, seed, room)
    _kernels.begin(problem, 1, value, room)

    stopped = threading.Event()

    def work(hands: Hands) -> None:
        phase = 0
        while (phase := _kernels.backward(*pass_on, hands, phase, -1)) < 3 * horizon and not stopped.is_set():
            time.sleep(0)  # another thread is not finished: let it have the processor

    helpers, joined = _helpers, []
    sizes = (problem.env_cost.shape[0], problem.env_cost.shape[1], len(problem.slot))
    if helpers is not None:
        for _ in range(1, threads_for(environment, horizon)):
            hands = _kernels.hands_to_work(*sizes, np.zeros_like(_work()))
            joined.append((helpers.submit(work, hands), hands))
    try:
        work(hands_for(*sizes))
        for future, hands in joined:
            if not future.cancel():
                future.result()
                _work()[:] += hands.work
    except BaseException:  # an interrupt: nobody must use the room, or read the plan, while helpers are at work on it
        stopped.set()
        _kept.__dict__.pop("rooms", None)
        wait([future for future, _ in joined if not future.cancel()])
        raise


def room_for(problem: Problem, shape: tuple[int, ...], agents: Layer, environment: Layer) -> Room:
    """Arrays for the kernel to work in, kept for the next plan of the same size in this thread. shape: (L, S, D).

    What is kept are places in rows, so rooms are told apart by the number of outcomes too: states and actions.
    """
    sizes = (shape[0], shape[2], environment.start.size, agents.start.size)
    key = (*sizes, *problem.env_cost.shape)
    rooms: dict[tuple[int, ...], Room] = _kept.__dict__.setdefault("rooms", {})
    room = rooms.pop(key, None)
    if room is None:
        room = _kernels.room_to_work(*sizes)
        left = MOST_BYTES - sum(array.nbytes for array in room)
        for old in reversed(list(rooms)):  # the one used last first
            left -= sum(array.nbytes for array in rooms[old])
            if left < 0:
                del rooms[old]
    rooms[key] = room  # last in the order of use
    return room


def hands_for(n_states: int, n_actions: int, n_agents: int) -> Hands:
    """This thread's own arrays, likewise."""
    sizes = (n_states, n_actions, n_agents)
    if _kept.__dict__.get("sizes") != sizes:
        _kept.hands, _kept.sizes = _kernels.hands_to_work(*sizes, _work()), sizes
    hands: Hands = _kept.hands
    return hands


class Work(NamedTuple):
    """What plans and evaluations have cost, in units that no clock is needed for.

    Independent of the machine, but for looked_at: how long a search takes depends on the plans before. With several threads each
    of them gathers for the rows that were never seen.
    """

    rows: int  # environment rows whose minimum or mean was taken
    outcomes: int  # outcomes gathered for them: the non-zeros of a plain backup
    looked_at: int  # outcomes looked at in search of the threshold
    agents: int  # agents' minima or means

    def __sub__(self, other: "Work") -> "Work":
        return Work(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


def work_done() -> Work:
    """By all passes that this thread has asked for."""
    return Work(*(int(n) for n in _work()))


def _work() -> NDArray[np.int64]:
    work: NDArray[np.int64] = _kept.__dict__.setdefault("work", np.zeros(4, dtype=np.int64))
    return work


def checked_policy(owner: str, task: Task, policy: ArrayLike) -> Policy:
    """A policy as the kernels read it."""
    given = np.asarray(policy)
    shape = (task.horizon, task.n_states, task.n_agents)
    if given.dtype.kind not in "iu":
        check.fail(owner, "the type of policy", given.dtype, "an integer type")
    if given.shape != shape:
        check.fail(owner, "the shape of policy", given.shape, f"(L, S, D) = {shape}")
    bad = np.argwhere((given < 0) | (given >= task.n_agents))
    if len(bad):
        place = check.place_of("policy", bad[0])
        check.fail(owner, place, given[tuple(bad[0])], f"an agent from 0 to {task.n_agents - 1}")
    if not np.isfinite(task.switch_cost).all():
        barred = np.isinf(np.take_along_axis(task.switch_cost[None, None], given[..., None].astype(np.int64), axis=3)[..., 0])
        if barred.any():
            where = np.argwhere(barred)[0]
            expected = f"an agent to whom {task.agents[where[2]]!r} can hand control"
            check.fail(
                owner, check.place_of("policy", where), f"{given[tuple(where)]} ({task.agents[given[tuple(where)]]!r})", expected
            )
    return np.require(given, np.int16, ["C", "W"])  # one type of array for all, writable: kernels are compiled once


@overload
def flatten(problem: TwoLayerMDP) -> TwoLayerMDP: ...
@overload
def flatten(problem: Task) -> Task: ...
def flatten(problem: TwoLayerMDP | Task) -> TwoLayerMDP | Task:
    """The switching problem without its middle layer, as UCRL2 sees it (Eqs. 3 and 4).

    Its actions are the agents themselves (one for each table of an agent whose policy varies); agent d takes action d for
    certain, and the table to be learned is p(s' | s, d). A Task keeps the environment's cost only where it does not depend on the
    action; elsewhere its place holds the least cost of the state, and the mean must be learned.
    """
    if isinstance(problem, Task):
        slots = int(problem.n_slots.sum())
        least = np.repeat(problem.env_cost.min(axis=1)[:, None], slots, axis=1)
        return replace(problem, env_cost=least, action_names=slot_names(problem))
    task = problem.task
    policies = true_beliefs(problem)[0].centre.matrix().toarray().reshape(-1, task.n_states, task.n_actions)
    slots, actions = len(policies), np.arange(task.n_actions)
    blocks = []
    for table in policies:  # p(s' | s, slot) = sum_a p_slot(a | s) p(s' | s, a), one sparse product per slot
        rows = np.repeat(np.arange(task.n_states), task.n_actions)
        columns = rows * task.n_actions + np.tile(actions, task.n_states)
        mix = sp.csr_array((table.ravel(), (rows, columns)), shape=(task.n_states, task.n_states * task.n_actions))
        blocks.append(mix @ problem.environment.transition)
    order = np.arange(slots * task.n_states).reshape(slots, task.n_states).T.ravel()
    environment = Environment(
        transition=sp.csr_array(sp.vstack(blocks))[order],
        cost=np.einsum("csa,sa->sc", policies, task.env_cost),
        start=problem.environment.start,
        state_names=task.state_names,
        action_names=slot_names(task),
    )
    policies = certain_policies(task)
    taking_over = iter(policies[problem.team.n_agents :])
    agents = [
        replace(a, policy=policy, on_takeover=None if a.on_takeover is None else next(taking_over))
        for a, policy in zip(problem.team.agents, policies, strict=False)
    ]
    return TwoLayerMDP(environment, Team(agents, problem.team.switch_cost), problem.horizon, problem.start_agent)


def certain_policies(task: Task) -> list[Floats]:
    """The policies of the flattened problem: each takes its own action for certain."""
    slots = int(task.n_slots.sum())
    result = []
    for first, n, varies in zip(task.first_slot, task.n_slots, task.table_varies, strict=True):
        policy = np.repeat(np.eye(slots)[first : first + n][:, None, :], task.n_states, axis=1)
        result.append(policy[0] if varies is None else policy)
    return result


def slot_names(task: Task) -> Sequence[str]:
    names: list[str] = []
    for name, n in zip(task.tables, task.n_slots, strict=True):
        names += [name] if n == 1 else [f"{name} {i}" for i in range(n)]
    return names
