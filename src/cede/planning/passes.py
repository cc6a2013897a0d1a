"""Runs the compiled planner: provides scratch arrays and threads, and counts the work.

A pass is one loop of the Bellman operator over the horizon (`backup.backward`). All planning and all evaluation goes through
`run_pass` or `share_pass`.
"""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Policy, for_kernels
from cede._base.remade import Remade
from cede._base.reprs import short_repr
from cede._kernels.problem import ProblemArrays
from cede._kernels.scratch import PassScratch, ThreadScratch, nbytes, new_pass_scratch, new_thread_scratch
from cede._kernels.tables import BeliefArrays
from cede.beliefs.belief import Belief
from cede.beliefs.truth import true_beliefs
from cede.planning import backup as kernels
from cede.planning.backup import CHOOSE, FOLLOW, PHASES, begin, run_backward, start_mean
from cede.planning.chains import chain_of, chain_value, improved, is_point
from cede.planning.fixed_point import SOLVED_ONCE, Endless, accuracy_for, find_reached, is_exact, new_endless, settle
from cede.planning.model import ModelArrays
from cede.problem.arrays import problem_of
from cede.problem.costs import RANGES
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task

SMALL = 2_000  # places of a problem without horizon that is solved to the last digit in any case
MOST_BYTES = 2**28  # most memory for scratch arrays that each thread keeps, beside those in use
WORTH_THREADS = 100_000  # outcomes times time steps of a plan below which one thread is faster than several


@dataclass(frozen=True, eq=False)
class Plan(Remade):
    """A switching policy and the value that it is believed to have. It can be used without the learner that made it.

    `solve`, `optimistic_plan` and `Learner.plan` return one.
    """

    policy: Policy  # (L, S, D): policy[t, s, prev_agent] is the agent to put in control; without horizon (S, D); read-only
    value: Floats  # (L + 1, S, D), the last row zero; without horizon (S, D); NaN if the value is not known; read-only
    # for averages: the cost of a step in the long run; `value` is then relative to it, 0 in the first place that can be reached
    gain: float | None = None
    error: float = 0.0  # without horizon: value or gain, and what the policy really costs, are at most so far from the best

    def __post_init__(self) -> None:
        policy: Any = check.unmasked("Plan", "policy", self.policy)
        value = check.unmasked("Plan", "value", self.value)
        axes = 2 if check.ndim(self.policy) == 2 else 3
        if not isinstance(policy, np.ndarray) or policy.dtype != np.int16 or policy.ndim != axes or not policy.flags.c_contiguous:
            policy = check.integers("Plan", "policy", policy, axes)
        shape = policy.shape
        if 0 in shape:
            check.fail("Plan", "the shape of policy", shape, "(L, S, D) or (S, D), no side empty")
        if policy.min() < 0 or policy.max() >= shape[-1]:
            bad = np.argwhere((policy < 0) | (policy >= shape[-1]))[0]
            check.fail("Plan", check.place_of("policy", bad), policy[tuple(bad)], f"an agent from 0 to {shape[-1] - 1}")
        wanted, letters = ((shape[0] + 1, *shape[1:]), "(L + 1, S, D)") if axes == 3 else (shape, "(S, D)")
        if value is None or value.dtype.kind not in "fiu" or value.shape != wanted:
            got = check.show(self.value) if value is None or value.dtype.kind not in "fiu" else f"of shape {value.shape}"
            check.fail("Plan", "value", got, f"numbers of shape {letters} = {wanted}")
        if self.gain is not None:
            object.__setattr__(self, "gain", check.number("Plan", "gain", self.gain))
        object.__setattr__(self, "error", check.number("Plan", "error", self.error, least=0.0))
        if np.isinf(value).any():
            check.fail("Plan", check.place_of("value", np.argwhere(np.isinf(value))[0]), "infinite", "finite, or NaN if not known")
        object.__setattr__(self, "policy", check.frozen(policy.astype(np.int16, copy=False)))
        object.__setattr__(self, "value", check.frozen(value.astype(np.float64, copy=False)))

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            sizes = " x ".join(f"{n:,}" for n in self.policy.shape)
            letters = "time, state, prev_agent" if self.policy.ndim == 3 else "state, prev_agent"
            gain = None if self.gain is None else f"{self.gain:.4g} per step in the long run"
            first = self.value.reshape(-1, *self.policy.shape[-2:])[0]
            known = f"value from {first.min():.4g} to {first.max():.4g}" if np.isfinite(first).all() else "value not known"
            return f"policy[{letters}] of {sizes}", gain or known

        return short_repr(self, parts)


def empty_plan(task: Task) -> tuple[Policy, Floats]:
    """Make uninitialised arrays for a policy, (L, S, D), and its value, (L + 1, S, D). Without horizon L is 1."""
    shape = (task.plan_steps, task.n_states, task.n_agents)
    return np.empty(shape, dtype=np.int16), np.empty((shape[0] + 1, *shape[1:]))


def best_plan(
    task: Task,
    agents: Belief,
    environment: Belief,
    *,
    seed: int = 0,
    start: Floats | None = None,
    prices: Floats | None = None,
) -> Plan:
    """Find the best policy under beliefs that are known to fit the task. Ties between agents are broken by the seed.

    start: for averages under known tables, (S,) probabilities of the first state; see `fixed_point`. prices: (D,) added to the cost
    of each step of an agent; with a horizon they are not discounted.
    """
    policy, value = empty_plan(task)
    task, prices = priced(task, prices)
    model = model_of(task, agents, environment, prices)
    if task.horizon is not None:
        run_pass(model, CHOOSE, policy, value, seed)
        return new_plan(task, policy, value)
    value[0] = 0.0
    result = run_endless(task, model, CHOOSE, policy, value, seed, start)
    gain, error = result.gain, result.error
    if is_point(agents, environment) and (policy.size <= SMALL or not is_exact(task, error)):

        def operator(costs: Task, after: Floats) -> tuple[Floats, NDArray[np.int16]]:
            return backup(costs, agents, environment, after, seed=seed)

        better = improved(task, agents, environment, policy, result.reached, operator)
        if better is not None:
            policy, value[0], gain, error = better.policy, better.value, better.gain, better.error
    value[0][~result.reached] = np.nan
    return new_plan(task, policy, value, gain, error)


def priced(task: Task, prices: Floats | None) -> tuple[Task, Floats | None]:
    """Return the task and its prices, see `best_plan`; without a horizon they are control costs."""
    if prices is None or task.horizon is not None:
        return task, prices
    return replace(task, control_cost=task.control_cost + prices), None


def new_plan(task: Task, policy: Policy, value: Floats, gain: float = 0.0, error: float = 0.0) -> Plan:
    """Make a Plan of the arrays of a pass, (L, S, D) and (L + 1, S, D), without copying: they become read-only.

    Without horizon they are (1, S, D) and (2, S, D). gain, error: see `Plan`.
    """
    policy.setflags(write=False)
    value.setflags(write=False)
    if task.horizon is not None:
        return Plan(policy, value)
    return Plan(policy[0], value[0], gain if task.discount is None else None, error)


def value_under(task: Task, agents: Belief, environment: Belief, policy: Policy, prices: Floats | None = None) -> Floats:
    """Return value[t, s, prev_agent], (L + 1, S, D), of a checked policy under beliefs: of sets the least possible value.

    With a discount and no horizon: (1, S, D). prices: see `best_plan`.
    """
    _, value = empty_plan(task)
    task, prices = priced(task, prices)
    model = model_of(task, agents, environment, prices)
    if task.horizon is not None:
        run_pass(model, FOLLOW, for_kernels(policy), value, 0)
        return value
    value[0] = 0.0
    known = task.discount is not None and is_point(agents, environment)
    if not known or policy.size > SMALL:
        result = run_endless(task, model, FOLLOW, for_kernels(policy), value, 0)
        if not known and task.discount is not None and not is_exact(task, result.error):
            value[0] = np.where(task.is_terminal[:, None], 0.0, value[0] - 0.5 * result.error)  # the least that is possible
        known = known and not is_exact(task, result.error)
    if known:
        chain = chain_of(task, agents, environment, policy)
        value[0] = chain_value(chain.matrix, chain.cost, task.layout.factor).total(task.layout.factor).reshape(policy.shape[1:])
    return value[:1]


def gain_under(task: Task, agents: Belief, environment: Belief, policy: Policy) -> float:
    """Return the cost of a step of a checked policy in the long run under beliefs; where these are sets, the least possible."""
    _, value = empty_plan(task)
    value[0] = 0.0
    result = run_endless(task, model_of(task, agents, environment), FOLLOW, for_kernels(policy), value, 0)
    return result.gain - 0.5 * result.error


def run_endless(
    task: Task, model: ModelArrays, mode: int, policy: Policy, value: Floats, seed: int, start: Floats | None = None
) -> Endless:
    """Find the fixed point of the Bellman operator from value[0] on, as exactly as `accuracy_for` says.

    mode: CHOOSE or FOLLOW. policy: (1, S, D), written or read. value: (2, S, D), whose first part is replaced. start: for averages
    under known tables, (S,) probabilities of the first state: only places reachable from there count.
    """
    scratch, thread = pass_scratch(model, policy.shape), thread_scratch(task.n_states, task.n_actions, task.n_agents)
    endless = new_endless(task, SOLVED_ONCE)
    if start is not None and task.discount is None:
        find_reached(model, start, task.start_agent, endless.reached)
    settle(model, mode, policy[0], value, seed, accuracy_for(task), endless, scratch, thread)
    return endless


def backup(
    task: Task,
    agents: Belief,
    environment: Belief,
    after: Floats,
    *,
    t: int = 0,
    seed: int = 0,
    follow: Policy | None = None,
    prices: Floats | None = None,
) -> tuple[Floats, NDArray[np.int16]]:
    """Apply the Bellman operator once (Theorem 1).

    after: v_{t+1}, (S, D). follow: (S, D) a policy that is followed instead of the best one. prices: see `best_plan`. Return v_t,
    (S, D), and the best agents, (S, D). t is needed for agents whose policy varies with time. A finite horizon is a loop over this,
    from zeros; a discount is a fixed point of it.
    """
    model, (policies, values) = model_of(task, agents, environment, prices), empty_plan(task)
    scratch, thread = pass_scratch(model, policies.shape), thread_scratch(task.n_states, task.n_actions, task.n_agents)
    begin(model.problem, 1, values, scratch)
    mode, policy = (CHOOSE, policies[t]) if follow is None else (FOLLOW, for_kernels(follow))
    next_value, value = np.require(after, np.float64, ["C"]), values[t]
    kernels.backup(model, mode, t, next_value, value, policy, policy, value, seed, scratch, thread, -1, 0, 0)
    return value, policy


def true_value(mdp: TwoLayerMDP, policy: Policy) -> Floats:
    """Return the value of `evaluate` for a checked policy, (L + 1, S, D), or (1, S, D) without a horizon."""
    if mdp.task.horizon is None and mdp.task.discount is None:
        chain = chain_of(mdp.task, *true_beliefs(mdp), policy)
        return chain_value(chain.matrix, chain.cost, 1.0).level.reshape(policy.shape)
    return value_under(mdp.task, *true_beliefs(mdp), policy)


def start_cost(mdp: TwoLayerMDP, value: Floats) -> float:
    """Return the expected cost of an episode from its value, (L + 1, S, D); without horizon the total discounted or the average
    cost.
    """
    return float(start_mean(mdp.environment.start, value, mdp.task.start_agent))


def negated(task: Task) -> Task:
    """Return the task with all costs negated: its least cost is minus the greatest cost of the task itself."""
    switch_cost = np.where(np.isinf(task.switch_cost), np.inf, -task.switch_cost)  # impossible hand-overs stay impossible
    others: dict[str, Any] = {"switch_cost": switch_cost}
    for name in ("env_cost", "control_cost", "enter_cost"):
        others[name] = None if getattr(task, name) is None else -getattr(task, name)
    for name in RANGES.values():
        ends = getattr(task, name)
        others[name] = None if ends is None else (-ends[1], -ends[0])
    return replace(task, **others)


# ------------------------------------------------------------------------------------------------- for the kernels


_problems: "WeakKeyDictionary[Task, ProblemArrays]" = WeakKeyDictionary()  # made once for each task; read only


def model_of(task: Task, agents: Belief, environment: Belief, prices: Floats | None = None) -> ModelArrays:
    """Return a task and two beliefs in the form that compiled code plans with. prices: see `best_plan`."""
    problem = problem_of(task, prices=prices) if prices is not None else _problems.get(task)
    if problem is None:
        problem = _problems[task] = problem_of(task)
    return ModelArrays(agents=agents.arrays, environment=environment.arrays, problem=problem)


_threads, _most_threads = 1, 1  # the number set now, and the largest so far
_helpers: ThreadPoolExecutor | None = None  # has _most_threads - 1 threads: the caller is one, too
_helpers_lock = threading.Lock()
_kept = threading.local()  # scratch arrays of this thread, by size


def set_threads(threads: int) -> int:
    """Set the number of threads that one plan or one evaluation may use, and return the old number.

    The result is the same, bit for bit, for every number of threads. More than one pays for large problems; small problems are
    planned by one thread in any case.
    """
    global _threads, _most_threads, _helpers
    threads = check.integer("set_threads", "threads", threads, 1, 1024)
    with _helpers_lock:
        if threads > _most_threads:
            _helpers, _most_threads = ThreadPoolExecutor(threads - 1, "cede"), threads
        before, _threads = _threads, threads
    return before


def after_fork() -> None:
    """Replace the helper threads in a forked process: threads are not copied."""
    global _helpers, _helpers_lock  # noqa: PLW0603
    _helpers_lock = threading.Lock()
    if _helpers is not None:
        _helpers = ThreadPoolExecutor(_most_threads - 1, "cede")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)


def threads_for(environment: BeliefArrays, horizon: int) -> int:
    """Return how many threads to use for a pass over this table: 1 if it is too small for several."""
    return _threads if environment.table.column.size * horizon >= WORTH_THREADS else 1


def run_pass(model: ModelArrays, mode: int, policy: Policy, value: Floats, seed: int) -> None:
    """Run the Bellman operator over the whole horizon.

    mode: CHOOSE to find the best policy, FOLLOW to evaluate a given one. policy: (L, S, D), written by CHOOSE, read by FOLLOW.
    value: (L + 1, S, D), written. seed: of ties.
    """
    scratch = pass_scratch(model, policy.shape)
    begin(model.problem, 1, value, scratch)

    def work(thread: ThreadScratch, phase: int) -> int:
        return int(run_backward(model, mode, policy, value, seed, scratch, thread, phase))

    share_pass(model, len(policy), scratch, work)


def share_pass(model: ModelArrays, horizon: int, scratch: PassScratch, work: Any) -> None:
    """Do the work of a pass that has begun, with as many threads as pay off.

    work: a function (thread scratch, phase) that continues from a phase and returns the phase that it reached; the pass is finished
    at PHASES * horizon. Several threads may call it at the same time: each takes the next chunk of work. If the pass is
    interrupted, the scratch arrays are dropped and all helpers are stopped before the exception propagates.
    """
    stopped = threading.Event()

    def go_on(thread: ThreadScratch) -> None:
        phase = 0
        while (phase := work(thread, phase)) < PHASES * horizon and not stopped.is_set():
            time.sleep(0)  # another thread still works in this phase: let it run

    helpers, joined = _helpers, []
    (n_states, n_actions), n_agents = model.problem.env_cost.shape, len(model.problem.slot)
    sizes = (n_states, n_actions, n_agents)
    if helpers is not None:
        for _ in range(1, threads_for(model.environment, horizon)):
            thread = new_thread_scratch(*sizes, np.zeros_like(_work()))
            joined.append((helpers.submit(go_on, thread), thread))
    try:
        go_on(thread_scratch(*sizes))
        for future, thread in joined:
            if not future.cancel():
                future.result()
                _work()[:] += thread.work
    except BaseException:  # an interrupt: helpers may still write into the scratch arrays and the plan; wait until they stop
        stopped.set()
        forget_scratch()
        wait([future for future, _ in joined if not future.cancel()])
        raise


def pass_scratch(model: ModelArrays, shape: tuple[int, ...]) -> PassScratch:
    """Return scratch arrays for a pass with a policy of this shape, (L, S, D). They are cached for the next pass of the same size.

    Each thread has its own. They remember positions in rows from one pass to the next, so the key includes the number of states and
    actions too.
    """
    problem = model.problem
    adds_up = problem.enter_cost.size > 0 or problem.discount != 1.0
    rows = (len(model.environment.table.start), len(model.agents.table.start))
    sizes = (shape[0], shape[2], *rows, shape[1] if adds_up else 0)
    key = (*sizes, *problem.env_cost.shape)
    passes: dict[tuple[int, ...], PassScratch] = _kept.__dict__.setdefault("passes", {})
    scratch = passes.pop(key, None)
    if scratch is None:
        scratch = new_pass_scratch(*sizes)
        left = MOST_BYTES - nbytes(scratch)
        for old in reversed(list(passes)):  # most recently used first
            left -= nbytes(passes[old])
            if left < 0:
                del passes[old]
    passes[key] = scratch  # put last: most recently used
    return scratch


def thread_scratch(n_states: int, n_actions: int, n_agents: int) -> ThreadScratch:
    """Return the scratch arrays of one thread, cached for the next pass of the same size."""
    sizes = (n_states, n_actions, n_agents)
    if _kept.__dict__.get("sizes") != sizes:
        _kept.thread, _kept.sizes = new_thread_scratch(*sizes, _work()), sizes
    thread: ThreadScratch = _kept.thread
    return thread


def forget_scratch() -> None:
    """Drop the cached scratch arrays of this thread. For measurements."""
    _kept.__dict__.pop("passes", None)


class Work(NamedTuple):
    """The work of plans and evaluations, as counts of operations instead of seconds. `work_done` returns it.

    All counts are independent of the machine except `looked_at`: the length of a search depends on earlier plans. With several
    threads, each thread gathers the outcomes of the rows without visits.
    """

    rows: int  # environment rows whose minimum or mean was taken
    outcomes: int  # outcomes gathered for them: the non-zeros of a plain backup
    looked_at: int  # outcomes looked at in search of the threshold
    agents: int  # agents' minima or means

    def __sub__(self, other: "Work") -> "Work":
        return Work(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


def work_done() -> Work:
    """Return the work of all passes that this thread has started so far. Subtract two results to measure the work between them."""
    return Work(*(int(n) for n in _work()))


def _work() -> NDArray[np.int64]:
    """Return the counters of this thread, (4,), in the order of the fields of `Work`."""
    work: NDArray[np.int64] = _kept.__dict__.setdefault("work", np.zeros(4, dtype=np.int64))
    return work
