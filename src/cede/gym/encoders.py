"""Encoders in Gymnasium: functions that turn an observation of an environment into a state, an integer from 0.

Any function of the observation can be an encoder; `cede.encode` makes some. If it has parameters named `env`, `info`, `reward` or
`terminated`, it gets these too: the environment without its wrappers, what the step returned beside the observation, and whether it
ended the episode. Some environments, as those of MiniGrid, show only there what they hide in the observation. Discrete and
MultiDiscrete observations are numbered without loss (`encode.Grid`).
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from cede._base import check
from cede._base.extras import need
from cede.features.encode import Grid

SEEN = ("env", "info", "reward", "terminated")  # what an encoder can see besides the observation, if it has parameters of that name


def encoder_of(owner: str, space: Any) -> Any:
    """Return the encoder of a Discrete or MultiDiscrete space; for any other space it is an error that `encode` was not given."""
    spaces = need("gymnasium.spaces", "gym")
    if isinstance(space, spaces.Discrete):
        return Grid((int(space.n),), (int(space.start),))
    if not isinstance(space, spaces.MultiDiscrete):
        expected = "given: a function from observations to states, as uniform_bins or quantile_bins make one"
        check.fail(owner, "encode", f"None for {check.show(space)}", expected)
    least = np.asarray(getattr(space, "start", np.zeros_like(space.nvec)))
    return Grid(tuple(map(int, np.ravel(space.nvec))), tuple(map(int, np.ravel(least))))


def with_what_it_sees(owner: str, encode: Any) -> Callable[..., int]:
    """Return a function encode(observation, env=, info=, reward=, terminated=) that passes on only those that an encoder asks for.

    Its signature is looked at once. Its first parameter is the observation, whatever its name; functions without a signature, such
    as some that are built in, get the observation alone.
    """
    try:
        parameters = list(inspect.signature(encode).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    asked = [one.name for one in parameters[1:] if one.kind in named and one.name in SEEN]
    for one in parameters[1:]:
        if one.name not in asked and one.default is inspect.Parameter.empty and one.kind in named:
            check.fail(owner, f"the parameter {one.name!r} of encode", "not known", f"left out, or {check.one_of(SEEN)}")

    def encoded(observation: Any, **seen: Any) -> int:
        state: int = encode(observation, **{name: seen[name] for name in asked})
        return state

    return encoded
