"""MiniGrid environments as two-layer problems, exactly: their states are found by trying every action in every state.

MiniGrid's observations hide the position of the agent. A state here is everything that determines the future: position and
direction of the agent, positions of objects or whether they are carried, and which doors are locked, closed or open.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Ints, read_only
from cede._base.extras import need
from cede.problem.model import Agent, Environment, Team, TwoLayerMDP

gymnasium: Any = need("gymnasium", "gym")

SUCCESS, FAILURE = "success", "failure"  # names of the states in which episodes end
FACING = ("east", "south", "west", "north")  # the directions of MiniGrid, in its order
NEVER_CHANGE = ("wall", "floor", "lava", "goal")  # types of objects that never change
MOST_STATES = 100_000
# Attributes of an environment that no step changes, or that cannot be copied.
NOT_COPIED = ("action_space", "observation_space", "spec", "_np_random", "_np_random_seed", "window", "clock", "actions")

Situation = tuple[Any, ...]  # x, y, direction, and for each object (name, position or state)


class FixedLayout(gymnasium.Wrapper):  # type: ignore[misc]  # an extra: types see Any
    """A MiniGrid environment that begins every episode with the same layout, and has only some of its actions."""

    def __init__(self, env: Any, layout_seed: int, numbers: Sequence[int]) -> None:
        super().__init__(env)
        self.layout_seed, self.numbers = layout_seed, tuple(numbers)  # numbers: MiniGrid's number of each action
        self.action_space = gymnasium.spaces.Discrete(len(self.numbers))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the layout of `layout_seed`; the argument seed is ignored, since nothing else is random."""
        return self.env.reset(seed=self.layout_seed, options=options)  # type: ignore[no-any-return]

    def step(self, action: Any) -> Any:
        """Take one of the actions that are kept."""
        return self.env.step(self.numbers[int(action)])


@dataclass(frozen=True, eq=False)
class MiniGridStates:
    """The states of a MiniGrid environment; also the encoder by which `run` and `SwitchingEnv` number them in the same way.

    Make one with `minigrid_states`. Use it with its own `env`, which keeps layout and actions as they were.
    """

    env: Any  # the environment as it must be run: the same layout in every episode, and only the actions that are kept
    names: tuple[str, ...]  # (S,) such as "x=1, y=2, facing=east, key=carried, door=locked"; the ends come last
    actions: tuple[str, ...]  # (A,) names of the actions that are kept
    next_state: Ints  # (S, A) where each action leads; ends lead to themselves
    terminal: tuple[int, ...]  # the states in which episodes end: "success" and "failure", if they can be reached
    number: dict[Situation, int]  # the state of each situation
    start: int = 0  # the state in which every episode begins

    @property
    def n_states(self) -> int:
        return len(self.names)

    def __call__(self, observation: Any, *, env: Any, reward: float = 0.0, terminated: bool = False) -> int:
        """Return the current state of an environment. The observation is ignored. reward: of the last step."""
        if terminated:
            return self._named(SUCCESS if reward > 0 else FAILURE)
        state = self.number.get(situation(env.unwrapped))
        if state is None:
            expected = "one that was found: run the `env` of minigrid_states, with its layout and its actions"
            check.fail("minigrid_states", "the situation of env", described(situation(env.unwrapped)), expected)
        return state

    def _named(self, name: str) -> int:
        if name not in self.names:
            check.fail("minigrid_states", "the end of the episode", name, "one that was found: run the `env` of minigrid_states")
        return self.names.index(name)


def minigrid_states(env: Any, *, seed: int = 0, actions: Sequence[str] | None = None) -> MiniGridStates:
    """Find all states of a MiniGrid environment that can be reached, breadth-first from its start.

    env: made by `gymnasium.make`, in which chance decides the layout only. seed: of the layout. actions: names of the actions to
    keep, of "left", "right", "forward", "pickup", "drop", "toggle" and "done"; by default all of them.
    """
    owner = "minigrid_states"
    inner = checked_minigrid(owner, env)
    chosen = [inner.actions[name] for name in checked_actions(owner, inner, actions)]
    live = FixedLayout(env, check.integer(owner, "seed", seed, 0), [int(action) for action in chosen])
    live.reset()
    number: dict[Situation, int] = {situation(inner): 0}
    rows: list[list[Situation | str]] = []
    left = deque([copied(inner)])
    while left:
        here, row = left.popleft(), []
        for action in chosen:
            restore(inner, here)
            to = tried(owner, inner, action)
            if isinstance(to, tuple) and to not in number:
                number[to] = len(number)
                left.append(copied(inner))
            row.append(to)
        rows.append(row)
        if len(number) > MOST_STATES:
            check.fail(owner, "the number of states", f"more than {MOST_STATES}", f"at most {MOST_STATES}: keep fewer actions")
    live.reset()
    ends = [name for name in (SUCCESS, FAILURE) if any(name in row for row in rows)]
    index: dict[Any, int] = {**number, **{name: len(number) + i for i, name in enumerate(ends)}}
    table = [[index[to] for to in row] for row in rows] + [[index[name]] * len(chosen) for name in ends]
    return MiniGridStates(
        env=live,
        names=(*state_names(list(number)), *ends),
        actions=tuple(action.name for action in chosen),
        next_state=read_only(np.array(table, dtype=np.int64)),
        terminal=tuple(index[name] for name in ends),
        number=number,
    )


def from_minigrid(
    env: Any,
    agents: Sequence[Agent],
    horizon: int | None,
    *,
    seed: int = 0,
    actions: Sequence[str] | None = None,
    step_cost: float | None = None,
    fail_cost: float = 1.0,
    switch_cost: Any = 0.0,
    start_agent: Any = 0,
    discount: float | None = None,
) -> TwoLayerMDP:
    """Make a two-layer problem of a MiniGrid environment with one layout.

    env: a MiniGrid environment; or what `minigrid_states` made of it, and then without seed and actions, which are as there.
    agents: with policies over these states and actions, (S, A). horizon, switch_cost, start_agent, discount: as in `TwoLayerMDP`
    and `Team`; the environment's own limit of steps is ignored.

    Costs: every step until success costs step_cost, and a failure (lava) costs fail_cost in total, whenever it happens. By default
    step_cost is fail_cost / horizon. Then success after k of L steps costs k / L of fail_cost, and an episode without success costs
    fail_cost, too. (MiniGrid's own rewards fall with time in the same way.) With step_cost=0 only failures cost.

    In the tables: after a failure each remaining step costs step_cost, and arriving there costs fail_cost - L * step_cost. With a
    discount, the default step_cost is such that discounted steps, to the horizon or without end, sum to fail_cost; the cost of
    arriving at a failure is discounted like all costs. Without a horizon that is discount * fail_cost.
    """
    owner = "from_minigrid"
    if isinstance(env, MiniGridStates):
        if actions is not None or seed != 0:
            check.fail(owner, "seed or actions", check.show((seed, actions)), "left out: they were given to minigrid_states")
        states = env
    else:
        states = minigrid_states(env, seed=seed, actions=actions)
    failing = check.number(owner, "fail_cost", fail_cost)
    steps = None if horizon is None else check.integer(owner, "horizon", horizon, 1)
    if steps is None and discount is None:
        check.fail(owner, "discount", discount, "given where there is no horizon: episodes end")
    factor = 1.0 if discount is None else check.probability(owner, "discount", discount)
    usual = failing * (1.0 - factor) if steps is None else failing / sum(factor**t for t in range(steps))
    each = usual if step_cost is None else check.number(owner, "step_cost", step_cost)
    cost, enter = np.full(states.next_state.shape, each), np.zeros(states.n_states)
    cost[list(states.terminal)] = 0.0
    if FAILURE in states.names:
        lava = states.names.index(FAILURE)
        cost[lava] = 0.0 if steps is None else each
        enter[lava] = failing * factor if steps is None else 0.0 if step_cost is None else failing - steps * each
    n, a = states.next_state.shape
    places = (np.ones(n * a), (np.arange(n * a), states.next_state.ravel()))
    environment = Environment(
        sp.csr_array(places, shape=(n * a, n)),
        cost,
        np.eye(n)[states.start],
        state_names=states.names,
        action_names=states.actions,
        enter_cost=enter if enter.any() else None,
        terminal=states.terminal,
    )
    team = Team(check.items(owner, "agents", agents, "a sequence of Agents"), switch_cost)
    return TwoLayerMDP(environment, team, horizon, start_agent, discount=discount)


def checked_minigrid(owner: str, env: Any) -> Any:
    """Check that an object is an environment of MiniGrid; return it without its wrappers."""
    kind = need("minigrid.minigrid_env", "worlds").MiniGridEnv
    inner = getattr(env, "unwrapped", None)
    if isinstance(env, type) or not isinstance(inner, kind) or hasattr(inner, "instrs"):
        expected = "an environment of MiniGrid, as gymnasium.make gives one (not of BabyAI, whose instructions remember)"
        check.fail(owner, "env", check.show(env), expected)
    return inner


def checked_actions(owner: str, inner: Any, actions: Any) -> list[str]:
    """Check the names of the actions to keep; None stands for all of them."""
    known = [action.name for action in inner.actions]
    names = known if actions is None else check.items(owner, "actions", actions, check.one_of(known))
    for i, name in enumerate(names):
        check.choice(owner, f"actions[{i}]", name, known)
    if not names or len(set(names)) < len(names):
        check.fail(owner, "actions", check.show(actions), f"different ones, each {check.one_of(known)}")
    return list(names)


def tried(owner: str, inner: Any, action: Any) -> Situation | str:
    """Take an action; return the situation in which it led, or the name of the end."""
    before = inner.np_random.bit_generator.state
    _, reward, terminated, _, _ = inner.step(action)
    if inner.np_random.bit_generator.state != before:
        check.fail(owner, "a step of env", "random", "decided by state and action: chance may decide the layout only")
    if terminated:
        return SUCCESS if reward > 0 else FAILURE
    return situation(inner)


def copied(inner: Any) -> dict[str, Any]:
    """Return a copy of all attributes that a step may change. Objects that never change, and the environment, are not copied."""
    same = {id(inner): inner, **{id(thing): thing for thing in inner.grid.grid if thing and thing.type in NEVER_CHANGE}}
    return deepcopy({name: value for name, value in vars(inner).items() if name not in NOT_COPIED}, same)


def restore(inner: Any, saved: dict[str, Any]) -> None:
    """Restore an environment from a copy made by `copied`, with a step count of 0."""
    same = {id(inner): inner, **{id(thing): thing for thing in saved["grid"].grid if thing and thing.type in NEVER_CHANGE}}
    vars(inner).update(deepcopy(saved, same))
    inner.step_count = 0


def situation(inner: Any) -> Situation:
    """Return everything that determines the future of a MiniGrid environment, with sorted objects."""
    things: list[Any] = []
    for i, thing in enumerate(inner.grid.grid):
        if thing is not None and thing.type not in NEVER_CHANGE:
            things += described_objects(thing, (i % inner.grid.width, i // inner.grid.width))
    if inner.carrying is not None:
        things += described_objects(inner.carrying, None)
    return (int(inner.agent_pos[0]), int(inner.agent_pos[1]), int(inner.agent_dir), tuple(sorted(things)))


def described_objects(thing: Any, place: tuple[int, int] | None) -> Iterator[tuple[Any, str]]:
    """Yield an object's name, and its position or state; then the same for its content. place: None if it is carried.

    The name is type, colour and first position, since two objects may look the same.
    """
    if thing.type == "door":
        yield (("door", thing.color, place), "open" if thing.is_open else "locked" if thing.is_locked else "closed")
        return
    origin = () if thing.init_pos is None else tuple(int(i) for i in thing.init_pos)
    yield ((thing.type, thing.color, origin), "carried" if place is None else f"at {place[0]} {place[1]}")
    if thing.contains is not None:
        yield from ((what, f"in {thing.type}") for what, _ in described_objects(thing.contains, place))


def labels_of(things: Sequence[Any]) -> list[str]:
    """Return a short unique name for each object: "key", or if there are several "red key" or "red key 2"."""
    kinds, colours = [what[0] for what in things], [what[:2] for what in things]
    result = []
    for i, (kind, colour) in enumerate(zip(kinds, colours, strict=True)):
        same = f" {colours[:i].count(colour) + 1}" if colours.count(colour) > 1 else ""
        result.append(kind if kinds.count(kind) == 1 else f"{colour[1]} {kind}{same}")
    return result


def features(situations: Sequence[Situation]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the features of situations, and their values in each: x, y, facing, and the state of each object.

    An object that no longer exists (a box that was opened) is "gone".
    """
    things = sorted({what for *_, there in situations for what, _ in there})
    rows = []
    for x, y, direction, there in situations:
        state_of = dict(there)
        rows.append([str(x), str(y), FACING[direction], *(state_of.get(what, "gone") for what in things)])
    return ["x", "y", "facing", *labels_of(things)], rows


def state_names(situations: Sequence[Situation]) -> list[str]:
    """Return a name for each situation, of the features in which some of them differ."""
    labels, rows = features(situations)
    differ = [i for i in range(len(labels)) if len({row[i] for row in rows}) > 1]
    return [", ".join(f"{labels[i]}={row[i]}" for i in differ) for row in rows]


def described(place: Situation) -> str:
    """Return a situation in words, with all its features, for errors."""
    labels, (row,) = features([place])
    return ", ".join(f"{label}={value}" for label, value in zip(labels, row, strict=True))
