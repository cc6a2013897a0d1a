"""Scales: factors by which the radii of a learner's confidence sets are multiplied."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats

MOST_SCALE = 1e100  # so that no width can overflow; radii from 2 on exclude nothing anyway


@dataclass(frozen=True)
class StepDown:
    """A scale that falls in steps: max(start - step * floor((k - 1) / every), least) in episode k = 1, 2, ...

    start: the scale of the first episode. step: the decrement. every: the number of episodes between decrements. least: the lower
    bound. Unlike other functions it can be saved with a learner.
    """

    start: float
    step: float
    every: float
    least: float

    def __post_init__(self) -> None:
        for name in ("start", "step", "every", "least"):
            object.__setattr__(self, name, checked_scale("StepDown", name, getattr(self, name)))
        if self.every <= 0:
            check.fail("StepDown", "every", self.every, "more than 0")

    def __call__(self, episode: int) -> float:
        """Return the scale of an episode, numbered from 1."""
        episode = check.integer("StepDown", "episode", episode, 1)
        return max(self.start - self.step * floor(min((episode - 1) / self.every, 1e18)), self.least)


ScaleOf = float | Callable[[int], float]


@dataclass(frozen=True)
class Scale:
    """The factors by which the radii of the agents' and of the environment's confidence sets are multiplied.

    agents, environment: a number, or a function of the episode k = 1, 2, ... that returns one. name: shown in `settings` instead of
    the two. Only scale 1 carries the paper's guarantee; smaller scales learn faster and guarantee nothing.
    """

    agents: ScaleOf = 1.0
    environment: ScaleOf = 1.0
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for layer in ("agents", "environment"):
            value = getattr(self, layer)
            if not callable(value):
                object.__setattr__(self, layer, checked_scale("Scale", layer, value))
        if not isinstance(self.name, str):
            check.fail("Scale", "name", check.show(self.name), "a string")

    @classmethod
    def authors(cls, episodes: int) -> "Scale":
        """Return the schedule of the authors' code for a run of so many episodes. It is not in the text of the paper."""
        n = check.integer("Scale.authors", "episodes", episodes, 1)
        return cls(
            agents=StepDown(1.0, 0.1, n / 3000, 0.1),
            environment=StepDown(0.1, 0.01, n / 10, 0.01),
            name=f"authors' schedule for {n} episodes",
        )

    def ahead(self, layer: str, episode: int, n: int) -> Floats:
        """Return the scales of a layer in n episodes from `episode` on, (n,). If the function fails for a later episode, stop
        before it.

        layer: "agents" or "environment". A failure in the first of the episodes is raised.
        """
        if not callable(value := getattr(self, layer)):
            return np.full(n, value)
        scales = [self.at(layer, episode)]
        for later in range(episode + 1, episode + n):
            try:
                scales.append(self.at(layer, later))
            except Exception:  # whatever it is, it is raised when that episode is first
                break
        return np.array(scales)

    def at(self, layer: str, episode: int) -> float:
        """Return the scale of a layer, "agents" or "environment", in an episode, numbered from 1."""
        value = getattr(self, check.choice("Scale", "layer", layer, ("agents", "environment")))
        episode = check.integer("Scale", "episode", episode, 1)
        if callable(value):
            return checked_scale(f"Scale, episode {episode}", layer, value(episode))
        return float(value)

    def __str__(self) -> str:
        return self.name or f"agents {show_scale(self.agents)}, environment {show_scale(self.environment)}"


def checked_scale(owner: str, place: str, value: Any) -> float:
    """Check that a value is a factor for radii, and return it."""
    result = check.number(owner, place, value, least=0.0)
    if result > MOST_SCALE:
        check.fail(owner, place, result, f"at most {MOST_SCALE:g}")
    return result


def show_scale(value: Any) -> str:
    """Return a scale as text: a number in short form, anything else by its repr."""
    return f"{value:g}" if isinstance(value, float) else repr(value)


def scale_of(owner: str, value: Any) -> Scale:
    """Return the argument `scale=` as a Scale: it is a Scale, or a number or a function for both layers."""
    if isinstance(value, Scale):
        return value
    both = value if callable(value) else checked_scale(owner, "scale", value)
    return Scale(agents=both, environment=both)


class ScaleByEpisode:
    """The scales of the sets, as numbers. A schedule, which is a user's function, is called once for each episode."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.called: dict[int, Scale] = {}  # results of the schedule by episode

    def at(self, episode: int) -> Scale:
        """Return the scales of an episode."""
        if not callable(self.scale.agents) and not callable(self.scale.environment):
            return self.scale
        if episode not in self.called:
            self.called[episode] = Scale(self.scale.at("agents", episode), self.scale.at("environment", episode))
        return self.called[episode]

    def drop_before(self, episode: int) -> None:
        """Forget the results for earlier episodes."""
        self.called = {number: scale for number, scale in self.called.items() if number >= episode}

    def copy(self) -> "ScaleByEpisode":
        """Return a copy."""
        result = ScaleByEpisode(self.scale)
        result.called = self.called.copy()
        return result
