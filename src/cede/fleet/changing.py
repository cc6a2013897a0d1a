"""A world that changes at given episodes: a new model, a new shift, another season."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cede._base import check
from cede._base.reprs import plural, short_repr
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task


@dataclass(frozen=True, eq=False, repr=False)
class Changing:
    """A world that changes at given episodes, for `simulate` and `compare`. The learner is not told when.

    phases: pairs of the first episode, counted from 0, and the TwoLayerMDP in force from then on: [(0, before), (500, after)]. All
    have the same task (sizes, names, costs); transitions and policies may differ. Regret is against the best policy of the world in
    force.
    """

    phases: Sequence[tuple[int, TwoLayerMDP]]

    def __post_init__(self) -> None:
        owner = "Changing"
        checked: list[tuple[int, TwoLayerMDP]] = []
        for i, phase in enumerate(check.items(owner, "phases", self.phases, "pairs of the first episode and a TwoLayerMDP")):
            if not isinstance(phase, tuple | list) or len(phase) != 2:
                check.fail(owner, f"phases[{i}]", check.show(phase), "a pair of the first episode and a TwoLayerMDP")
            first = check.integer(owner, f"the first episode of phases[{i}]", phase[0], checked[-1][0] + 1 if checked else 0)
            checked.append((first, check.instance(owner, f"the world of phases[{i}]", phase[1], TwoLayerMDP)))
        if not checked or checked[0][0] != 0:
            check.fail(owner, "phases", check.show(self.phases), "pairs of which the first begins at episode 0")
        if checked[0][1].horizon is None:
            check.fail(owner, "the horizon of phases[0]", None, "a number of steps: worlds change between episodes")
        object.__setattr__(self, "phases", tuple(checked))

    @property
    def worlds(self) -> tuple[TwoLayerMDP, ...]:
        """Return the worlds in order."""
        return tuple(world for _, world in self.phases)

    @property
    def task(self) -> Task:
        """Return the input of a learner."""
        return self.phases[0][1].task

    @property
    def horizon(self) -> Any:
        """Return the number of steps of an episode."""
        return self.task.horizon

    @property
    def discount(self) -> Any:
        """Return the discount factor per step."""
        return self.task.discount

    structure = None  # none is true in all phases

    def lengths(self, episodes: int) -> list[tuple[int, TwoLayerMDP]]:
        """Return how many of the first `episodes` are played in each world."""
        ends = [min(first, episodes) for first, _ in self.phases[1:]] + [episodes]
        return [(end - first, world) for end, (first, world) in zip(ends, self.phases, strict=True) if end > first]

    def __repr__(self) -> str:
        begins = ", ".join(str(first) for first, _ in self.phases)
        return short_repr(self, lambda: (plural(len(self.phases), "world"), f"from episodes {begins}"))
