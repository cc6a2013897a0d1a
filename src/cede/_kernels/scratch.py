"""Scratch arrays: kernels allocate nothing, so their working memory is made here and passed in."""

from typing import Any

import numpy as np

from cede._kernels.bundle import Bool1, Bundle, Float1, Float2, Int1, Int2, Int16s2, Int32s1, Int32s2, Int32s3
from cede._kernels.vectors import BLOCK


class PassScratch(Bundle):
    """What the threads of one pass share.

    The guesses store where searches ended. They speed up the next, similar plan, and do not change its result.
    """

    arrival: Float2  # (S, D) enter_cost(s) + discount v_{t+1}(s, d); empty where that is v_{t+1} itself
    x: Float2  # (rows, D) least expected v_{t+1}(., d) of each environment row
    marks: Int32s2  # (rows, D) the stamp of the last step that needed the row for this agent
    guess: Int32s3  # (L, rows + 1, D) outcome at which the mass ran out, -1: never; the last row is the uniform one
    agent_guess: Int32s1  # (agents' rows,)
    same_start: Int1  # (D,) see `find_same_start`
    changed: Int1  # (L + 1,) whether a value of this time step changed
    busy: Int1  # (L,) whether this time step needs work
    taken: Int1  # (4 L,) chunks of each phase that a thread has begun
    done: Int1  # (4 L,) chunks that are finished
    stamp: int  # one for each time step ever done with this scratch


class ThreadScratch(Bundle):
    """What one thread works in."""

    u: Float1  # values of the outcomes of a row, relative to the least
    p: Float1  # their weights
    y: Float1  # (A,) what each action leads to
    q: Float1  # (D,) what each agent leads to
    m: Float2  # (D, D) m[prev, d], the agents' minima
    same: Int1  # (D,) see `find_equal_columns`
    least: Float1  # (D,) the least v_{t+1}(., d)
    constant: Bool1  # (D,) is v_{t+1}(., d) one value?
    uniform: Float1  # (D,) the minimum of rows without visits
    uniform_width: Float1  # (D,) the width for which it holds, -1: none
    work: Int1  # (4,) environment rows minimised, outcomes gathered, outcomes looked at in searches, agents' minima
    heap: Int1  # places of u
    ranked: Int2  # (D, S) states from the least v_{t+1}(., d) upward
    ranked_value: Float2  # (D, S) their values
    is_ranked: Bool1  # (D,) have the last two been made for v_{t+1}?
    seen: Int1  # (S,) the number of the last row that had this state among its outcomes
    row_number: int
    after: Float2  # (S, D) v_{t+1}, of the step that is done
    value: Float2  # (S, D) v_t
    policy: Int16s2  # (S, D)
    before: Int16s2  # (S, D) the policy whose cost was in value
    floor: Float2  # (S, D) values that are only ever raised


def new_pass_scratch(horizon: int, n_agents: int, n_rows: int, agent_rows: int, arrivals: int) -> PassScratch:
    """Make the scratch arrays that the threads of a pass share.

    n_rows, agent_rows: of the tables of environment and agents. arrivals: S where arriving costs something or later steps count
    less, else 0.
    """
    return PassScratch(
        arrival=np.empty((arrivals, n_agents)),
        x=np.empty((n_rows, n_agents)),
        marks=np.full((n_rows, n_agents), -1, dtype=np.int32),
        guess=np.full((horizon, n_rows + 1, n_agents), -1, dtype=np.int32),
        agent_guess=np.full(agent_rows, -1, dtype=np.int32),
        same_start=np.empty(n_agents, dtype=np.int64),
        changed=np.empty(horizon + 1, dtype=np.int64),
        busy=np.empty(horizon, dtype=np.int64),
        taken=np.empty(4 * horizon, dtype=np.int64),
        done=np.empty(4 * horizon, dtype=np.int64),
    )


def new_thread_scratch(n_states: int, n_actions: int, n_agents: int, work: Any) -> ThreadScratch:
    """Make the scratch arrays of one thread. work: (4,) int64, counters of its work."""
    longest = max(n_states, n_actions) + BLOCK
    return ThreadScratch(
        u=np.empty(longest),
        p=np.empty(longest),
        y=np.empty(n_actions),
        q=np.empty(n_agents),
        m=np.empty((n_agents, n_agents)),
        same=np.empty(n_agents, dtype=np.int64),
        least=np.empty(n_agents),
        constant=np.empty(n_agents, dtype=np.bool_),
        uniform=np.empty(n_agents),
        uniform_width=np.empty(n_agents),
        work=work,
        heap=np.empty(longest, dtype=np.int64),
        ranked=np.empty((n_agents, max(n_states, n_actions)), dtype=np.int64),
        ranked_value=np.empty((n_agents, max(n_states, n_actions))),
        is_ranked=np.zeros(n_agents, dtype=np.bool_),
        seen=np.zeros(max(n_states, n_actions), dtype=np.int64),
        after=np.empty((0, 0)),
        value=np.empty((0, 0)),
        policy=np.empty((0, 0), dtype=np.int16),
        before=np.empty((0, 0), dtype=np.int16),
        floor=np.empty((0, 0)),
    )


def nbytes(scratch: Bundle) -> int:
    """Return the bytes of the arrays of a bundle."""
    return sum(getattr(scratch, name).nbytes for name in scratch._dtypes)
