"""Replays a data set in which the outcome of every agent is logged for every item: an online problem without a model.

Regret is realised cost minus that of the best fixed choice in hindsight: for each state one agent, the same in the whole data set.
It is exact for the data set. If hand-overs are free, this choice is the cheapest agent of each state; else it is improved state by
state from there and from each agent alone, until no change of one state lowers the cost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Floats, Ints, read_only
from cede._base.calls import clear_call
from cede._base.progress import Progress
from cede._base.reprs import listed, plural, short_repr
from cede.fleet.history import History
from cede.learners.protocol import checked_learner, drop_episode, settings_of
from cede.problem.task import Task
from cede.steps.cost import Account
from cede.steps.loop import play
from cede.steps.step import Step

OVER = "over"  # the state after the last item of an episode
IN_HINDSIGHT = "realised, against the best fixed choice of each state in hindsight, on the same items"
ORDERS = ("shuffled", "given")


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """A data set as an online problem, for `simulate` and `compare`. `replay` makes it. N items in K episodes, D agents."""

    task: Task  # the input of a learner; the last state is the end of an episode
    state: Ints  # (N,) the items of an episode are together, in order
    action: Ints  # (N, D) the outcome of each agent
    cost: Floats  # (N, D) what the environment charges for it
    begins: Ints  # (K + 1,) the first item of each episode, and N
    choice: Ints  # (S,) the agent of each state in the best fixed choice in hindsight; that of the last state has no meaning
    best: Floats  # (K,) cost of each episode by that choice
    alone: Floats  # (D,) mean cost of an episode by each agent alone
    order: str  # "shuffled": episodes come in an order drawn by the seed; "given": as in the data

    structure = None  # none is declared

    @property
    def horizon(self) -> int:
        """Return the number of items of the longest episode."""
        return int(self.task.horizon)

    @property
    def discount(self) -> None:
        """Return None: costs are not discounted."""

    @property
    def episodes(self) -> int:
        """Return the number of episodes, K."""
        return len(self.best)

    def __repr__(self) -> str:
        def parts() -> tuple[str, ...]:
            items = f"{plural(len(self.state), 'item')} in {plural(self.episodes, 'episode')}"
            best = f"best in hindsight {self.best.mean():.4g} an episode"
            return items, plural(self.task.n_states - 1, "state"), f"agents: {listed(self.task.agents)}", best

        return short_repr(self, parts)

    def run(self, learner: Any, episodes: int, seed: Any, progress: bool | Callable[[int], None]) -> History:
        """Do the work of `simulate`: present episodes to any learner, and return costs and regret in hindsight."""
        rng, task = check.generator("simulate", "seed", seed), self.task
        chosen = (rng.permutation(self.episodes) if self.order == "shuffled" else np.arange(self.episodes))[:episodes]
        cost, control = np.empty(episodes), np.empty((episodes, task.n_agents), dtype=np.int64)
        switches, player = np.empty(episodes, dtype=np.int64), ReplayPlayer(self, checked_learner("simulate", learner))
        with Progress(type(learner).__name__, episodes, progress) as bar:
            for k, episode in enumerate(chosen.tolist()):
                account = Account(task)
                try:
                    first = player.begin(episode)
                    play(player, account, int(self.state[first]), int(task.start_agent), None)
                    learner.end_episode()
                except BaseException:
                    drop_episode(learner)
                    raise
                cost[k], control[k], switches[k] = account.cost, account.control, account.switches
                bar.advance(1)
        best = self.best[chosen]
        settings = {**settings_of(learner), "regret": IN_HINDSIGHT, "order": self.order}
        settings["simulation_seed"] = "generator" if isinstance(seed, np.random.Generator) else int(seed)
        return History(
            cost=cost,
            control=control,
            switches=switches,
            agents=task.members,
            settings=settings,
            regret=np.cumsum(cost - best),
            expected_cost=np.full(episodes, np.nan),
            optimum=float(best.mean()),
        )


class ReplayPlayer:
    """A data set as a `World` in which a learner plays."""

    def __init__(self, data: Replay, learner: Any) -> None:
        self.data, self.task, self.learner, self.first, self.end = data, data.task, learner, 0, 0

    def begin(self, episode: int) -> int:
        """Begin an episode; return its first item."""
        self.first, self.end = int(self.data.begins[episode]), int(self.data.begins[episode + 1])
        return self.first

    def choose(self, t: int, state: int, prev_agent: int) -> int:
        """Let the learner choose, and check its choice."""
        return self.task.agent_index("simulate", "what choose answered", self.learner.choose(t, state, prev_agent))

    def act(self, t: int, state: int, prev_agent: int, agent: int) -> tuple[Step, bool]:
        """Return the logged step of an agent, and whether the episode is over."""
        item, over = self.first + t, self.first + t + 1 == self.end
        to = self.task.n_states - 1 if over else int(self.data.state[item + 1])
        return Step(t, state, prev_agent, agent, int(self.data.action[item, agent]), to, float(self.data.cost[item, agent])), over

    def charged(self, step: Step) -> dict[str, float]:
        """Return the costs of the environment."""
        return {"cost": step.cost, "enter_cost": step.enter_cost}


@clear_call
def replay(
    states: ArrayLike,
    cost: ArrayLike | None = None,
    *,
    outcomes: ArrayLike | None = None,
    outcome_cost: ArrayLike | None = None,
    episode: ArrayLike | None = None,
    agents: Sequence[str] | None = None,
    control_cost: Any = 0.0,
    switch_cost: Any = 0.0,
    start_agent: Any = 0,
    state_names: Sequence[str] | None = None,
    outcome_names: Sequence[str] | None = None,
    order: str = "shuffled",
) -> Replay:
    """Make an online problem of a data set with what every agent did, or would have done, on every item: for `simulate`, `compare`.

    states: (N,), the state of each item, numbers from 0 (an encoder returns them: `encoder.states(frame)`) or names. Give one of

    - cost: (N, D), what each agent's answer to each item costs. A learner is not told these costs; it sees those of its choices.
    - outcomes: (N, D), the outcome of each agent, whole numbers from 0 or truth values, and outcome_cost: (A,), known, what each
      outcome costs, as in [1.0, 0.0] for wrong and right.

    Both may be given: outcomes without outcome_cost, with the cost of each item. episode: (N,), which items belong together, such
    as the turns of a conversation; their order is kept. None: each item is an episode. agents: D names. control_cost, switch_cost,
    start_agent, state_names: as for `Task`. outcome_names: A names. order: of the episodes, "shuffled" by the seed of a run, or
    "given". A run has at most as many episodes as the data.

    Items must not depend on the agent who acted before them: what is replayed next is what was logged. Regret is against the best
    fixed choice of each state in hindsight (`Replay.choice`), on the same items.
    """
    owner = "replay"
    number, names = checked_states(owner, states, state_names)
    action, charged, known, n_actions = checked_outcomes(owner, len(number), cost, outcomes, outcome_cost)
    n, d = action.shape
    who = tuple(f"agent {i}" for i in range(d)) if agents is None else check.items(owner, "agents", agents, "names of the agents")
    if len(who) != d:
        check.fail(owner, "the number of agents", len(who), f"{d}, one for each column")
    check.choice(owner, "order", order, ORDERS)
    keys = list(range(n)) if episode is None else check.items(owner, "episode", episode, "the episode of each item")
    if len(keys) != n:
        check.fail(owner, "the length of episode", len(keys), f"{n}, one for each item")
    place: dict[Any, int] = {}
    for i, key in enumerate(keys):
        if check.is_missing(key) or isinstance(key, list | dict | set | np.ndarray):
            check.fail(owner, f"episode[{i}]", check.show(key), "a number or a name")
        place.setdefault(key, len(place))
    episodes = np.array([place[key] for key in keys], dtype=np.int64)
    items = np.argsort(episodes, kind="stable")
    begins = np.r_[0, np.cumsum(np.bincount(episodes, minlength=len(place)))]
    ends = (float(charged.min()), float(charged.max()))
    costs: dict[str, Any] = {"cost_range": (ends[0], max(ends[1], ends[0] + 1e-9))} if known is None else {}
    stated = None if known is None else np.vstack([np.tile(known, (len(names), 1)), np.zeros(n_actions)])
    task = Task(
        env_cost=stated,
        n_states=len(names) + 1,
        n_actions=n_actions,
        agents=who,
        horizon=int(np.diff(begins).max()),
        control_cost=control_cost,
        switch_cost=switch_cost,
        start_agent=start_agent,
        state_names=[*names, OVER if OVER not in names else "the end"],
        action_names=outcome_names if outcomes is not None else [f"answer of {name}" for name in who],
        terminal=[len(names)],
        **costs,
    )
    if task.n_agents != d or np.isinf(task.switch_cost).any():
        check.fail(owner, "switch_cost", "infinite for some hand-overs", "finite: items are logged as if all were possible")
    data = {"state": number[items], "action": action[items], "cost": charged[items], "begins": begins}
    none: Any = np.empty(0)
    raw = Replay(task, **{name: read_only(array) for name, array in data.items()}, choice=none, best=none, alone=none, order=order)
    choice, alone = best_choice(raw)
    best = costs_of_choice(raw, choice)
    return replace(raw, choice=read_only(choice), best=read_only(best), alone=read_only(alone))


def checked_states(owner: str, states: Any, names: Any) -> tuple[Ints, tuple[str, ...]]:
    """Check the states of items; return their numbers, and the names of all states."""
    given = check.unmasked(owner, "states", states)
    if given is None or given.ndim != 1 or not given.size:
        check.fail(owner, "states", check.show(states), "the state of each item, (N,)")
    if given.dtype.kind in "OUST":
        texts = [check.name(owner, f"states[{i}]", value) for i, value in enumerate(given.tolist())]
        known = sorted(set(texts)) if names is None else check.items(owner, "state_names", names, "a sequence of names")
        place = {name: i for i, name in enumerate(known)}
        for i, text in enumerate(texts):
            if text not in place:
                check.fail(owner, f"states[{i}]", check.show(text), check.one_of(known, text))
        return np.array([place[text] for text in texts], dtype=np.int64), tuple(known)
    numbers = check.integers(owner, "states", given, 1)
    size = int(numbers.max()) + 1 if names is None else len(check.items(owner, "state_names", names, "a sequence of names"))
    if numbers.min() < 0 or numbers.max() >= size:
        check.fail(owner, "states", check.show(numbers.tolist()), f"integers from 0 to {size - 1}")
    return numbers, tuple(f"state {s}" for s in range(size)) if names is None else tuple(names)


def checked_outcomes(owner: str, n: int, cost: Any, outcomes: Any, outcome_cost: Any) -> tuple[Ints, Floats, Floats | None, int]:
    """Check outcomes and costs; return the action and the cost of each agent for each item, the known costs of actions, (A,), or
    None if they are to be learned, and the number of actions.
    """
    if (cost is None) == (outcome_cost is None) or (outcome_cost is not None and outcomes is None):
        got = "given" if cost is not None else "left out"
        check.fail(owner, "cost", got, "given, (N, D), or else outcomes, (N, D), with outcome_cost, (A,)")
    charged = None if cost is None else check.array(owner, "cost", cost, (n, None), "(N, D)")
    if outcomes is None:
        assert charged is not None
        return np.tile(np.arange(charged.shape[1]), (n, 1)), charged, None, charged.shape[1]
    given = check.unmasked(owner, "outcomes", outcomes)
    action = check.integers(
        owner, "outcomes", given.astype(np.int64) if given is not None and given.dtype.kind == "b" else given, 2
    )
    if action.shape != ((n, action.shape[1]) if charged is None else charged.shape) or action.min(initial=0) < 0:
        sizes = f"(N, D) = ({n}, D)" if charged is None else str(charged.shape)
        check.fail(owner, "outcomes", f"of shape {action.shape}", f"integers from 0 of shape {sizes}")
    if charged is not None:
        return action, charged, None, max(int(action.max()) + 1, 1)
    known = check.array(owner, "outcome_cost", outcome_cost, (None,), "(A,)")
    if action.max() >= len(known):
        check.fail(owner, "outcomes", int(action.max()), f"below {len(known)}, the number of outcome_cost")
    return action, known[action], known, len(known)


def costs_of_choice(data: Replay, choice: Ints) -> Floats:
    """Return the cost of each episode if the agent depends on the state alone, (K,). choice: (S,)."""
    task, agent = data.task, choice[data.state]
    before = np.r_[task.start_agent, agent[:-1]]
    before[data.begins[:-1]] = task.start_agent
    control, switch = task.control_costs(data.state, before, agent)
    cost = data.cost[np.arange(len(agent)), agent] + control + switch
    result: Floats = np.add.reduceat(cost, data.begins[:-1])
    return result


def best_choice(data: Replay) -> tuple[Ints, Floats]:
    """Return the best fixed choice in hindsight, (S,), and the mean cost of an episode by each agent alone, (D,)."""
    task, agents = data.task, range(data.task.n_agents)
    control = np.broadcast_to(task.control_cost, (task.n_states, task.n_agents))
    total = np.zeros((task.n_states, task.n_agents))
    np.add.at(total, data.state, data.cost + control[data.state])
    alone = [np.full(task.n_states, agent) for agent in agents]
    costs_alone = np.array([costs_of_choice(data, choice).mean() for choice in alone])
    found: list[tuple[float, Ints]] = []
    for choice in (np.argmin(total, axis=1), *(alone if task.switch_cost.any() else ())):
        found.append(improved(data, choice.copy()) if task.switch_cost.any() else (0.0, choice))
    return min(found, key=lambda pair: pair[0])[1], costs_alone


def improved(data: Replay, choice: Ints) -> tuple[float, Ints]:
    """Improve a choice state by state until no change of one state lowers the cost; return the cost and the choice."""
    lowest, changed = float(costs_of_choice(data, choice).sum()), True
    while changed:
        changed = False
        for s in np.unique(data.state):
            for agent in range(data.task.n_agents):
                other = choice.copy()
                other[s] = agent
                cost = float(costs_of_choice(data, other).sum())
                if cost < lowest - 1e-9 * abs(lowest):
                    lowest, choice, changed = cost, other, True
    return lowest, choice
