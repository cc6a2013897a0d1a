"""The arrays that kernels work on, in bundles, and the codes in them."""

from typing import Any, NamedTuple

import numpy as np

# How an agent's policy varies: the place of a row among the agent's slots is 0, t or prev_agent.
CONSTANT, BY_TIME, BY_PREV_AGENT = 0, 1, 2

# What a pass does with the policy.
CHOOSE = 0  # the best agent everywhere, from the values of this pass
FOLLOW = 1  # what is given: the values are its cost
RAISE = 2  # the best agent everywhere, one step ahead of given values, which are raised by what is found

# When a learner plans anew: after so many episodes, or one of these.
DOUBLING, NEVER = 0, -1

PRINTED, APPENDIX, BERNSTEIN, NO_RADIUS = 0, 1, 2, -1  # radii

# Passes over long rows run over whole blocks, so that the compiler can use vector registers for all of them.
BLOCK = 16

CHUNK = 64  # steps counted at once: the room wanted for them grows with their number squared


class Layer(NamedTuple):
    """A layer of tables. Row r holds the outcomes column[start[r] : start[r] + size[r]], sorted, with weights that sum to
    total[r]; its distribution is weight / total. A row of size 0 was never seen and stands for the uniform one.
    """

    start: Any  # (rows,) int64: where a row begins in the pool
    size: Any  # (rows,) int64: how many outcomes it holds
    total: Any  # (rows,) float64: sum of its weights
    column: Any  # (pool,) int32: outcomes, ascending in each row
    weight: Any  # (pool,) float64
    width: Any  # (rows,) float64: L1 radius around weight / total; or, of intervals, see `linear`
    row: Any  # agents: (slots, S); environment: (S, A) int64: which row serves which place
    linear: Any  # (1,) float64: 0, or around each outcome's p an interval of sqrt(2 p (1 - p) width) + linear width to both sides
    closed: Any  # bool: are the outcomes of a row, those of weight 0 too, all that can be?


class Pool(NamedTuple):
    """A growing table of counts (counts.py); the first five fields as in `Layer`."""

    start: Any
    size: Any
    total: Any
    column: Any
    weight: Any
    room: Any  # (rows,) int64: how many outcomes fit before the row must move
    end: Any  # (1,) int64: first free place of the pool


class Leads(NamedTuple):
    """What outcomes mean in a place, backwards: next states of (s, a), or actions of (slot, s)."""

    lead: Any  # (places) int64: which of the rows below; empty: an outcome is what it leads to
    begin: Any  # (rows + 1,) int64: where each begins in the next two
    to: Any  # (n,) int64: ascending in each
    outcome: Any  # (n,) int64: the outcome that leads there


class Places(NamedTuple):
    """Where a step is counted."""

    agents: Any  # (slots, S) int64: row of the agents' table
    environment: Any  # (S, A) int64: row of the environment's table; (S, slots) for UCRL2
    columns: Any  # int: outcomes that a row of it can have
    actions: Leads  # lead: (slots, S)
    next_states: Leads  # lead: (S, A)


class Fading(NamedTuple):
    """How a table forgets, after every episode."""

    factor: Any  # (rows,) what is left of a count; empty: nothing is ever forgotten
    window: Any  # (rows,) int64: episodes for which a step counts, 0: for ever
    lengths: Any  # (n,) int64: the windows that there are
    recent: Any  # (longest window, L) int64: row * columns + column of the last steps, -1: none


class Problem(NamedTuple):
    slot: Any  # (D,) int64: the first slot of each agent
    vary: Any  # (D,) int64: how it varies
    env_cost: Any  # (S, A)
    control_cost: Any  # (D,)
    switch_cost: Any  # (D, D)


class Room(NamedTuple):
    """What the threads of one pass share. The guesses remember where searches ended; used again for a similar plan they save
    passes, and change nothing else.
    """

    x: Any  # (rows, D): least expected v_{t+1}(., d) of each environment row
    marks: Any  # (rows, D) int32: the stamp of the last step that needed the row for this agent
    guess: Any  # (L, rows + 1, D) int32: outcome at which the mass ran out, -1: never; the last row is the uniform one
    agent_guess: Any  # (agents' rows,) int32
    alike: Any  # (D,) int64: see `same_start`
    changed: Any  # (L + 1,) int64: did a value of this time step change?
    busy: Any  # (L,) int64: is there anything to do at this time step?
    taken: Any  # (3 L,) int64: chunks of each phase that a thread has begun
    done: Any  # (3 L,) int64: and those that are finished
    stamp: Any  # (1,) int64: one for each step ever done in this room


class Hands(NamedTuple):
    """What one thread works with."""

    u: Any  # outcomes of the row at hand, above the least
    p: Any  # and their weights
    y: Any  # (A or more,) what each action leads to
    q: Any  # (D,) what each agent leads to
    m: Any  # (D, D): m[prev, d], the agent's minimum
    same: Any  # (D,) int64: see `equal_columns`
    least: Any  # (D,) the least v_{t+1}(., d)
    constant: Any  # (D,) bool: is v_{t+1}(., d) one value?
    uniform: Any  # (D,) the minimum of rows that were never seen
    uniform_width: Any  # (D,) the width for which it holds, -1: none
    work: Any  # (4,) int64: environment rows minimised, outcomes gathered, outcomes looked at in passes, agents' minima
    heap: Any  # places of u by what they hold, least first
    ranked: Any  # (D, S) int64: states from the least v_{t+1}(., d) upward
    ranked_value: Any  # (D, S): their values
    is_ranked: Any  # (D,) bool: has that been done?
    seen: Any  # (S,) int64: the number of the last row that had this state among its outcomes
    row_number: Any  # (1,) int64


def room_to_work(horizon: int, n_agents: int, n_rows: int, agent_rows: int) -> Room:
    """What `backward` needs beside its arguments."""
    return Room(
        x=np.empty((n_rows, n_agents)),
        marks=np.full((n_rows, n_agents), -1, dtype=np.int32),
        guess=np.full((horizon, n_rows + 1, n_agents), -1, dtype=np.int32),
        agent_guess=np.full(agent_rows, -1, dtype=np.int32),
        alike=np.empty(n_agents, dtype=np.int64),
        changed=np.empty(horizon + 1, dtype=np.int64),
        busy=np.empty(horizon, dtype=np.int64),
        taken=np.empty(3 * horizon, dtype=np.int64),
        done=np.empty(3 * horizon, dtype=np.int64),
        stamp=np.zeros(1, dtype=np.int64),
    )


def hands_to_work(n_states: int, n_actions: int, n_agents: int, work: Any) -> Hands:
    """A thread's own arrays; what it does is added to `work`."""
    longest = max(n_states, n_actions) + BLOCK
    return Hands(
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
        ranked=np.empty((n_agents, n_states), dtype=np.int64),
        ranked_value=np.empty((n_agents, n_states)),
        is_ranked=np.zeros(n_agents, dtype=np.bool_),
        seen=np.zeros(n_states, dtype=np.int64),
        row_number=np.zeros(1, dtype=np.int64),
    )


class World(NamedTuple):
    """The truth, as a simulation needs it."""

    agents: Layer
    environment: Layer
    problem: Problem
    start: Any  # (S,) probabilities
    cumulated_start: Any  # (S,) their running sums
    start_agent: Any  # int
    acting: Any  # (D,) int64: the member who acts when each agent is in control
    aim: Any  # (D,) int64: the member who is in control then, or is taking over


class Steps(NamedTuple):
    """One episode as it is played."""

    states: Any  # (L + 1,) int64
    who: Any  # (L + 1,) int64: who[0] = d_0, who[t + 1] acts at time t
    actions: Any  # (L,) int64
    costs: Any  # (L,)


class Mind(NamedTuple):
    """A learner: what it saw, what it believes, how it plans."""

    seen_agents: Pool
    seen_environment: Pool
    counted_agents: Any  # int: rows of the first that are counted; those behind are known
    counted_environment: Any  # int
    places: Places
    fading_agents: Fading
    fading_environment: Fading
    flat: Any  # bool: the second holds p(s' | s, d)
    agents_kind: Any  # int: PRINTED, APPENDIX, BERNSTEIN or NO_RADIUS
    environment_kind: Any
    prior: Any  # pseudo-counts of a row from which tables are sampled; 0: they are not
    sticks: Any  # int: outcomes that were never seen get their sampled mass on at most so many of them
    agents: Layer  # the belief. Its tables are those above, or, if unfolded or sampled, arrays of its own, written by `believe`
    environment: Layer
    agents_width: Any  # (rows,) their widths, to be written by `believe`
    environment_width: Any
    agents_case: Any  # (rows,) int64: the counted row from which a row of the belief follows; from `counted` on: a known one
    environment_case: Any
    agents_extra: Any  # (counted rows,) to be added to the constant of the radius, for rows with fewer outcomes than others
    environment_extra: Any
    problem: Problem
    learned_cost: Any  # (S, slots): env_cost of the problem, to be written where it must be learned; else empty
    true_cost: Any  # (S, A)
    least_cost: Any  # (S,) least of the true cost over actions
    spread: Any  # (S,) greatest minus least
    replan: Any  # int: episodes that share a plan; DOUBLING or NEVER
    planned_agents: Any  # (rows,) visits when the plan was made, for DOUBLING; else empty
    planned_environment: Any
    bounds: Any  # (L + 1, S, D) values for greedy planning, only ever raised; else empty
    least_bound: Any  # (L + 1, D) their least over states
    least_at: Any  # (L + 1, D) int64: the first state that has it
    limits: "Limits"
    caution: "Caution"


class Limits(NamedTuple):
    """How much control each member of the team may have, met by prices that are added to what control costs."""

    least: Any  # (members,) shares of the steps; empty: there are no limits
    most: Any  # (members,)
    acting: Any  # (D,) int64: the member who acts when each agent is in control
    own: Any  # (D,) what control costs by itself
    priced: Any  # (D,) and with prices: control_cost of the problem looks at it
    prices: Any  # (3, members) of a step more than allowed, of a step less than demanded; episodes since there are limits


class Caution(NamedTuple):
    """What a learner needs that must never be much worse than a baseline."""

    baseline: Any  # (L, S, D) int16: a policy; empty: there is none
    alpha: Any  # the part of its cost that may be lost
    delta: Any  # with this probability luck may deceive the learner
    start: Any  # (S,) probabilities of the first state; empty: not known
    opposite: Any  # Problem: costs negated, of which the next two are looked at
    control_cost: Any  # (D,)
    switch_cost: Any  # (D, D)
    value: Any  # (L + 1, S, D) room to work
    record: Any  # (10,) see below


# What is recorded of a cautious learner: of the episodes in which it did not keep to the baseline, and of those in which it did,
# their number, their cost, and the squared differences of costs from what was expected; what the baseline costs at least; what was
# decided for the running episode: nothing yet, to deviate, or to keep to the baseline; what it costs at most, if that was to
# deviate; and the sum of this over earlier episodes.
EXPLORED, KEPT_TO, PROVEN, DECIDED, AT_MOST, AT_MOST_SO_FAR, RECORD = 0, 3, 6, 7, 8, 9, 10
DEVIATE, KEEP_TO = 1.0, 2.0


class Sizes(NamedTuple):
    """All that the constants of radii depend on, but for time."""

    agents_kind: Any  # int: PRINTED, APPENDIX, BERNSTEIN or NO_RADIUS
    environment_kind: Any
    delta: Any
    horizon: Any
    outcomes: Any  # most that a row of the environment can have: |S|, or fewer by its structure
    n_actions: Any
    agent_rows: Any  # |S||D|; more where agents vary, cases where states look alike
    environment_rows: Any  # |S||A|; |S||D| for UCRL2; or cases


class Radii(NamedTuple):
    """The numbers of an episode from which radii follow, scale sqrt(constant / max(1, visits)); or arrays, of several."""

    agents: Any  # constants
    environment: Any
    cost: Any
    agents_scale: Any
    environment_scale: Any


class Run(NamedTuple):
    """Where the run of one team stands: single numbers, in arrays."""

    planned: Any  # (1,) int64: for which episode the plan was made, 0: there is none
    fresh: Any  # (1,) int64: the plan is to be used in the next episode, come what may
    judged: Any  # (1,) int64: for which episode the policy was made that was evaluated last, 0: none was
    cost: Any  # (1,) what it costs
    held: Any  # (1,) int64: is the value of that policy at hand?


class Log(NamedTuple):
    """The steps of a run of n episodes, as they are counted."""

    agents: Any  # (n L,) int64: agents' row * A + action
    row: Any  # (n L,) int64: environment's row
    to: Any  # (n L,) int64: outcome: next state, or what the structure says


class Ledger(NamedTuple):
    """What is written down of n episodes of D agents."""

    expected_cost: Any  # (n,) exact, of the policy
    cost: Any  # (n,) realised
    control: Any  # (n, members) int64: steps of each
    switches: Any  # (n,) int64


class Keep(NamedTuple):
    """What is kept of each of n teams while another one is at work. First axis 1 instead of n: nothing is, there is one for all."""

    seen: Pool  # a row for each team; columns: agents' row * A + action, int64
    own: Pool  # likewise of an environment that is not shared: row * columns + outcome
    luck: Any  # (n, 4) uint64: see `draw_uniform`
    seed: Any  # (n,) int64: of ties
    control_cost: Any  # (n, D)
    switch_cost: Any  # (n, D, D)
    slot: Any  # (n, D) int64: first slot of each agent in the table of all true agents
    start_agent: Any  # (n,) int64
    age: Any  # (n,) int64: which of the ages that there are the team has
    planned: Any  # (n,) int64: as in `Run`, likewise the next three
    fresh: Any
    judged: Any
    cost: Any
    policy: Any  # (n or 1, L, S, D) int16
    value: Any  # (n or 1, L + 1, S, D); (1, 0, 0, 0) if policies are given
    planned_agents: Any  # (n or 1, rows): as in `Mind`, likewise the rest
    planned_environment: Any
    bounds: Any
    least_bound: Any
    least_at: Any
    recent_agents: Any  # (n or 1, window, L) int64: see `Fading`
    recent_environment: Any
    prices: Any  # (n or 1, 3, members): see `Limits`
    record: Any  # (n or 1, 10): see `Caution`


class Bench(NamedTuple):
    """Where one team after the other is at work."""

    mind: Mind  # its pools hold what the team at work has seen
    world: World  # the agents of all teams
    room: Room
    true_room: Room
    hands: Hands
    before: Any  # (L, S, D) int16: the policy evaluated last
    true_value: Any  # (L + 1, S, D): and its value
    steps: Steps
    log: Log
    luck: Any  # (2 L + 1,)
    given: Any  # (2,) int64: where counted rows begin in the pools of agents and environment: behind what is known
    fading: Any  # (2,) int64: rows of each in which something may be forgotten: all that are counted, or none
    held: Any  # (1,) int64: see `Run`
    at_work: Any  # (1,) int64: which team is, -1: none
    shared: Any  # bool: is the environment's pool that of all teams, and does `delta` count what they add?
    snapshot: Pool  # the environment as it was when the round began
    delta: Pool  # what was seen since
