"""Checks whether a learner of one's own keeps the promises of a learner: `check_learner`."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from cede._base import check
from cede.fleet.by_calls import shown_policy
from cede.fleet.simulate import simulate
from cede.learners.protocol import CALLS
from cede.problem.costs import RANGES
from cede.problem.model import Agent, Environment, Team, TwoLayerMDP
from cede.problem.task import Task

OWNER = "check_learner"
EPISODES = 4  # of each check
STEPS = 12  # of a run without horizon that counts as an episode here
Make = Callable[[Task, int], Any]


class BrokenPromise(Exception):
    """One promise that a learner does not keep, as a sentence."""


def check_learner(make: Make, task: Task | None = None, *, seed: int = 0) -> list[str]:
    """Check that a learner of your own keeps the promises of a learner, on small problems that are made up.

    make: a function (task, seed) -> learner, as `cede.compare` takes it. It may raise NotImplementedError for a kind of task that
    the learner is not made for; the problem is then left out. task: the only task to check, without takeover_delay; by default four
    small ones: with a horizon, without one, with ends, with learned costs. seed: of the learners, and of the steps they observe.

    Return the names of the problems that were checked. Raise an AssertionError that lists every broken promise, one sentence each.
    The promises: it has choose, observe and end_episode; choose returns an agent who can get control; observe takes every step,
    also of another agent than was chosen; a plan or policy that it shows has the right shape, and choose keeps to it within an
    episode; the same seed gives the same choices; it goes on after an episode that ended early and after drop_episode, if it has
    that; it runs in `cede.simulate`.
    """
    check.function(OWNER, "make", make, "a function (task, seed) -> learner")
    seed = check.integer(OWNER, "seed", seed, 0, 2**31 - 1)
    tasks = small_tasks() if task is None else {"task": check.instance(OWNER, "task", task, Task)}
    if task is not None and task.modes is not None:
        check.fail(OWNER, "task", "one with takeover_delay", "a task without")
    checked, broken = [], []
    for name, small in tasks.items():
        try:
            make(small, seed)
        except NotImplementedError:
            continue
        except Exception as error:
            broken.append(f"{name}: make(task, seed) raised {said(error)}; it must return a learner")
            continue
        checked.append(name)
        broken += [f"{name}: {sentence}" for sentence in broken_promises(make, small, seed)]
    if not checked and not broken:
        broken.append("make raised NotImplementedError for every task; it must make a learner for at least one")
    if broken:
        number = "1 promise is" if len(broken) == 1 else f"{len(broken)} promises are"
        raise AssertionError("\n- ".join([f"{OWNER}: {number} broken", *broken]))
    return checked


def small_tasks() -> dict[str, Task]:
    """Return the tasks that are checked by default: 3 states, 2 actions, 2 agents."""
    settings: dict[str, Any] = {
        "env_cost": np.array([[0.0, 0.5], [1.0, 0.25], [0.5, 0.5]]),
        "agents": ["machine", "human"],
        "control_cost": {"human": 0.25},
        "switch_cost": 0.125,
    }
    known = Task(**settings, horizon=5)
    return {
        "with a horizon": known,
        "without a horizon": Task(**settings, horizon=None, discount=0.9),
        "with ends": Task(**settings, horizon=5, terminal=[2], enter_cost=[0.0, 0.0, 1.0]),
        "with learned costs": known.with_unknown_costs((0.0, 1.0)),
    }


def broken_promises(make: Make, task: Task, seed: int) -> list[str]:
    """Return the promises that learners for a task do not keep, as sentences; each once."""
    learner = make(task, seed)
    missing = [name for name in CALLS if not callable(getattr(learner, name, None))]
    if missing or isinstance(learner, type):
        what = "a class" if isinstance(learner, type) else f"{check.show(learner)}, which has no {' and no '.join(missing)}"
        return [f"make returned {what}; it must return an object with choose, observe and end_episode"]
    sentences: list[str] = []
    for promise in (plays_episodes, takes_steps_of_others, repeats_itself, survives_early_end, survives_drop, runs_in_simulate):
        try:
            promise(make, task, seed)
        except BrokenPromise as error:
            sentences.append(str(error))
            if promise is plays_episodes:  # the others would only repeat it
                break
    return list(dict.fromkeys(sentences))


def plays_episodes(make: Make, task: Task, seed: int) -> None:
    """Play whole episodes; every choice and every shown policy is checked."""
    driver = Driver(make, task, seed)
    for _ in range(EPISODES):
        driver.play()


def takes_steps_of_others(make: Make, task: Task, seed: int) -> None:
    """Play episodes in which other agents act than those that were chosen."""
    driver = Driver(make, task, seed, " where another agent acted than was chosen", overrules=True)
    for _ in range(EPISODES):
        driver.play()


def repeats_itself(make: Make, task: Task, seed: int) -> None:
    """Compare the choices of two learners that have the same seed and observe the same steps."""
    first_driver, second_driver = (Driver(make, task, seed) for _ in range(2))
    for episode in range(EPISODES):
        for t, (first, second) in enumerate(zip(first_driver.play(), second_driver.play(), strict=False)):
            if first != second:
                chose = f"two learners with seed {seed} chose {first} and {second} in step {t} of episode {episode}"
                broken(f"{chose}; the same seed must give the same choices")


def survives_early_end(make: Make, task: Task, seed: int) -> None:
    """End an episode after its first step, and go on."""
    driver = Driver(make, task, seed, " of an episode that ends after one step")
    driver.play(1)
    driver.when = " after an episode that ended after one step"
    driver.play()


def survives_drop(make: Make, task: Task, seed: int) -> None:
    """Drop an episode in the middle, if the learner has drop_episode, and go on."""
    driver = Driver(make, task, seed)
    if callable(getattr(driver.learner, "drop_episode", None)):
        driver.play()
        driver.play(2, end="drop_episode")
        driver.when = " after drop_episode"
        driver.play()


def runs_in_simulate(make: Make, task: Task, seed: int) -> None:
    """Run a learner in `simulate`."""
    mdp, learner = uniform_problem(task), make(task, seed)
    length = {"steps": 2 * STEPS} if task.horizon is None else {"episodes": EPISODES}
    try:
        simulate(mdp, learner, **length, seed=seed, progress=False)
    except Exception as error:
        broken(f"cede.simulate raised {said(error)}; the learner must run in it")


class Driver:
    """Drives a learner for a task through episodes in which actions and next states are uniformly random.

    when: words for the sentences that say what is broken. overrules: let other agents act than those that were chosen.
    """

    def __init__(self, make: Make, task: Task, seed: int, when: str = "", *, overrules: bool = False) -> None:
        self.learner, self.task, self.when, self.overrules = make(task, seed), task, when, overrules
        self.rng = np.random.default_rng(seed)

    def call(self, name: str, form: str, *args: Any, **named: Any) -> Any:
        """Call a method of the learner. form: its arguments in words, for the sentence that says that it raised an error."""
        try:
            return getattr(self.learner, name)(*args, **named)
        except Exception as error:
            broken(f"{name} raised {said(error)}{self.when}; it must take {name}({form})")

    def play(self, most: int | None = None, end: str = "end_episode") -> list[int]:
        """Play one episode; return the choices. most: the number of steps; by default the whole episode. end: the last call."""
        task, time, chosen = self.task, "t, " if self.task.horizon is not None else "", []
        state, agent = int(self.rng.choice(np.flatnonzero(~task.is_terminal))), int(task.start_agent)
        policy = self.shown()
        for t in range(min(most or STEPS, task.horizon or STEPS)):
            if not time:
                policy = self.shown()
            at, prev_agent = ((t,) if time else ()), agent
            agent = self.checked(self.call("choose", f"{time}state, prev_agent", *at, state, prev_agent), (*at, state, prev_agent))
            said_so = agent if policy is None else int(policy[(*(at or (0,)), state, prev_agent)])
            if agent != said_so:
                place = self.place((*at, state, prev_agent))
                expected = "it must keep to that policy in the whole episode, or show none"
                broken(f"choose returned {agent} at {place}, but the policy that it shows says {said_so}; {expected}")
            chosen.append(agent)
            if self.overrules:
                agent = int(self.rng.choice(np.flatnonzero(task.may_choose(state, prev_agent))))
            action, next_state = int(self.rng.integers(task.n_actions)), int(self.rng.integers(task.n_states))
            arriving = 0.0 if task.enter_cost is None else task.enter_cost[next_state]
            stated = (task.env_cost[state, action], arriving, *task.control_costs(state, prev_agent, agent))
            ranges = (getattr(task, argument) for argument in RANGES.values())
            costs = dict(zip(task.charges, map(self.cost, stated, ranges), strict=False))
            form = f"{time}state, prev_agent, agent, action, next_state, {'=..., '.join(costs)}=..."
            self.call("observe", form, *at, state, prev_agent, agent, action, next_state, **costs)
            state = next_state
            if task.is_terminal[state]:
                break
        self.call(end, "")
        return chosen

    def cost(self, stated: float, ends: tuple[float, float] | None) -> float:
        """Return a cost that the task states; if it is not known, a random one between its ends."""
        return float(stated) if ends is None or not np.isnan(stated) else float(self.rng.uniform(*ends))

    def shown(self) -> Any:
        """Return the policy that the learner shows, (L, S, D) or (1, S, D) without a horizon; None if it shows none."""
        try:
            return shown_policy(self.task, self.learner)
        except Exception as error:
            shape = "x".join(map(str, self.task.policy_shape))
            broken(f"the plan or policy that it shows is wrong: {said(error)}; it must be {shape} agents, or None")

    def place(self, place: tuple[int, ...]) -> str:
        """Return the arguments of choose in words."""
        names = ("t", "state", "prev_agent")[-len(place) :]
        return ", ".join(f"{name} {value}" for name, value in zip(names, place, strict=True)) + self.when

    def checked(self, choice: Any, place: tuple[int, ...]) -> int:
        """Return the index of the agent that choose returned: one who can get control."""
        task, names = self.task, ", ".join(map(repr, self.task.agents))
        try:
            agent = task.agent_index(OWNER, "agent", choice)
        except ValueError:
            expected = f"it must return an agent: an index from 0 to {task.n_agents - 1}, or a name, {names}"
            broken(f"choose returned {check.show(choice)} at {self.place(place)}; {expected}")
        if not task.may_choose(place[-2], place[-1])[agent]:
            expected = "it must return an agent to whom prev_agent can hand control"
            broken(f"choose returned {agent} at {self.place(place)}; {expected}")
        return agent


def uniform_problem(task: Task) -> TwoLayerMDP:
    """Return a problem with this task in which all next states and all actions have the same probability.

    Costs that the task does not state are in the middle of their range.
    """
    n, a = task.n_states, task.n_actions
    tables = np.full((n, a, n) if task.periods is None else (task.n_periods, n, a, n), 1.0 / n)
    cost = middle(task.env_cost, task.cost_range)
    start = (~task.is_terminal) / (~task.is_terminal).sum()
    more: dict[str, Any] = {"terminal": task.terminal, "periods": task.periods}
    more |= {} if task.enter_cost is None else {"enter_cost": middle(task.enter_cost, task.enter_cost_range)}
    environment = Environment(tables, cost, start, **more, state_names=task.state_names, action_names=task.action_names)
    control, switching = (middle(getattr(task, name), getattr(task, RANGES[name])) for name in ("control_cost", "switch_cost"))
    agents = [
        Agent(name, np.full(task.slot_shape(i), 1.0 / a), control[..., i], varies_with=kind)
        for i, (name, kind) in enumerate(zip(task.agents, task.varies_with or (), strict=True))
    ]
    team = Team(agents, switching, grab_cost=task.grab_cost)
    return TwoLayerMDP(environment, team, task.horizon, task.start_agent, discount=task.discount)


def middle(stated: Any, ends: tuple[float, float] | None) -> Any:
    """Return costs, with the middle of their range where they are not known."""
    return stated if ends is None else np.where(np.isnan(stated), (ends[0] + ends[1]) / 2, stated)


def said(error: Exception) -> str:
    """Return the type and the words of an error on one line."""
    return f"{type(error).__name__} ({' '.join(str(error).split())})"


def broken(sentence: str) -> NoReturn:
    """Report a broken promise."""
    raise BrokenPromise(sentence)
