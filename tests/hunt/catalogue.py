"""Every public callable, with valid arguments, what each argument may be, and the words by which an error may name it."""

import io
import tempfile
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

import cede
from cede.beliefs.belief import Belief, CostBelief
from cede.beliefs.scale import StepDown
from cede.planning.flatten import flatten
from cede.planning.passes import Plan, set_threads
from cede.planning.planner import optimistic_plan
from cede.rows.stored import Counts
from cede.rows.working import count
from cede.steps.importing import import_log
from cede.steps.recorder import Recorder
from cede.steps.step import Episode
from hunt.values import (
    AnyText,
    Array,
    ByName,
    Choice,
    Delay,
    Factor,
    FilePath,
    Flag,
    Function,
    Instance,
    Integer,
    Kind,
    Listed,
    Name,
    Names,
    Number,
    Seed,
    Sequence,
    Source,
    optional,
)

# Records that functions return. They hold what they are given, and nothing trusts them.
RECORDS = {
    "Bounds",
    "History",
    "Estimate",
    "Explanation",
    "Summary",
    "LearnerReport",
    "StructureCheck",
    "SuggestedStructure",
    "GymHistory",
    "MiniGridStates",
}
NOT_CALLED = {"UnreadableFile", "__version__", "support_desk"}  # the last has no arguments
NOT_CALLED |= {"encode", "engines", "gym", "insight", "testing", "worlds"}  # modules
NOT_CALLED |= {"Encoder", "FrameEncoder"}  # what encoders have in common; what `from_frame` makes

S, A, D, L = 3, 2, 2, 4


@dataclass
class Call:
    """A valid call."""

    function: object
    arguments: dict  # name -> (value, Kind)
    subject: object = None  # a learner or fleet that must stay as it is if the call is refused
    words: dict = field(default_factory=dict)  # name -> words, one of which must be in an error about it; by default the name

    def run(self, **changed):
        return self.function(**{**{name: value for name, (value, _) in self.arguments.items()}, **changed})


WORDS = {"known_agents": ("known_agents", "known agent"), "agents": ("agents", "start_agent"), "labels": ("labels",)}


def words_of(call, name):
    return call.words.get(name, WORDS.get(name, (name,)))


@cache
def transition():
    p = np.zeros((S, A, S))
    p[:, 0, :] = [0.5, 0.25, 0.25]
    p[:, 1, :] = [0.0, 0.5, 0.5]
    return p


@cache
def policies():
    return {"machine": np.array([[1.0, 0.0]] * S), "human": np.array([[0.25, 0.75], [0.5, 0.5], [0.0, 1.0]])}


@cache
def mdp(delay=0, seed=0):
    environment = cede.Environment(transition(), np.array([[0.5, 1.0], [0.25, 2.0], [1.0, 0.0]]), [0.5, 0.5, 0.0])
    human = cede.Agent("human", policies()["human"], 0.25, takeover_delay=delay)
    team = cede.Team([cede.Agent("machine", policies()["machine"]), human], 0.125)
    return cede.TwoLayerMDP(environment, team, L, structure=structure())


@cache
def structure():
    to = np.broadcast_to(np.arange(S), (S, A, S))
    return cede.Structure({"human": [0, 1, 0]}, cede.Outcomes.of(np.tile([0, 1], (S, 1)), to))


def task():
    return mdp().task


def plan():
    return cede.solve(mdp())


def learner(kind="ucrl2_mc", episodes=3, **told):
    made = getattr(cede, kind)(task(), **told)
    if episodes:
        cede.simulate(mdp(), made, episodes, progress=False)
    return made


@cache
def endless():
    return replace(mdp(), horizon=None, discount=0.75)


@cache
def average():
    return replace(mdp(), horizon=None)


@cache
def ends():
    """With an end, a cost of arriving, costs that depend on the state, a discount and a table for the second half."""
    tables = np.stack([transition(), transition()[:, ::-1]])
    environment = cede.Environment(
        tables, [0.5, 0.25, 1.0], [0.5, 0.5, 0.0], terminal=[2], enter_cost=[0.0, 0.5, 1.0], periods=[0, 0, 1, 1]
    )
    human = cede.Agent("human", policies()["human"], [0.25, 0.5, 0.0])
    return cede.TwoLayerMDP(environment, cede.Team([cede.Agent("machine", policies()["machine"]), human], 0.125), L, discount=0.75)


def endless_learner(steps=40, **told):
    made = cede.ucrl2_mc(endless().task.with_unknown_costs((0.0, 2.0)), scale=0.1, **told)
    cede.simulate(endless(), made, steps=steps, progress=False)
    return made


def rested(one):
    one.end_episode()
    return one


def begun(one):
    one.observe(0, 1, 1, 1, 1, 1)
    return one


class Stranger:
    """A learner that is not cede's own."""

    def choose(self, t, state, prev_agent):
        return prev_agent

    def observe(self, t, state, prev_agent, agent, action, next_state, *, cost, enter_cost):
        pass

    def end_episode(self):
        pass


def unknown_learner(**told):
    made = cede.ucrl2_mc(task().with_unknown_costs((0.0, 2.0)), **told)
    cede.simulate(mdp(), made, 3, progress=False)
    return made


def team_learner():
    known = np.where(np.eye(len(task().agents), dtype=bool), 0.0, task().switch_cost)
    told = {"control_cost": np.full(len(known), np.nan), "switch_cost": known, "control_cost_range": (0.0, 2.0)}
    return cede.ucrl2_mc(replace(task(), **told))


def fleet(n=2, episodes=2):
    made = cede.Fleet([cede.ucrl2_mc(task(), seed=i) for i in range(n)])
    if episodes:
        cede.simulate_fleet([mdp()] * n, made, episodes, jobs=1, progress=False)
    return made


def episode(seed=3):
    return cede.rollout(mdp(), plan(), seed)


def log():
    rolled = [episode(seed) for seed in (1, 2)]
    columns = {"state": [], "agent": [], "action": [], "next_state": [], "t": []}
    for one in rolled:
        parts = (one.states[:-1], one.agents, one.actions, one.states[1:], np.arange(L))
        for column, part in zip(columns.values(), parts, strict=True):
            column.extend(part.tolist())
    return {name: np.array(column) for name, column in columns.items()}


def somewhere(suffix=".cede"):
    return Path(tempfile.mkdtemp(prefix="cede-hunt-")) / f"file{suffix}"


def saved():
    where = somewhere()
    learner().save(where)
    return where


@cache
def recorded():
    where = somewhere(".jsonl")
    with cede.ucrl2_mc(task()).record_to(where):
        pass
    return where


class Log(Kind):
    def own_bad(self, value, rng):
        name = list(value)[rng.integers(len(value))]
        column = value[name]
        found = [
            {**value, name: column[:-1]},
            {**value, name: column * 1.5 + 0.25},
            {**value, name: column + 1000},
            {},
            "x",
            3,
            [3],
        ]
        found += [
            {**value, name: -column - 1},
            {**value, name: np.ma.masked_array(column, mask=True)},
            {**value, name: column + 1j},
        ]
        found += [{**value, name: [None] * len(column)}, {**value, name: column[:, None]}]
        if name != "t":
            found.append({k: v for k, v in value.items() if k != name})
        return found

    def same(self, value, rng):
        import pandas

        forms = [pandas.DataFrame(value), {name: column.tolist() for name, column in value.items()}]
        return forms[rng.integers(len(forms))]


class Encoders(Sequence):
    def own_bad(self, value, rng):
        return [*super().own_bad(value, rng), [lambda x: 0]]


class Values(Sequence):
    """Names that each of two inputs may be."""

    def own_bad(self, value, rng):
        return [3, "ab", [], [[], ["a"]], [["a", "a"], ["c"]], [["a", 3], ["c"]], [["a", ""], ["c"]], ["ab"]]


class Titles(Kind):
    """The name of an input, or the names of several."""

    def own_bad(self, value, rng):
        return [3, None, [], ["a", "a"], ["a", ""], ["a", 3], "", b"ab"]

    def allows(self, value):
        return isinstance(value, str)

    def same(self, value, rng):
        return tuple(value)


class Table(Kind):
    """A data frame, as columns by name."""

    def own_bad(self, value, rng):
        missing = {**value, "load": np.full(9, np.nan)}
        return [
            3,
            "x",
            None,
            {},
            [1, 2],
            np.zeros(3),
            {1: [1, 2]},
            {"load": []},
            {"load": [1.0, np.nan]},
            {**missing, "load": [np.inf] * 9},
        ]

    def same(self, value, rng):
        import pandas

        return pandas.DataFrame(value)


class SomeColumns(Kind):
    def own_bad(self, value, rng):
        return [3, "ab", ["nothing"], [3], [["load"]]]

    def same(self, value, rng):
        return tuple(value)


class AnyTable(Kind):
    """A table whose rows may be wrong."""

    def own_bad(self, value, rng):
        return [3, "x", None, 2.5]


class About(Kind):
    """Anything by name."""

    def own_bad(self, value, rng):
        return [3, "x", [("a", 1)], ["seed"]]


class Title(Kind):
    """A name, or None."""

    optional = True

    def own_bad(self, value, rng):
        return ["", 3, b"name", ["x"]]

    def allows(self, value):
        return isinstance(value, str)


class Columns(Kind):
    def own_bad(self, value, rng):
        return [3, "ab", [[0]], [[0, 1], [2]], [[0, 1], [-1, 2]], [[0, 1], [1, 5]], [[0.5, 1], [1, 2]], [[0, 1]]]


class StateFeatures(Kind):
    def own_bad(self, value, rng):
        wrong = [
            [*value[:-1], value[0]],
            value[:-1],
            [*value, (2, 2)],
            [(0,), (1, 0), (1, 1)],
            [(), (), ()],
            [(0.5, 1), *value[1:]],
        ]
        return [*wrong, "x", 3, {0: value}, [(None, 1), *value[1:]], np.array(value) * 1j, np.full((S, 2), np.nan), None]

    def same(self, value, rng):
        return [np.array(value), tuple(value), [list(row) for row in value], np.array(value, dtype=float)][rng.integers(4)]


class SwitchCost(Number):
    """A number or a (D, D) array, with infinity where a hand-over is not possible."""

    def own_bad(self, value, rng):
        return [
            np.zeros((D + 1, D)),
            np.full((D, D), np.nan),
            np.full((D, D), np.inf),
            np.full((D, D), -np.inf),
            "x",
            np.nan,
            [1.0],
        ]


class Agents(Sequence):
    def own_bad(self, value, rng):
        return [*super().own_bad(value, rng), [value[0], value[0]], "ab"]


class AnyPath(Kind):
    """A path that is not opened yet."""

    def own_bad(self, value, rng):
        return [3, True, "", "a\0b", ["x"], b"name", Path("/")]

    def allows(self, value):
        return isinstance(value, str)


class Varies(Kind):
    def own_bad(self, value, rng):
        return [[None], ["time", "weather"], 3, "ab", [None, None, None]]


class Takers(Kind):
    def own_bad(self, value, rng):
        return [["nobody"], [3], "human", 3, {"human": 1}]


class Episodes(Sequence):
    def own_bad(self, value, rng):
        return [3, [None], [*value, 3], [object()], {"x": 1}, "ab"]

    def allows(self, value):
        return isinstance(value, np.ndarray) and value.ndim > 0 and not len(value)


class Edges(Sequence):
    def allows(self, value):
        return isinstance(value, list)  # the ragged one is a valid pair of borders


class Grouping(Kind):
    def own_bad(self, value, rng):
        return ["(", 3, ["x"], b"x"]

    def allows(self, value):
        return callable(value) or isinstance(value, str)


class Progress(Kind):
    def own_bad(self, value, rng):
        return [None, 3, "yes", 1.5, [True]]

    def allows(self, value):
        return callable(value)


class Compared(Kind):
    """Worlds or learners by name."""

    def own_bad(self, value, rng):
        name, one = next(iter(value.items()))
        wrong = [3, None, "nothing", ("nothing", {}), ("greedy", 3), ("riverswim", {"nothing": 3}), lambda *_: 3]
        return [{}, [], "x", 3, {"": one}, {3: one}, ["x", "x"], *({name: what} for what in wrong)]


class AnyItems(Kind):
    def own_bad(self, value, rng):
        return [3, 2.5, "ab"]

    def allows(self, value):
        return hasattr(value, "__iter__") and not isinstance(value, str | bytes)


class How(Array):
    """Probabilities, or a function."""

    def allows(self, value):
        return callable(value)


class Unknown(Array):
    """Costs, NaN where they are not known, or one number for all."""

    def allows(self, value):
        return super().allows(value) or (isinstance(value, int) and not isinstance(value, bool))

    def own_bad(self, value, rng):
        return [value[..., None], value[:-1], np.full_like(value, np.inf), np.full_like(value, -np.inf), "x", object()]


class Ranges(Kind):
    """The least and the most that something can be."""

    def own_bad(self, value, rng):
        return [(1.0, 0.0), (0.0, 0.0), (0.0,), 3.0, "ab", (0.0, np.inf), (np.nan, 1.0), (0.0, 1.0, 2.0), ("0", "1")]

    def allows(self, value):
        return isinstance(value, list | tuple | np.ndarray) and getattr(value, "ndim", 1) == 1 and len(value) == 2


class Ends(Kind):
    """States in which episodes end."""

    def own_bad(self, value, rng):
        return [[S], [-1], 3, "ab", [0.5], ["nowhere"], list(range(S)), [None]]

    def allows(self, value):
        return (isinstance(value, list | tuple | set | dict) or (isinstance(value, np.ndarray) and value.ndim > 0)) and not len(
            value
        )


class OneForEach(Array):
    """An array with one number for each agent, or one number for all."""

    def allows(self, value):
        return super().allows(value) or (isinstance(value, int) and not isinstance(value, bool))


class Costs(Number):
    """A number, or an array with one for each agent."""

    def allows(self, value):
        return super().allows(value) or isinstance(value, memoryview)

    def own_bad(self, value, rng):
        return [np.zeros(D + 1), [np.nan, 0.0], "x", np.nan, np.inf, [[1.0, 2.0]], {"nobody": 1}]


class CostsInStates(Costs):
    """A number, or an array with one for each state."""

    def own_bad(self, value, rng):
        return [np.zeros(S + 1), [np.nan, 0.0, 0.0], "x", np.nan, np.inf, [[1.0, 2.0, 3.0]], {"nobody": 1}]


POLICY = {"policy": ("policy",), "agent": ("agent", "policy")}


def switching_policy():
    return plan().policy.astype(np.int64)


def constructors():
    p = transition()
    yield (
        "Environment",
        lambda: Call(
            cede.Environment,
            {
                "transition": (p, Array("chances")),
                "cost": (mdp().environment.cost, Array()),
                "start": (np.array([0.5, 0.5, 0.0]), Array("chances")),
                "state_names": (["a", "b", "c"], optional(Names())),
                "action_names": (["x", "y"], optional(Names())),
                "enter_cost": (np.array([0.0, 1.0, 2.0]), optional(OneForEach())),
                "terminal": ([2], Ends()),
            },
        ),
    )
    yield (
        "Environment that varies with time",
        lambda: Call(
            cede.Environment,
            {
                "transition": (np.stack([p, p[:, ::-1]]), Array("chances")),
                "cost": (mdp().environment.cost, Array()),
                "start": (np.array([0.5, 0.5, 0.0]), Array("chances")),
                "varies_with": ("time", optional(Choice())),  # periods say it, too
                "periods": (np.array([0, 1, 1, 0]), optional(Array("indices", 2, shaped=False))),
            },
            words={"transition": ("transition",)},
        ),
    )
    yield (
        "Agent",
        lambda: Call(
            cede.Agent,
            {
                "name": ("human", Name()),
                "policy": (policies()["human"], Array("chances", shaped=False)),
                "control_cost": (0.25, CostsInStates()),
                "varies_with": (None, optional(Choice())),
                "takeover_delay": (1, Delay(0, 1000)),
                "on_takeover": (policies()["machine"], optional(Array("chances"))),
            },
        ),
    )
    yield (
        "Team",
        lambda: Call(
            cede.Team,
            {
                "agents": (list(mdp().team.agents), Agents()),
                "switch_cost": (0.5, SwitchCost()),
                "grab_cost": (0.75, optional(SwitchCost())),
                "can_switch": (lambda state, prev, agent: True, optional(Function())),
            },
            words={},
        ),
    )
    yield (
        "TwoLayerMDP",
        lambda: Call(
            cede.TwoLayerMDP,
            {
                "environment": (mdp().environment, Instance()),
                "team": (mdp().team, Instance()),
                "horizon": (L, optional(Integer(1))),  # None: averages
                "start_agent": (1, Integer(0, 1)),
                "structure": (structure(), optional(Instance())),
                "discount": (0.5, optional(Number(0.0, 1.0, True))),
            },
            words={"horizon": ("horizon",)},
        ),
    )
    yield (
        "Task with unknown costs, ends and a discount",
        lambda: Call(
            cede.Task,
            {
                "env_cost": (np.array([[np.nan, 1.0], [0.5, np.nan], [0.25, 0.25]]), optional(Unknown())),
                "agents": (["machine", "human"], Names(free=True)),
                "horizon": (L, optional(Integer(1))),
                "n_states": (S, optional(Integer(S, S))),
                "n_actions": (A, optional(Integer(A, A))),
                "cost_range": ((0.0, 2.0), Ranges()),
                "enter_cost": (np.array([0.0, np.nan, 2.0]), optional(Unknown())),
                "enter_cost_range": ((0.0, 3.0), optional(Ranges())),
                "control_cost": (np.array([0.25, np.nan]), Unknown()),
                "control_cost_range": ((0.0, 3.0), optional(Ranges())),
                "switch_cost": (np.array([[0.0, np.nan], [0.5, 0.0]]), Unknown()),
                "switch_cost_range": ((0.0, 3.0), optional(Ranges())),
                "terminal": ([2], Ends()),
                "discount": (0.5, optional(Number(0.0, 1.0, True))),
                "periods": (np.array([0, 0, 1, 1]), optional(Array("indices", L))),
            },
            words={
                "terminal": ("terminal", "an episode ends there"),
                "agents": ("agents",),
                "env_cost": ("env_cost", "cost"),
                "horizon": ("horizon", "periods", "terminal", "env_cost"),
                "n_states": ("n_states", "states"),
                "discount": ("discount", "terminal"),
            },
        ),
    )
    yield (
        "Task",
        lambda: Call(
            cede.Task,
            {
                "env_cost": (np.array(task().env_cost), Array(shaped=False)),
                "agents": (["machine", "human"], Names()),
                "horizon": (L, Integer(1)),
                "control_cost": (np.array([0.0, 0.25]), OneForEach()),
                "switch_cost": (0.5, SwitchCost()),
                "start_agent": (0, Integer(0, 3)),
                "varies_with": ([None, "time"], optional(Varies())),
                "state_names": (["a", "b", "c"], optional(Names())),
                "action_names": (["x", "y"], optional(Names())),
                "takeover_delay": ({"human": 2}, optional(ByName())),
                "on_takeover": (["human"], Takers()),
                "grab_cost": (0.75, optional(SwitchCost())),
                "can_switch": (lambda state, prev, agent: True, optional(Function())),
            },
            words={"agents": ("agents", "control_cost", "takeover_delay", "varies_with"), "on_takeover": ("on_takeover",)},
        ),
    )
    yield (
        "Structure",
        lambda: Call(
            cede.Structure,
            {
                "agents": ({"human": [0, 1, 0]}, optional(ByName(free=True))),
                "environment": (structure().environment, optional(Instance())),
            },
            words={"agents": ("agent", "labels", "label")},
        ),
    )
    yield (
        "Structure.by",
        lambda: Call(
            cede.Structure.by,
            {
                "states": (range(S), Listed()),
                "actions": (range(A), AnyItems()),
                "agents": ({"human": str}, optional(ByName(free=True))),
                "environment": (lambda s, a: (str(a), {"stay": s}), optional(Function())),
            },
            words={"states": ("states", "rule", "state"), "actions": ("actions", "rule"), "agents": ("agent", "label")},
        ),
    )
    yield (
        "Outcomes",
        lambda: Call(
            cede.Outcomes,
            {
                "row": (np.array([[0, 1]] * S), Array("indices", 2, shaped=False)),
                "case": (np.array([0, 1]), Array("indices", 2)),
                "to": (np.array([[0, 1], [1, 2]]), Array("indices", S, shaped=False, least=-1)),
            },
            words={"row": ("row", "to"), "case": ("case", "row", "to"), "to": ("to", "row")},
        ),
    )
    yield (
        "Outcomes.of",
        lambda: Call(
            cede.Outcomes.of,
            {
                "case": (np.tile([0, 1], (S, 1)), Array("indices", least=-1)),
                "to": (np.broadcast_to(np.arange(S), (S, A, S)), Array("indices", S, shaped=False, least=-1)),
            },
            words={"case": ("case", "to")},
        ),
    )
    yield (
        "Outcomes.by",
        lambda: Call(
            cede.Outcomes.by,
            {
                "states": (range(S), Listed()),
                "actions": (range(A), AnyItems()),
                "rule": (lambda s, a: (str(a), {"stay": s}), Function()),
            },
            words={"states": ("states", "rule"), "actions": ("actions", "rule"), "rule": ("rule",)},
        ),
    )
    yield (
        "Outcomes.of_agent",
        lambda: Call(
            cede.Outcomes.of_agent,
            {
                "states": (range(S), AnyItems()),
                "actions": (range(A), Listed()),
                "rule": (lambda s: (0, {"near": 0, "far": 1}), Function()),
            },
            words={"states": ("states", "rule"), "actions": ("actions", "rule"), "rule": ("rule",)},
        ),
    )
    yield (
        "Plan",
        lambda: Call(
            Plan,
            {"policy": (plan().policy, Array("indices", D)), "value": (plan().value, Array("values"))},
            words={"policy": ("policy", "value")},
        ),
    )
    yield (
        "Belief",
        lambda: Call(
            Belief,
            {
                "centre": (Belief.of(transition().reshape(-1, S), 0.5, (S, A)).centre, Instance()),
                "width": (np.full(S * A, 0.5), Array()),
                "row": (np.arange(S * A).reshape(S, A), Array("indices", S * A, shaped=False)),
                "linear": (3.0, Number(0.0)),
                "closed": (True, Flag()),
            },
        ),
    )
    yield (
        "Belief.of",
        lambda: Call(
            Belief.of,
            {
                "centre": (transition().reshape(-1, S), Array()),
                "width": (0.5, Number(0.0)),
                "places": ((S, A), Array("indices")),
            },
            words={"centre": ("centre", "places"), "width": ("width",)},
        ),
    )
    yield (
        "Scale",
        lambda: Call(cede.Scale, {"agents": (0.5, Factor(0.0)), "environment": (0.25, Factor(0.0)), "name": ("mine", AnyText())}),
    )
    yield "Scale.authors", lambda: Call(cede.Scale.authors, {"episodes": (100, Integer(1))})
    yield (
        "StepDown",
        lambda: Call(
            StepDown,
            {"start": (1.0, Number(0.0)), "step": (0.5, Number(0.0)), "every": (2.0, Number(0.0)), "least": (0.25, Number(0.0))},
        ),
    )
    yield "HalfLife", lambda: Call(cede.HalfLife, {"episodes": (20.0, Number(0.0))})
    yield "Window", lambda: Call(cede.Window, {"episodes": (20, Integer(1, 10**6))})
    yield (
        "Episode",
        lambda: Call(
            Episode,
            {
                "states": (episode().states, Array("indices")),
                "prev_agents": (episode().prev_agents, Array("indices")),
                "agents": (episode().agents, Array("indices")),
                "actions": (episode().actions, Array("indices")),
                "costs": (episode().costs, Array()),
                "env_costs": (episode().env_costs, optional(Unknown())),
                "enter_costs": (episode().enter_costs, optional(Unknown())),
                "control_costs": (episode().control_costs, optional(Unknown())),
                "switch_costs": (episode().switch_costs, optional(Unknown())),
                "aim": (np.arange(9), optional(Array("indices", shaped=False))),
            },
            words={"states": ("states",), "agents": ("agents",), "costs": ("costs",)},
        ),
    )
    yield (
        "Counts",
        lambda: Call(
            Counts,
            {
                "layers": (learner().counts.layers, Instance()),
                "episodes": (3, Integer(0, 2**62)),
                "environment_episodes": (3, Integer(0, 2**62)),
            },
        ),
    )
    yield (
        "Learner",
        lambda: Call(
            cede.Learner,
            {
                "task": (task(), Instance()),
                "settings": (learner().settings, Instance()),
                "seed": (3, Integer(0, 2**31 - 1)),
                "counts": (learner().counts, optional(Instance())),
            },
        ),
    )
    low = np.zeros((S, A))
    yield (
        "CostBelief",
        lambda: Call(
            CostBelief,
            {
                "low": (low, Array()),
                "high": (low + 1.0, Array()),
                "mean": (low + 0.5, optional(Array())),
                "enter_low": (np.zeros(S), Array()),
                "enter_high": (np.ones(S), Array()),
                "enter_mean": (np.ones(S), optional(Array())),
                "control_low": (np.zeros(D), Array()),
                "control_high": (np.ones(D), Array()),
                "control_mean": (np.ones(D), optional(Array())),
                "switch_low": (np.zeros((D, D)), Array()),
                "switch_high": (np.ones((D, D)), Array()),
                "switch_mean": (np.ones((D, D)), optional(Array())),
            },
            words={
                "low": ("low", "high"),
                "high": ("high", "low"),
                **{f"{kind}_low": (f"{kind}_low", f"{kind}_high") for kind in ("enter", "control", "switch")},
            },
        ),
    )
    names = {"shared_agents": (["machine"], Sequence())}
    yield "Fleet", lambda: Call(cede.Fleet, {"learners": ([learner(), learner(seed=1)], Sequence()), **names})
    for client in (cede.Client, cede.AsyncClient):
        yield (
            client.__name__,
            lambda client=client: Call(
                client,
                {
                    "url": ("http://localhost:8000", Choice()),
                    "token": ("cede_0_x", Name()),
                    "timeout": (2.0, Number(0.01)),
                    "refresh": (2.0, Number(0.01)),
                    "spool": (somewhere(".db"), optional(FilePath())),
                },
            ),
        )
    yield (
        "Checkpoint",
        lambda: Call(cede.Checkpoint, {"path": ("run.npz", AnyPath()), "seconds": (2.0, Number(0.0)), "resume": (False, Flag())}),
    )
    yield "Threads", lambda: Call(cede.engines.Threads, {"jobs": (2, optional(Integer(1, 10_000)))})
    yield "Processes", lambda: Call(cede.engines.Processes, {"jobs": (2, optional(Integer(1, 10_000)))})
    yield (
        "Ray",
        lambda: Call(
            cede.engines.Ray, {"jobs": (2, optional(Integer(1, 10_000))), "start_timeout": (300.0, Number(1.0, 86_400.0))}
        ),
    )


def functions():
    yield "set_threads", lambda: Call(set_threads, {"threads": (1, Integer(1, 1024))})
    limits = {"at_most": ({"human": 0.5}, optional(ByName())), "at_least": ({"human": 0.25}, optional(ByName()))}
    seed = {"seed": (3, Integer(0, 2**63 - 1))}
    some_seed = {"seed": (3, Integer(0, 2**31 - 1))}
    yield "solve", lambda: Call(cede.solve, {"mdp": (mdp(), Instance()), **seed})
    yield "solve with limits", lambda: Call(cede.solve, {"mdp": (mdp(), Instance()), **limits, **seed})
    yield "Mixture.draw", lambda: Call(cede.solve(mdp(), at_most={"human": 0.3}).draw, {"seed": (3, Seed())})
    given = {"mdp": (mdp(), Instance()), "policy": (switching_policy(), Array("indices", D))}
    yield "evaluate", lambda: Call(cede.evaluate, given)
    yield "expected_cost", lambda: Call(cede.expected_cost, given)
    yield "rollout", lambda: Call(cede.rollout, {**given, "seed": (3, Seed())})
    yield (
        "check_learner",
        lambda: Call(
            cede.testing.check_learner,
            {"make": (lambda task, seed: Stranger(), Function()), "task": (task(), optional(Instance())), **some_seed},
        ),
    )
    yield "flatten", lambda: Call(flatten, {"problem": (mdp(), Instance())})
    beliefs = dict(zip(("agents", "environment"), learner().beliefs, strict=True))
    yield (
        "optimistic_plan",
        lambda: Call(optimistic_plan, {"task": (task(), Instance()), **{k: (v, Instance()) for k, v in beliefs.items()}, **seed}),
    )
    yield (
        "count",
        lambda: Call(
            count,
            {
                "task": (task(), Instance()),
                "episodes": ([episode()], Episodes()),
                "flat": (False, Flag()),
                "structure": (structure(), optional(Instance())),
            },
            words={"episodes": ("episode",), "flat": ("flat", "structure")},
        ),
    )
    yield (
        "check_structure",
        lambda: Call(
            cede.insight.check_structure,
            {
                "task": (task(), Instance()),
                "structure": (structure(), Instance()),
                "data": (log(), Log()),
                "alpha": (0.01, Number(0.0, 1.0, True)),
            },
            words={"data": ("log", "column", "state", "agent", "action", "t[", "type", "rows", "episode")},
        ),
    )
    yield (
        "suggest_structure",
        lambda: Call(
            cede.insight.suggest_structure,
            {
                "task": (task(), Instance()),
                "episodes": (log(), Log()),
                "features": ([(0, 1), (1, 0), (1, 1)], StateFeatures()),
                "names": (["x", "y"], optional(Names())),
                "held_back": (0.5, Number(0.0, 1.0, True)),
                "enough": (30, Integer(1)),
                "seed": (3, Seed()),
            },
            words={
                "episodes": ("log", "column", "state", "agent", "action", "t[", "type", "rows", "episode"),
                "features": ("features", "names"),
            },
        ),
    )
    told = {
        "task": (task(), Instance()),
        "structure": (structure(), optional(Instance())),
        "known_agents": ({"machine": policies()["machine"]}, optional(ByName())),
        "known_environment": (None, optional(Instance())),
        "forget": (None, optional(Kind())),
        "forget_environment": (None, optional(Kind())),
        "replan": ("every", optional(Choice())),
        "seed": (3, Integer(0, 2**31 - 1)),
    }
    yield (
        "ucrl2_mc",
        lambda: Call(
            cede.ucrl2_mc,
            {
                **told,
                "delta": (0.125, Number(0.0, 1.0, True)),
                "scale": (0.5, Factor(0.0)),
                "belief": ("printed", Choice()),
                "baseline": (0, optional(Integer(0, 1))),
                "alpha": (0.25, Number(0.0)),
                "start": (np.array([0.5, 0.5, 0.0]), optional(Array("chances"))),
                "planning": ("full", Choice()),
            },
            words={"baseline": ("baseline", "policy")},
        ),
    )
    yield (
        "recommended",
        lambda: Call(
            cede.recommended,
            {
                **told,
                "baseline": (0, optional(Integer(0, 1))),
                "alpha": (0.25, Number(0.0)),
                "start": (np.array([0.5, 0.5, 0.0]), optional(Array("chances"))),
            },
            words={"baseline": ("baseline", "policy")},
        ),
    )
    yield "recommended with limits", lambda: Call(cede.recommended, {**told, **limits})
    yield "ucrl2_mc with limits", lambda: Call(cede.ucrl2_mc, {**told, **limits, "alpha": (0.25, Number(0.0))})
    yield "posterior_sampling", lambda: Call(cede.posterior_sampling, {**told, **limits, "prior": (0.5, Number(1e-6, 1e6))})
    yield (
        "posterior_sampling with features",
        lambda: Call(
            cede.posterior_sampling,
            {"task": (task(), Instance()), "features": ([(0, 1), (1, 0), (1, 1)], optional(StateFeatures()))},
            words={"features": ("features", "names")},
        ),
    )
    yield "greedy", lambda: Call(cede.greedy, {**told, **limits, "planning": ("full", Choice())})
    yield (
        "ucrl2",
        lambda: Call(
            cede.ucrl2,
            {
                "task": (task(), Instance()),
                "delta": (0.125, Number(0.0, 1.0, True)),
                "radius": ("appendix", Choice()),
                "scale": (0.5, Factor(0.0)),
                "planning": ("full", Choice()),
                "replan": ("every", optional(Choice())),
                "seed": (3, Integer(0, 2**31 - 1)),
            },
        ),
    )
    yield (
        "fixed",
        lambda: Call(cede.fixed, {"task": (task(), Instance()), "agent": (switching_policy(), Array("indices", D))}, words=POLICY),
    )
    yield "fixed by index", lambda: Call(cede.fixed, {"task": (task(), Instance()), "agent": (1, Integer(0, 1))}, words=POLICY)
    yield "oracle", lambda: Call(cede.oracle, {"mdp": (mdp(), Instance()), "seed": (3, Integer(0, 2**31 - 1))})
    yield (
        "bounds",
        lambda: Call(
            cede.insight.bounds, {"learner": (learner(), Instance()), "policy": (switching_policy(), optional(Array("indices", D)))}
        ),
    )
    yield (
        "Bounds.of_episode",
        lambda: Call(
            cede.insight.bounds(learner()).of_episode,
            {"start": (np.array([0.5, 0.5, 0.0]), Array("chances")), "start_agent": (1, Integer(0, 1))},
        ),
    )
    yield (
        "estimate",
        lambda: Call(
            cede.estimate,
            {
                "learner": (learner("greedy"), Instance()),
                "policy": (switching_policy(), optional(Array("indices", D))),
                "against": (1, optional(Integer(0, D - 1))),
                "start": (np.array([0.5, 0.5, 0.0]), optional(Array("chances"))),
                "level": (0.5, optional(Number(0.0, 1.0, True))),
                "draws": (5, Integer(2, 10**6)),
                "prior": (0.5, optional(Number(1e-6, 1e6))),
                "seed": (3, Integer(0, 2**31 - 1)),
            },
            words={"against": ("against", "policy")},
        ),
    )
    yield (
        "estimate from a log",
        lambda: Call(
            cede.estimate,
            {
                "learner": (task(), Instance()),
                "log": (log(), Log()),
                "draws": (5, Integer(2, 10**6)),
            },
            words={
                "log": ("log", "column", "state", "agent", "action", "t[", "type", "rows", "episode"),
                "learner": ("learner", "log"),
            },
        ),
    )
    yield "mean_plan", lambda: Call(cede.insight.mean_plan, {"learner": (learner(), Instance())})
    yield (
        "explain",
        lambda: Call(
            cede.explain,
            {
                "learner": (learner(), Instance()),
                "t": (1, Integer(0, L - 1)),
                "state": (1, Integer(0, S - 1)),
                "prev_agent": (1, Integer(0, D - 1)),
            },
        ),
    )
    yield (
        "Explanation.draw",
        lambda: Call(cede.explain(learner(), 0, 0, 0).draw, {"path": (somewhere(".png"), FilePath())}, words={"path": ("path",)}),
    )
    yield (
        "summarise",
        lambda: Call(
            cede.insight.summarise,
            {
                "learner": (learner(), Instance()),
                "by": (r"state (\d)", optional(Grouping())),
                "start": (np.array([0.5, 0.5, 0.0]), optional(Array("chances"))),
            },
        ),
    )
    yield (
        "report",
        lambda: Call(
            cede.insight.report,
            {
                "learner": (learner(), Instance()),
                "record": (cede.read_record(recorded()), optional(Instance())),
                "today": ("machine", optional(Choice())),
                "title": ("Ours", Title()),
                "by": ("a", optional(Grouping())),
                "draws": (3, Integer(2)),
                "progress": (False, Progress()),
            },
            words={"today": ("today", "policy")},
        ),
    )
    yield "Summary.draw", lambda: Call(cede.insight.summarise(learner()).draw, {"path": (somewhere(".png"), FilePath())})
    yield "load", lambda: Call(cede.load, {"source": (saved(), Source())})
    yield "read_record", lambda: Call(cede.read_record, {"path": (recorded(), FilePath())})
    yield (
        "Recorder",
        lambda: Call(
            Recorder,
            {
                "path": (somewhere(".jsonl"), FilePath()),
                "task": (task(), Instance()),
                "about": ({"seed": 3}, optional(About())),
                "sync": ("episode", Choice()),
                "recorded": (learner().recorded, optional(Instance())),
            },
        ),
    )
    yield "History.save", lambda: Call(history().save, {"path": (somewhere(".csv"), FilePath())})
    yield "Record.log", lambda: Call(cede.read_record(recorded()).log, {"unfinished": (True, Flag())})
    yield (
        "import_log",
        lambda: Call(
            import_log,
            {
                "source": (log(), AnyTable()),
                "task": (task(), Instance()),
                "session": ("t", optional(Choice())),
                "order": ("t", optional(Choice())),
                "progress": (False, Progress()),
            },
        ),
    )
    table = {"states": ([0, 1, 1, 0], Array("indices", shaped=False)), "cost": (np.array([[0.0, 1.0]] * 4), Array(shaped=False))}
    more = {"agents": (["a", "b"], optional(Names())), "order": ("given", Choice())}
    yield "replay", lambda: Call(cede.replay, {**table, **more})
    yield "Changing", lambda: Call(cede.worlds.Changing, {"phases": ([(0, mdp()), (3, mdp(seed=1))], Episodes())})
    yield from encoders()
    yield "simulate", simulate_call
    yield "simulate (a learner of one's own)", lambda: replace(simulate_call(), arguments=strangers(simulate_call().arguments))
    yield "simulate_fleet", simulate_fleet_call
    yield "compare", compare_call


def history():
    return cede.simulate(mdp(), cede.ucrl2_mc(task()), 3, progress=False)


def encoders():
    encode = cede.encode
    labels = {"labels": (["x", "y"], optional(Names())), "name": ("mine", Title())}
    data = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 5.0]])
    whole = {"n_values": ([2, 3], Array("indices", shaped=False)), "least": ([0, 1], Array("indices", shaped=False, least=-1))}
    yield "Grid", lambda: Call(encode.Grid, {**whole, **labels})
    yield "Categories", lambda: Call(encode.Categories, {"values": ([["a", "b"], ["c"]], Values()), **labels})
    trace = {"labels": (["x", "y"], Titles()), "name": ("mine", Title())}
    yield "Counter", lambda: Call(encode.Counter, {**trace, "most": (2, Integer(1))})
    yield "Flag", lambda: Call(encode.Flag, trace)
    table = {"load": np.arange(9.0), "kind": ["a", "b", "a"] * 3}
    limits = {"bins": (3, Integer(2)), "most_states": (100, Integer(4)), "name": ("mine", Title())}
    columns = {"frame": (table, Table()), "columns": (["load", "kind"], optional(SomeColumns()))}
    yield "from_frame", lambda: Call(encode.from_frame, {**columns, **limits})
    sums = {"weights": (np.array([1.0, 2.0]), Array(shaped=False)), "cuts": (np.array([0.5]), Array(shaped=False))}
    yield "Score", lambda: Call(encode.Score, {**sums, "offset": (0.5, Number()), **labels})
    yield (
        "Clusters",
        lambda: Call(
            encode.Clusters, {"centres": (data, Array(shaped=False)), "scale": (np.array([1.0, 2.0]), optional(Array())), **labels}
        ),
    )
    yield (
        "clusters",
        lambda: Call(
            encode.clusters,
            {
                "observations": (data, Array(shaped=False)),
                "n": (2, Integer(1, 3)),
                "seed": (3, Integer(0, 2**32 - 1)),
                "same_scale": (True, Flag()),
                **labels,
            },
        ),
    )
    both = [encode.Bins(([0.5], [0.5])), encode.Score([1.0, 2.0], [0.5])]
    parts = {"encoders": (both, Encoders()), "columns": ([[0, 1], [1, 2]], optional(Columns())), "name": ("mine", Title())}
    yield "Product", lambda: Call(encode.Product, parts)
    yield "Encoder.save", lambda: Call(both[0].save, {"path": (somewhere(), FilePath())})


def strangers(arguments):
    return {**arguments, "learner": (Stranger(), Instance())}


def simulate_call():
    one = learner(episodes=0)
    return Call(
        cede.simulate,
        {
            "mdp": (mdp(), Instance()),
            "learner": (one, Instance()),
            "episodes": (2, Integer(1)),
            "seed": (3, Seed()),
            "evaluate_every": (1, Integer(1, 2**62)),
            "progress": (False, Progress()),
        },
        one,
    )


def compare_call():
    return Call(
        cede.compare,
        {
            "worlds": ({"mine": mdp()}, Compared()),
            "learners": ({"ours": "greedy", "mine": lambda task, seed: cede.greedy(task, seed=seed)}, Compared()),
            "episodes": (2, Integer(1)),
            "repeats": (2, Integer(1, 100_000)),
            "seed": (3, Integer(0, 2**31 - 2)),
            "reference": ("ours", optional(Choice())),
            "engine": ("threads", Choice()),
            "jobs": (1, optional(Integer(1, 10_000))),
            "directory": (None, optional(AnyPath())),
            "progress": (False, Progress()),
        },
        words={"worlds": ("worlds", "world "), "learners": ("learners", "learner ", "reference")},
    )


def simulate_fleet_call():
    one = fleet(episodes=0)
    return Call(
        cede.simulate_fleet,
        {
            "mdps": ([mdp(), mdp()], Sequence()),
            "fleet": (one, Instance()),
            "episodes": (2, Integer(1)),
            "seed": (3, Integer(0)),
            "engine": ("threads", Choice()),
            "jobs": (1, optional(Integer(1, 10_000))),
            "sync_every": (1, Integer(1, 2**62)),
            "evaluate_every": (1, Integer(1, 2**62)),
            "checkpoint": (None, optional(FilePath())),
            "progress": (False, Progress()),
        },
        one,
    )


def chosen_session():
    session = learner().session("one")
    session.choose(1)
    return session


def waiting_learner():
    subject = unknown_learner()
    subject.observe(0, 0, 0, 1, 1, 1, cost=None)
    return subject


def begun_session():
    session = chosen_session()
    session.observe(1, 1)
    return session


def methods():
    def of(make, method, **arguments):
        def call():
            subject = make()
            return Call(getattr(subject, method), arguments, subject)

        return call

    index = {"t": (1, Integer(0, L - 1)), "state": (1, Integer(0, S - 1)), "prev_agent": (1, Integer(0, D - 1))}
    yield "Task.always", lambda: Call(task().always, {"agent": (1, Integer(0, D - 1))})
    yield "Task.rule", lambda: Call(task().rule, {"rule": (lambda t, state, prev_agent: prev_agent, Function())})
    yield "Learner.choose", of(learner, "choose", **index)
    yield "Learner.choose (greedy planning)", of(lambda: learner(planning="greedy"), "choose", **index)
    step = {**index, "t": (0, Integer(0, L - 1)), "agent": (1, Integer(0, D - 1)), "action": (1, Integer(0, A - 1))}
    yield "Task.who_acts", lambda: Call(task().who_acts, {"agent": (1, Integer(0, D - 1))})
    yield "Learner.observe", of(learner, "observe", **step, next_state=(1, Integer(0, S - 1)), moved=(False, Flag()))
    follows = {**step, "t": (1, Integer(0, L - 1)), "next_state": (1, Integer(0, S - 1)), "moved": (False, Flag())}
    yield "Learner.observe (the next step)", of(lambda: begun(learner()), "observe", **follows)
    end = {"replan": (True, optional(Flag()))}
    measured = {"next_state": (1, Integer(0, S - 1)), "cost": (0.5, optional(Number(0.0, 2.0)))}
    yield "Learner.observe (unknown costs)", of(unknown_learner, "observe", **step, **measured)
    charged = {"control_cost": (0.5, Number(0.0, 2.0)), "switch_cost": (0.0, Number(0.0, 2.0))}
    to = {"next_state": (1, Integer(0, S - 1)), "agent": (1, Integer(1, 1)), "prev_agent": (1, Integer(1, 1))}
    yield "Learner.observe (unknown costs of the team)", of(team_learner, "observe", **{**step, **to}, **charged)
    yield (
        "Task.with_unknown_costs",
        lambda: Call(task().with_unknown_costs, {"cost_range": ((0.0, 3.0), Ranges()), "which": ("env_cost", Choice())}),
    )
    here = {name: index[name] for name in ("state", "prev_agent")}
    yield "Learner (no horizon).choose", of(endless_learner, "choose", **here)
    walk = {"state": index["state"], "agent": step["agent"], "action": step["action"], **measured, "moved": (False, Flag())}
    yield (
        "Learner (no horizon).observe",
        of(lambda: rested(endless_learner()), "observe", prev_agent=(1, Integer(0, D - 1)), **walk),
    )
    yield "Learner (no horizon).end_episode", of(endless_learner, "end_episode", **end)
    yield "Learner.end_episode", of(lambda: begun(learner()), "end_episode", **end)
    yield "Learner.observe_episode", of(learner, "observe_episode", episode=(episode(), Instance()))
    yield "Learner.session", of(learner, "session", key=("one", optional(Title())))
    yield (
        "Learner.limit_sessions",
        of(learner, "limit_sessions", most=(5, optional(Integer(1))), seconds=(9.0, optional(Number(0.0)))),
    )
    late = {"key": (None, optional(Title())), "t": (0, Integer(0, 0)), "cost": (0.5, Number(0.0, 2.0))}
    yield "Learner.amend", of(waiting_learner, "amend", **late)
    free = {"state": index["state"], "prev_agent": (1, optional(Integer(0, D - 1)))}
    yield "Session.choose", of(lambda: learner().session("one"), "choose", **free)
    outcome = {"action": step["action"], "next_state": (1, Integer(0, S - 1)), "moved": (False, Flag())}
    yield "Session.observe", of(chosen_session, "observe", **outcome, agent=(1, optional(Integer(0, D - 1))))
    yield "Session.end", of(begun_session, "end", **end)
    yield "Learner.save", of(learner, "save", path=(somewhere(), FilePath()))

    def record_to():
        subject = learner()
        return Call(subject.record_to, {"path": (somewhere(".jsonl"), FilePath()), "sync": ("never", Choice())}, subject)

    yield "Learner.record_to", record_to
    words = ("log", "column", "state", "agent", "action", "t[", "type", "rows", "episode")

    def learn_from():
        subject = learner()
        given = {"log": (log(), Log()), "progress": (False, Progress())}
        return Call(subject.learn_from, given, subject, {"log": words})

    yield "Learner.learn_from", learn_from
    costs = {"control_cost": (0.1, Number()), "switch_cost": (0.1, Number()), "weight": (2.0, Number(0.0))}
    new = {"name": ("new", Name()), **costs, "like": ("machine", Choice()), "takeover_delay": (1, Integer(0, 1000))}
    yield "Learner.add_agent", of(learner, "add_agent", **new)
    yield "Learner.remove_agent", of(learner, "remove_agent", name=("machine", Choice()), start_agent=("human", Choice()))
    yield "Learner.agent_changed", of(learner, "agent_changed", name=("machine", Choice()), keep=(0.5, Number(0.0, 1.0)))
    yield "Fleet.add", of(fleet, "add", learner=(learner(), Instance()))
    yield "Fleet.remove", of(fleet, "remove", learner=(1, Integer(0, 1)))
    yield "Fleet.save", of(fleet, "save", path=(somewhere(), FilePath()))
    yield "Fleet.merge", of(fleet, "merge", other=(fleet(), Instance()))
    yield (
        "Fleet.welcome",
        of(
            fleet,
            "welcome",
            task=(task(), Instance()),
            known_agents=({"machine": policies()["machine"]}, optional(ByName())),
            seed=(3, Integer(0, 2**31 - 1)),
        ),
    )
    yield "Scale.at", lambda: Call(cede.Scale(0.5).at, {"layer": ("agents", Choice()), "episode": (3, Integer(1))})
    yield "StepDown()", lambda: Call(StepDown(1, 0.1, 5, 0.1), {"episode": (3, Integer(1))})


def worlds():
    costs = {"control_cost": (0.5, Number()), "switch_cost": (0.25, SwitchCost())}
    each = {**costs, "control_cost": (0.5, Costs())}
    yield (
        "riverswim",
        lambda: Call(
            cede.worlds.riverswim,
            {
                "agents": (np.array([0.25, 0.5]), Array(shaped=False)),
                "version": ("osband", Choice()),
                "macro": (2, Integer(1, 10)),
                "discount": (0.5, optional(Number(0.0, 1.0, True))),
                "horizon": (5, optional(Integer(1))),
                **each,
            },
            words={"agents": ("agents",)},
        ),
    )
    yield (
        "riverswim_teams",
        lambda: Call(
            cede.worlds.riverswim_teams, {"n": (2, Integer(1)), "seed": (3, Integer(0)), "switch_cost": (0.25, SwitchCost())}
        ),
    )
    yield (
        "lane_driving",
        lambda: Call(cede.worlds.lane_driving, {"sigma": (1.5, Number(0.0)), **costs, "traffic": ("light", optional(Choice()))}),
    )
    yield (
        "lane_driving_teams",
        lambda: Call(cede.worlds.lane_driving_teams, {"n": (2, Integer(1)), "seed": (3, Integer(0)), **costs}),
    )
    small = {"agents": (2, Integer(1, 100)), "section": (2, Integer(1, 100))}
    yield (
        "relay",
        lambda: Call(cede.worlds.relay, {**small, "horizon": (5, Integer(1)), "switch_cost": (0.25, SwitchCost())}),
    )


class Model:
    def predict(self, observation, deterministic=False):
        return np.array(0), None


def gym():
    import gymnasium
    import minigrid  # noqa: F401 (registers its environments)

    frozen = gymnasium.make("FrozenLake-v1", is_slippery=True)
    walkers = [cede.Agent("a", np.full((16, 4), 0.25)), cede.Agent("b", np.eye(4)[np.zeros(16, dtype=int)])]
    yield "Actor", lambda: Call(cede.gym.Actor, {"name": ("a", Name()), "act": (lambda observation, state, rng: 0, Function())})
    yield (
        "actor",
        lambda: Call(
            cede.gym.actor,
            {"name": ("a", Name()), "how": (policies()["human"], How("chances", shaped=False)), "sees": ("state", Choice())},
            words={"how": ("policy",)},
        ),
    )
    yield (
        "tabulated",
        lambda: Call(
            cede.gym.tabulated,
            {
                "name": ("a", Name()),
                "function": (lambda state: state % 2, Function()),
                "n_states": (3, Integer(1)),
                "n_actions": (2, Integer(2, None)),
                "control_cost": (0.5, CostsInStates()),
            },
            words={"n_actions": ("n_actions", "answered")},
        ),
    )
    yield (
        "agent_from_sb3",
        lambda: Call(
            cede.gym.agent_from_sb3,
            {
                "model": (Model(), Instance()),
                "encode": (lambda x: x, optional(Function())),
                "name": ("a", Name()),
                "deterministic": (True, Flag()),
            },
        ),
    )
    yield (
        "ConsoleAgent",
        lambda: Call(
            cede.gym.ConsoleAgent,
            {
                "name": ("a", Name()),
                "actions": (["left", "right"], Names(free=True)),
                "fallback": (policies()["human"], How("chances", shaped=False)),
                "timeout": (1.0, Number(0.0, 10**6)),
                "show": (lambda observation, state: "x", optional(Function())),
                "source": (io.StringIO(""), optional(Kind())),
            },
            words={"fallback": ("policy",), "actions": ("actions",)},
        ),
    )
    yield (
        "Bins",
        lambda: Call(
            cede.gym.Bins,
            {"edges": ((np.array([0.0, 1.0]), np.array([0.5])), Edges()), "labels": (("x", "y"), optional(Names()))},
        ),
    )
    yield (
        "uniform_bins",
        lambda: Call(
            cede.gym.uniform_bins,
            {
                "low": (np.array([0.0, 0.0]), Array()),
                "high": (np.array([1.0, 2.0]), Array()),
                "bins": (3, Integer(1)),
                "labels": (["x", "y"], optional(Names())),
            },
            words={"bins": ("bins", "states")},
        ),
    )
    yield (
        "quantile_bins",
        lambda: Call(
            cede.gym.quantile_bins,
            {
                "observations": (np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 5.0]]), Array(shaped=False)),
                "bins": (2, Integer(1)),
                "labels": (["x", "y"], optional(Names())),
            },
            words={"bins": ("bins", "states"), "observations": ("observations",)},
        ),
    )
    yield (
        "SwitchingEnv",
        lambda: Call(
            cede.gym.SwitchingEnv,
            {"mdp": (mdp(), Instance()), "time": (True, Flag()), "render_mode": (None, optional(Choice()))},
        ),
    )
    yield (
        "from_toy_text",
        lambda: Call(
            cede.gym.from_toy_text,
            {
                "env": (frozen, Instance()),
                "agents": (walkers, Agents()),
                "horizon": (5, optional(Integer(1))),
                "switch_cost": (0.25, SwitchCost()),
                "start_agent": (1, Integer(0, 1)),
                "discount": (0.5, optional(Number(0.0, 1.0, True))),
            },
        ),
    )
    gap = gymnasium.make("MiniGrid-LavaGapS5-v0")
    found = cede.gym.minigrid_states(gap)
    chances = np.full(found.next_state.shape, 1 / 7)
    yield (
        "minigrid_states",
        lambda: Call(
            cede.gym.minigrid_states,
            {
                "env": (gap, Instance()),
                "seed": (3, Integer(0)),
                "actions": (["left", "right", "forward"], optional(Names(free=True))),
            },
        ),
    )
    yield (
        "from_minigrid",
        lambda: Call(
            cede.gym.from_minigrid,
            {
                "env": (found, Instance()),
                "agents": ([cede.Agent("a", chances), cede.Agent("b", chances)], Agents()),
                "horizon": (5, optional(Integer(1))),
                "step_cost": (0.5, optional(Number())),
                "fail_cost": (0.5, Number()),
                "switch_cost": (0.25, SwitchCost()),
                "start_agent": (1, Integer(0, 1)),
                "discount": (0.5, optional(Number(0.0, 1.0, True))),
            },
        ),
    )
    yield (
        "task_for",
        lambda: Call(
            cede.gym.task_for,
            {
                "env": (frozen, Instance()),
                "agents": (["a", "b"], Names(free=True)),
                "horizon": (5, Integer(1)),
                "cost": (0.5, optional(Number())),
                "cost_range": ((0.0, 1.0), Ranges()),
                "over_cost": (0.5, Number()),
                "control_cost": (0.5, Costs()),
                "switch_cost": (0.25, SwitchCost()),
                "start_agent": (1, Integer(0, 1)),
            },
            words={"cost": ("cost",), "horizon": ("horizon", "over_cost")},
        ),
    )

    def run():
        toy = cede.gym.from_toy_text(frozen, walkers, 5)
        one = cede.ucrl2_mc(toy.task)
        return Call(
            cede.gym.run,
            {
                "env": (gymnasium.make("FrozenLake-v1"), Instance()),
                "team": (toy.team, Instance()),
                "learner": (one, Instance()),
                "episodes": (1, Integer(1)),
                "override": (lambda t, state, prev, chosen: chosen, optional(Function())),
                "seed": (3, Integer(0, 2**32 - 1)),
                "record": (None, optional(FilePath())),
                "task": (None, optional(Instance())),
                "progress": (False, Progress()),
            },
            one,
            {"team": ("team",), "record": ("path",)},
        )

    yield "run", run


@cache
def catalogue():
    """All calls by name; each value makes a new Call."""
    return dict((*constructors(), *functions(), *methods(), *worlds(), *gym()))
