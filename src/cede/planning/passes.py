"""Passes of the compiled planner: scratch arrays, threads, and the work that was done.

A pass is one loop of the Bellman operator over the horizon (`_kernels/backward.py`). Everything that plans or evaluates comes here.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede._kernels import backup as kernels
from cede._kernels.backup import CHOOSE, FOLLOW, PHASES
from cede._kernels.backward import backward, begin, start_mean
from cede._kernels.compiling import kernel
from cede._kernels.model import BeliefArrays, ModelArrays, ProblemArrays
from cede._kernels.scratch import PassScratch, ThreadScratch, nbytes, new_pass_scratch, new_thread_scratch
from cede.planning.belief import Belief, true_beliefs
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task

MOST_BYTES = 2**28  # of scratch arrays that are kept per thread, beside those in use
WORTH_THREADS = 100_000  # outcomes times time steps of a plan below which one thread is faster than several


@dataclass(frozen=True, eq=False)
class Plan:
    """A switching policy and the value that its maker believes it to have. Usable without the learner that made it."""

    policy: Policy  # (L, S, D): policy[t, s, prev_agent] is the agent to put in control
    value: Floats  # (L + 1, S, D), the last row zero; not a number where nothing is believed


def empty_plan(task: Task) -> tuple[Policy, Floats]:
    """Make arrays for a policy, (L, S, D), and its value, (L + 1, S, D)."""
    shape = (task.horizon, task.n_states, task.n_agents)
    return np.empty(shape, dtype=np.int16), np.empty((shape[0] + 1, *shape[1:]))


def best_plan(task: Task, agents: Belief, environment: Belief, *, seed: int = 0) -> Plan:
    """Find the best policy under beliefs that fit the task."""
    policy, value = empty_plan(task)
    run_pass(model_of(task, agents, environment), CHOOSE, policy, value, seed)
    return Plan(policy, value)


def value_under(task: Task, agents: Belief, environment: Belief, policy: Policy) -> Floats:
    """Return value[t, s, prev_agent] of a checked policy under given tables; where they are sets, the least that it can be."""
    _, value = empty_plan(task)
    run_pass(model_of(task, agents, environment), FOLLOW, policy, value, 0)
    return value


def backup(
    task: Task, agents: Belief, environment: Belief, after: Floats, *, t: int = 0, seed: int = 0
) -> tuple[Floats, NDArray[np.int16]]:
    """Apply the Bellman operator once (Theorem 1): from v_{t+1} = after, (S, D), to v_t, (S, D), and its best agents, (S, D).

    A finite horizon is a loop over it, from zeros; anything else that iterates it, a discount say, starts from what it has.
    """
    model, (policy, value) = model_of(task, agents, environment), empty_plan(task)
    scratch, thread = pass_scratch(model, policy.shape), thread_scratch(task.n_states, task.n_actions, task.n_agents)
    begin(model.problem, 1, value, scratch)
    given = np.require(after, np.float64, ["C"])
    kernels.backup(model, CHOOSE, t, given, value[t], policy[t], policy[t], value[t], seed, scratch, thread, -1, 0, 0)
    return value[t], policy[t]


def true_value(mdp: TwoLayerMDP, policy: Policy) -> Floats:
    """Return value[t, s, prev_agent] of a checked policy under the true tables."""
    return value_under(mdp.task, *true_beliefs(mdp), policy)


def start_cost(mdp: TwoLayerMDP, value: Floats) -> float:
    """Return the cost of an episode that a value tells: its mean over the start distribution, d_0 in control before."""
    return float(start_mean(mdp.environment.start, value, mdp.task.start_agent))


def negated(task: Task) -> Task:
    """Return the task with all costs negated: the least of it is minus the most of the task itself."""
    switch_cost = np.where(np.isinf(task.switch_cost), np.inf, -task.switch_cost)  # what cannot be is in no policy
    return replace(task, env_cost=-task.env_cost, control_cost=-task.control_cost, switch_cost=switch_cost)


# ------------------------------------------------------------------------------------------------- for the kernels


def problem_of(task: Task, env_cost: Floats | None = None) -> ProblemArrays:
    """Return what kernels need of a task; with environment costs that may differ from its own."""
    costs = {"control_cost": task.control_cost, "switch_cost": task.switch_cost}
    return ProblemArrays(slot=task.slot, vary=task.vary, env_cost=task.env_cost if env_cost is None else env_cost, **costs)


_problems: "WeakKeyDictionary[Task, ProblemArrays]" = WeakKeyDictionary()  # made once for each task; nobody changes them


def model_of(task: Task, agents: Belief, environment: Belief) -> ModelArrays:
    """Return what kernels need for a plan of a task under beliefs."""
    problem = _problems.get(task)
    if problem is None:
        problem = _problems[task] = problem_of(task)
    return ModelArrays(agents=agents.arrays, environment=environment.arrays, problem=problem)


_threads, _most_threads = 1, 1  # now, and at any time so far
_helpers: ThreadPoolExecutor | None = None  # one fewer than most
_helpers_lock = threading.Lock()
_kept = threading.local()  # scratch arrays of this thread, by size


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


def threads_for(environment: BeliefArrays, horizon: int) -> int:
    """Return how many threads a pass over this table is worth."""
    return _threads if environment.table.column.size * horizon >= WORTH_THREADS else 1


@kernel
def run_backward(model, mode, policy, value, seed, scratch, thread, phase):  # type: ignore[no-untyped-def]
    """Call `backward` from Python."""
    return backward(model, mode, policy, policy, value, value, seed, scratch, thread, phase)


def run_pass(model: ModelArrays, mode: int, policy: Policy, value: Floats, seed: int) -> None:
    """Run one whole pass of the Bellman operator.

    policy: (L, S, D), written, or with FOLLOW read. value: (L + 1, S, D), written.
    """
    scratch = pass_scratch(model, policy.shape)
    begin(model.problem, 1, value, scratch)
    share_pass(
        model, len(policy), scratch, lambda thread, phase: run_backward(model, mode, policy, value, seed, scratch, thread, phase)
    )


def share_pass(model: ModelArrays, horizon: int, scratch: PassScratch, work: Any) -> None:
    """Let as many threads as it is worth do the work of a pass that has begun.

    work(thread, phase) goes on from a phase, with the scratch arrays of a thread, and returns how far it came. Helpers join where
    there are several threads; who comes late finds nothing left to do.
    """
    stopped = threading.Event()

    def go_on(thread: ThreadScratch) -> None:
        phase = 0
        while (phase := work(thread, phase)) < PHASES * horizon and not stopped.is_set():
            time.sleep(0)  # another thread is not finished: let it have the processor

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
    except BaseException:  # an interrupt: nobody must use the scratch arrays, or read the plan, while helpers are at work on it
        stopped.set()
        forget_scratch()
        wait([future for future, _ in joined if not future.cancel()])
        raise


def pass_scratch(model: ModelArrays, shape: tuple[int, ...]) -> PassScratch:
    """Return scratch arrays for a pass, kept for the next one of the same size in this thread. shape: (L, S, D).

    What is kept are places in rows, so they are told apart by the number of outcomes too: states and actions.
    """
    sizes = (shape[0], shape[2], model.environment.table.n_rows, model.agents.table.n_rows)
    key = (*sizes, *model.problem.env_cost.shape)
    passes: dict[tuple[int, ...], PassScratch] = _kept.__dict__.setdefault("passes", {})
    scratch = passes.pop(key, None)
    if scratch is None:
        scratch = new_pass_scratch(*sizes)
        left = MOST_BYTES - nbytes(scratch)
        for old in reversed(list(passes)):  # the one used last first
            left -= nbytes(passes[old])
            if left < 0:
                del passes[old]
    passes[key] = scratch  # last in the order of use
    return scratch


def thread_scratch(n_states: int, n_actions: int, n_agents: int) -> ThreadScratch:
    """Return this thread's own scratch arrays, kept for the next pass of the same size."""
    sizes = (n_states, n_actions, n_agents)
    if _kept.__dict__.get("sizes") != sizes:
        _kept.thread, _kept.sizes = new_thread_scratch(*sizes, _work()), sizes
    thread: ThreadScratch = _kept.thread
    return thread


def forget_scratch() -> None:
    """Drop the scratch arrays of this thread, and with them what they remember of earlier plans; for measurements."""
    _kept.__dict__.pop("passes", None)


class Work(NamedTuple):
    """What plans and evaluations have cost, in units that no clock is needed for.

    Independent of the machine, except for looked_at: how long a search takes depends on the plans before. With several threads
    each of them gathers for the rows that were never seen.
    """

    rows: int  # environment rows whose minimum or mean was taken
    outcomes: int  # outcomes gathered for them: the non-zeros of a plain backup
    looked_at: int  # outcomes looked at in search of the threshold
    agents: int  # agents' minima or means

    def __sub__(self, other: "Work") -> "Work":
        return Work(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


def work_done() -> Work:
    """Return the work of all passes that this thread has asked for."""
    return Work(*(int(n) for n in _work()))


def _work() -> NDArray[np.int64]:
    work: NDArray[np.int64] = _kept.__dict__.setdefault("work", np.zeros(4, dtype=np.int64))
    return work
