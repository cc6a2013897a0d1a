"""Actors: agents that act in a Gymnasium environment. A table, a function, a trained model, or a person at the keyboard.

`run` asks an `Actor` for an action in every step in which it is in control. The learner learns its policy from these actions, so no
table of probabilities is needed. An `Agent`, which has such a table, is needed only to build a TwoLayerMDP; `tabulated` makes an
Agent from a function of the state.
"""

import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np

from cede._base import check
from cede.problem.model import Agent, Team
from cede.problem.task import Task

MOST_SECONDS = 10**6  # of ConsoleAgent's timeout
Act = Callable[[Any, int, np.random.Generator], int]  # act(observation, state, random generator) -> action


@dataclass(frozen=True, eq=False)
class Actor:
    """An agent in a real environment: a name, and a function act(observation, state, rng) that returns the action."""

    name: str
    act: Act

    def __post_init__(self) -> None:
        check.name("Actor", "name", self.name)
        check.function("Actor", "act", self.act, "a function act(observation, state, rng)")


def actor(name: str, how: Any, *, sees: str = "state") -> Actor:
    """Make an Actor of a table, an Agent, a function, or another Actor.

    how: probabilities of the actions in each state, (S, A); or an Agent whose policy does not vary; or a function that returns an
    action, or the probabilities of all actions, (A,). sees: the argument of a function, the "state" or the "observation".
    """
    owner = f"actor {check.name('actor', 'name', name)!r}"
    by_observation = check.choice(owner, "sees", sees, ("state", "observation")) == "observation"
    return Actor(name, act_of(owner, how, by_observation=by_observation))


def act_of(owner: str, how: Any, *, by_observation: bool = False, n_actions: int | None = None) -> Act:
    """Return the function `act` for a table, an Agent, a function or an Actor. by_observation: a function gets the observation.

    n_actions: how many probabilities a function must return; None: not known yet.
    """
    if isinstance(how, Actor):
        return how.act
    if callable(how):

        def act(observation: Any, state: int, rng: np.random.Generator) -> int:
            return action_from_answer(owner, how(observation if by_observation else state), rng, n_actions)

        return act
    table = how.policy if isinstance(how, Agent) else check.probabilities(owner, "policy", how, (None, None), "(S, A)")
    if table.ndim != 2:
        check.fail(owner, "the shape of policy", table.shape, "(S, A): one that does not vary")

    def draw(observation: Any, state: int, rng: np.random.Generator) -> int:
        return int(rng.choice(table.shape[1], p=table[check.index(owner, "state", state, len(table))]))

    return draw


def action_from_answer(owner: str, answer: Any, rng: np.random.Generator, n_actions: int | None) -> int:
    """Return the action in the answer of a function; draw it if the answer is the probabilities of all actions, (A,)."""
    values = np.asarray(answer) if check.ndim(answer) >= 0 else np.empty(0)
    if values.shape == (1,) and values.dtype.kind in "iu":  # an array of one action, as policies for batches return
        return int(values[0])
    if values.ndim == 1:
        chances = check.probabilities(owner, "what it answered", answer, (n_actions,), "(A,)")
        return int(rng.choice(len(chances), p=chances))
    if check.ndim(answer) != 0 or not isinstance(np.asarray(answer)[()], int | np.integer):
        check.fail(owner, "what it answered", check.show(answer), "an action, or the probabilities of all actions")
    return int(answer)


def tabulated(name: str, function: Callable[[int], Any], n_states: int, n_actions: int, *, control_cost: float = 0.0) -> Agent:
    """Make an Agent by calling a function in every state, which returns an action or the probabilities of all actions, (A,)."""
    owner = f"tabulated {check.name('tabulated', 'name', name)!r}"
    check.function(owner, "function", function, "a function of the state")
    rows = np.zeros((check.integer(owner, "n_states", n_states, 1), check.integer(owner, "n_actions", n_actions, 1)))
    for state in range(n_states):
        answer = function(state)
        if check.ndim(answer) == 1:
            rows[state] = check.probabilities(owner, f"what it answered in state {state}", answer, (n_actions,), "(A,)")
        else:
            rows[state, check.index(owner, f"what it answered in state {state}", answer, n_actions)] = 1.0
    return Agent(name, rows, control_cost)


def agent_from_sb3(
    model: Any, encode: Callable[[Any], Any] | None = None, *, name: str = "model", deterministic: bool = False
) -> Actor:
    """Make an Actor of a model of Stable-Baselines3, or of anything with the same `predict`.

    encode: a function from an observation of the environment to the model's input; by default the observation itself.
    deterministic: as in `predict`. If False, actions are drawn with the random numbers of the model's own library: seed it there.
    """
    owner = f"agent_from_sb3 {check.name('agent_from_sb3', 'name', name)!r}"
    deterministic = check.truth(owner, "deterministic", deterministic)
    if encode is not None:
        check.function(owner, "encode", encode, "a function of the observation")
    if isinstance(model, type) or not callable(getattr(model, "predict", None)):
        check.fail(owner, "model", check.show(model), "a model with predict(observation, deterministic=...)")

    def act(observation: Any, state: int, rng: np.random.Generator) -> int:
        action, _ = model.predict(observation if encode is None else encode(observation), deterministic=deterministic)
        values = np.asarray(action).reshape(-1)
        if values.size != 1 or values.dtype.kind not in "iu":
            check.fail(owner, "what the model predicted", check.show(action), "one of the actions: a model for discrete ones")
        return int(values[0])

    return Actor(name, act)


# The input streams that are being read, by id, each with the queue of its lines. The stream is kept so that its id stays in use.
_keyboards: dict[int, tuple[TextIO, "queue.SimpleQueue[str | None]"]] = {}


def keyboard(source: TextIO) -> "queue.SimpleQueue[str | None]":
    """Return a queue of the lines that are typed into a stream, with None at its end. Each stream has one queue.

    A thread reads the stream, since not every system can read with a time limit.
    """
    if id(source) not in _keyboards:
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

        def listen() -> None:
            while isinstance(line := source.readline(), str) and line:
                lines.put(line)
            lines.put(None)

        _keyboards[id(source)] = (source, lines)
        threading.Thread(target=listen, name="cede keyboard", daemon=True).start()
    return _keyboards[id(source)][1]


class ConsoleAgent(Actor):
    """An Actor that asks a person at the keyboard for each action, by its name or number.

    actions: the names of all actions. fallback: acts if there is no answer in time; anything that `actor` takes. timeout: seconds
    for each question, wrong answers included. show: a function show(observation, state) that returns the text of a question; by
    default the state's number. source, target: text streams to read from and to write to; by default those of the terminal. Lines
    that were typed before a question are ignored.

    `taken_by_fallback` counts how often the fallback acted.
    """

    def __init__(
        self,
        name: str,
        actions: Sequence[str],
        fallback: Any,
        *,
        timeout: float = 10.0,
        show: Callable[[Any, int], str] | None = None,
        source: TextIO | None = None,
        target: TextIO | None = None,
    ) -> None:
        owner = f"ConsoleAgent {check.name('ConsoleAgent', 'name', name)!r}"
        names = check.items(owner, "actions", actions, "names, one for each action")
        if not names or not all(isinstance(action, str) and action for action in names):
            check.fail(owner, "actions", check.show(actions), "names, one for each action")
        if show is not None:
            check.function(owner, "show", show, "a function of observation and state")
        self.actions = tuple(names)
        self.fallback = actor(f"{name}, stood in for", fallback)
        self.timeout = check.number(owner, "timeout", timeout, least=0.0)
        if self.timeout > MOST_SECONDS:
            check.fail(owner, "timeout", self.timeout, f"at most {MOST_SECONDS} s")
        self.show = show or (lambda observation, state: f"state {state}")
        for place, stream, method in (("source", source, "readline"), ("target", target, "write")):
            if stream is not None and not callable(getattr(stream, method, None)):
                check.fail(owner, place, check.show(stream), "a text stream")
        self.source, self.target = source, target
        self.taken_by_fallback = 0
        super().__init__(name, self._ask)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # the base class is frozen, but taken_by_fallback changes

    def _ask(self, observation: Any, state: int, rng: np.random.Generator) -> int:
        """Ask the person until there is a valid answer or the time is over; return the action, or that of the fallback."""
        from time import monotonic

        lines = keyboard(sys.stdin if self.source is None else self.source)
        while not lines.empty():  # lines that were typed before the question
            if lines.get() is None:
                lines.put(None)
                break
        choices = ", ".join(f"{i} {name}" for i, name in enumerate(self.actions))
        self._say(f"{self.name}: {self.show(observation, state)}. {choices}? ({self.timeout:g} s) ")
        end = monotonic() + self.timeout
        while True:
            try:
                line = lines.get(timeout=max(0.0, end - monotonic()))
            except queue.Empty:
                self._say("too late\n")
                break
            if line is None:  # the stream has ended
                lines.put(None)
                break
            answer = line.strip()
            if answer in self.actions:
                return self.actions.index(answer)
            if answer.isdecimal() and len(answer) < 10 and int(answer) < len(self.actions):
                return int(answer)
            self._say(f"{answer!r} is none of them. {choices}? ")
        self.taken_by_fallback += 1
        return self.fallback.act(observation, state, rng)

    def _say(self, text: str) -> None:
        target = sys.stdout if self.target is None else self.target
        target.write("\n".join(check.printable(line) for line in text.split("\n")))
        target.flush()


def actors_of(owner: str, team: Any, task: Task) -> list[Actor]:
    """Check a team against a task and return its actors in the order of `task.tables`.

    team: a Team, a sequence of Actors or Agents, or a mapping from names to anything that `actor` takes.
    """
    names = task.tables
    if isinstance(team, Team):
        slow = {f"{agent.name} (taking over)": agent.on_takeover for agent in team.agents if agent.on_takeover is not None}
        team = {agent.name: agent for agent in team.agents} | slow
    elif isinstance(team, Sequence) and not isinstance(team, str):
        for i, member in enumerate(team):
            if not isinstance(member, Actor | Agent):
                check.fail(owner, f"team[{i}]", check.show(member), "an Actor or an Agent; functions and tables need a name")
        team = {member.name: member for member in team}
    if not isinstance(team, Mapping):
        check.fail(owner, "team", check.show(team), "a Team, a sequence of actors, or actors, functions or tables by name")
    if set(team) != set(names):
        expected = f"those whose policies the learner's task has, {sorted(names)}"
        check.fail(owner, "the names of team", sorted(map(str, team)), expected)
    for name, how in team.items():
        table = how.policy if isinstance(how, Agent) else how
        if isinstance(table, np.ndarray | list | tuple):
            shape = check.array(f"actor {name!r}", "policy", table, (None,) * max(check.ndim(table), 1), "(S, A)").shape
            if shape[-1] != task.n_actions:
                check.fail(owner, f"the number of actions of {name!r}", shape[-1], f"{task.n_actions}, as in the task")
            if shape[-2:-1] not in ((task.n_states,), (task.n_states - 1,)):
                expected = f"{task.n_states}, as in the task, or one less without the state after the end"
                check.fail(owner, f"the number of states of {name!r}", shape[-2:-1], expected)
    actors = {name: Actor(name, act_of(f"actor {name!r}", how, n_actions=task.n_actions)) for name, how in team.items()}
    return [team[name] if isinstance(team[name], Actor) else actors[name] for name in names]
