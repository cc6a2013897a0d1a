"""Worlds and learners of a comparison: made by functions of the user, or by name with arguments.

A name stands for a function of cede. Names and arguments are checked here, before the first run; nothing is imported by name.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from cede._base import check
from cede.beliefs.scale import Scale
from cede.fleet.changing import Changing
from cede.fleet.replay import Replay
from cede.learners.fixed import fixed, oracle
from cede.learners.greedy import greedy
from cede.learners.learner import Learner
from cede.learners.posterior_sampling import posterior_sampling
from cede.learners.protocol import checked_learner
from cede.learners.recommended import recommended
from cede.learners.ucrl2 import ucrl2
from cede.learners.ucrl2_mc import ucrl2_mc
from cede.problem.model import TwoLayerMDP
from cede.worlds.by_name import world_function

WORLDS = (TwoLayerMDP, Replay, Changing)
MakeWorld = Callable[[int], Any]  # from the seed of a repeat
MakeLearner = Callable[[TwoLayerMDP, int], Any]  # from the problem and the seed of a repeat

LEARNERS: Mapping[str, Callable[..., Learner]] = {
    "recommended": recommended,
    "ucrl2-mc": ucrl2_mc,
    "posterior-sampling": posterior_sampling,
    "ucrl2": ucrl2,
    "greedy": greedy,
    "fixed": fixed,
    "oracle": oracle,
}
NOT_ARGUMENTS = ("task", "mdp", "seed")  # these come from the comparison
ALSO = {"known_agents": "known", "structure": "structured"}  # in addition to an argument: the truth of the world, by name or True


def entries(owner: str, argument: str, value: Any, expected: str) -> dict[str, Any]:
    """Check worlds or learners, a mapping from names or a sequence of names. Return the mapping."""
    if isinstance(value, Mapping):
        by_name = dict(value)
    else:
        names = check.items(owner, argument, value, expected)
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            check.fail(owner, argument, check.show(value), expected)
        by_name = {name: name for name in names}
    if not by_name:
        check.fail(owner, f"the number of {argument}", 0, "at least 1")
    for name in by_name:
        check.name(owner, f"a name in {argument}", name)
    return by_name


def named(owner: str, entry: Any, expected: str) -> tuple[str, dict[str, Any]]:
    """Check a name, or a pair of a name and a mapping of arguments; return both."""
    pair = (entry, {}) if isinstance(entry, str) else entry
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], Mapping):
        check.fail(owner, "what stands for it", check.show(entry), expected)
    return pair[0], dict(pair[1])


def check_arguments(owner: str, arguments: Mapping[Any, Any], allowed: list[str], needed: list[str]) -> None:
    """Check the names of arguments."""
    for name in arguments:
        if name not in allowed:
            expected = check.one_of(allowed) if allowed else "left out: it has no arguments"
            check.fail(owner, "an argument", check.show(name), expected)
    for name in needed:
        if name not in arguments:
            check.fail(owner, name, "left out", "given")


def world_maker(owner: str, world: Any) -> MakeWorld:
    """Return the function that makes a world for the seed of a repeat.

    world: a TwoLayerMDP, a Replay or a Changing world, the same in all repeats; a function of a seed; a name of
    `cede.worlds.by_name`; or such a name with a mapping of arguments. A named world with an argument `seed` gets the seed of the
    repeat, unless the arguments have a seed.
    """
    if isinstance(world, WORLDS):
        return lambda seed: world
    if callable(world):
        check_takes(owner, world, 1, "a function of a seed")
        return checked(owner, world, WORLDS)
    name, arguments = named(owner, world, "a TwoLayerMDP, a function of a seed, a name, or a pair of a name and arguments")
    function = world_function(owner, "world", name)
    allowed = list(inspect.signature(function).parameters)
    check_arguments(owner, arguments, allowed, [])
    if "seed" in allowed and "seed" not in arguments:
        return checked(owner, lambda seed: function(**arguments, seed=seed), TwoLayerMDP)
    mdp = checked(owner, lambda: function(**arguments), TwoLayerMDP)()  # the same in all repeats
    return lambda seed: mdp


def learner_maker(owner: str, learner: Any, episodes: int) -> MakeLearner:
    """Return the function that makes a learner for a problem and the seed of a repeat.

    learner: a function of a task and a seed that returns a learner, any that `simulate` runs; a name in LEARNERS; or such a name
    with a mapping of arguments. In addition to the arguments of the function there are known, a list of the agents whose true
    policies it knows, and structured=True, for the structure of the world. scale may be a mapping (of agents and environment) or
    "authors", the authors' schedule for this number of episodes.
    """
    if callable(learner):
        check_takes(owner, learner, 2, "a function of a task and a seed")
        make = checked(owner, learner)
        return lambda mdp, seed: checked_learner(owner, make(mdp.task, seed), "what its function returned")
    name, arguments = named(owner, learner, "a function of a task and a seed, a name, or a pair of a name and arguments")
    function = LEARNERS[check.choice(owner, "learner", name, tuple(LEARNERS))]
    parameters = [parameter for parameter in inspect.signature(function).parameters if parameter not in NOT_ARGUMENTS]
    needed = [
        parameter
        for parameter in parameters
        if inspect.signature(function).parameters[parameter].default is inspect.Parameter.empty
    ]
    check_arguments(owner, arguments, parameters + [more for parameter, more in ALSO.items() if parameter in parameters], needed)
    known, structured = arguments.pop("known", ()), check.truth(owner, "structured", arguments.pop("structured", False))
    if known:
        known = check.items(owner, "known", known, "a list of names of agents")
    if isinstance(arguments.get("scale"), Mapping):
        check_arguments(f"{owner}, scale", arguments["scale"], ["agents", "environment"], [])
        arguments["scale"] = checked(owner, Scale)(**arguments["scale"])
    elif arguments.get("scale") == "authors":
        arguments["scale"] = Scale.authors(episodes)

    def make_named(mdp: Any, seed: int) -> Learner:
        if (known or structured or name == "oracle") and not isinstance(mdp, TwoLayerMDP):
            what = name if name == "oracle" else "known" if known else "structured"
            check.fail(owner, what, "asked for", "left out: there is no model of this world that holds all the time")
        if name == "oracle":
            return oracle(mdp, seed=seed)
        if name == "fixed":
            return fixed(mdp.task, **arguments)
        truth: dict[str, Any] = {"structure": mdp.structure} if structured else {}
        if known:
            agents = [mdp.team.agents[mdp.task.agent_index(owner, "an agent in known", agent)] for agent in known]
            truth["known_agents"] = {agent.name: agent.policy for agent in agents}
        return function(mdp.task, seed=seed, **arguments, **truth)

    return checked(owner, make_named, Learner)


def check_takes(owner: str, function: Callable[..., Any], arguments: int, expected: str) -> None:
    """Check that a function can be called with a number of arguments, if it has a signature."""
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError as error:
        check.fail(owner, "what stands for it", check.show(function), f"{expected} ({error})")
    except ValueError:  # no signature, like some functions that are not written in Python
        return


def checked(owner: str, function: Callable[..., Any], kind: type | tuple[type, ...] | None = None) -> Callable[..., Any]:
    """Return a function whose ValueErrors name its world or learner, and whose result is checked to be of a class."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except ValueError as error:
            raise ValueError(str(error) if str(error).startswith(owner) else f"{owner}: {error}") from error
        if isinstance(kind, tuple) and isinstance(result, kind):
            return result
        one = kind[0] if isinstance(kind, tuple) else kind
        return result if one is None else check.instance(owner, "what its function returned", result, one)

    return call
