"""Costs that arrive later: the steps that a learner has observed without a cost that it learns, until the cost is told (`amend`).

A step counts when it is observed; of its costs only those that are known. An awaited cost is NaN in its `Step`, and is counted in
the row in which it belongs when it arrives, once.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats
from cede._base.interrupts import interrupts_later
from cede._base.reprs import plural
from cede.problem.task import CHARGES, Task
from cede.rows.fading import Window
from cede.steps.check import PLACES, charged, observed_step, plain
from cede.steps.step import Step, Steps

if TYPE_CHECKING:
    from cede.learners.control_loop import ControlLoop

COSTS = CHARGES[:2]  # that may arrive later
MOST = 100_000  # awaited steps; then the first of the session that has waited longest is given up
WHEN_KNOWN = "given when it is observed"


class Awaited:
    """The steps whose costs a learner awaits, by session and number of the step in it. A name means the latest session of it."""

    def __init__(self, content: Mapping[str | None, Mapping[int, Step]] | None = None) -> None:
        self.by_key = {key: dict(steps) for key, steps in (content or {}).items()}
        self.n = sum(map(len, self.by_key.values()))

    @property
    def content(self) -> dict[str | None, dict[int, Step]]:
        """Return all of it for a copy."""
        return {key: dict(steps) for key, steps in self.by_key.items()}

    def of_team(self, agents: Sequence[str], after: Sequence[str]) -> "Awaited":
        """Return it after the team has changed; steps of agents who have left are given up. agents, after: their names."""
        index = {d: after.index(name) for d, name in enumerate(agents) if name in after}
        result = Awaited()
        for key, steps in self.by_key.items():
            for t, step in steps.items():
                if step.prev_agent in index and step.agent in index:
                    result.put(key, t, step._replace(prev_agent=index[step.prev_agent], agent=index[step.agent]))
        return result

    def put(self, key: str | None, t: int, step: Step) -> None:
        """Await a cost of step t of a session."""
        if self.n >= MOST:
            oldest = next(iter(self.by_key))
            self.remove(oldest, next(iter(self.by_key[oldest])))
        self.by_key.setdefault(key, {})[t] = step
        self.n += 1

    def remove(self, key: str | None, t: int) -> None:
        """Await step t of a session no longer."""
        del self.by_key[key][t]
        self.n -= 1
        if not self.by_key[key]:
            del self.by_key[key]

    def give_up(self, key: str | None) -> None:
        """Await no step of the sessions of a name any longer."""
        self.n -= len(self.by_key.pop(key, ()))

    def packed(self) -> tuple[list[list[Any]], dict[str, Any]]:
        """Return it for a file: (key, t) of each step, and the steps as two arrays."""
        rows = [(key, t, step) for key, steps in self.by_key.items() for t, step in steps.items()]
        places = np.array([step[:6] for _, _, step in rows], dtype=np.int64).reshape(-1, 6)
        costs = np.array([[getattr(step, name) for name in CHARGES] for _, _, step in rows], dtype=np.float64).reshape(
            -1, len(CHARGES)
        )
        return [[key, t] for key, t, _ in rows], {"awaited/steps": places, "awaited/charged": costs}


def is_awaited(step: Step) -> bool:
    """Return whether a cost of a checked step is awaited."""
    return step.cost != step.cost or step.enter_cost != step.enter_cost


def check_can_wait(owner: str, learner: "ControlLoop", step: Step) -> None:
    """Check that a learner can await a cost of a step."""
    settings, place = learner.settings, COSTS[step.cost == step.cost]
    if settings.baseline is not None:
        why = f"{WHEN_KNOWN}: with a baseline ({settings.baseline.name}) the cost of each episode is part of the proof"
        check.fail(owner, place, None, why)
    if isinstance(settings.forgetting.environment, Window):
        check.fail(owner, place, None, f"{WHEN_KNOWN}: a window forgets the costs of an episode together")
    if learner.recorder is not None:
        check.fail(owner, place, None, f"{WHEN_KNOWN} while the learner is recorded: a record holds each step once, with its costs")


def amend(learner: "ControlLoop", key: Any, t: Any, costs: tuple[Any, Any]) -> None:
    """Do the work of `Learner.amend`."""
    owner, awaited, task = "amend", learner._open.awaited, learner.task
    key, t = None if key is None else check.name(owner, "key", key), check.integer(owner, "t", t, 0)
    given = {name: check.number(owner, name, cost) for name, cost in zip(COSTS, costs, strict=True) if cost is not None}
    who = "the learner's own calls" if key is None else f"session {check.printable(key)[:60]!r}"
    steps = awaited.by_key.get(key, {})
    if t not in steps:
        known = (
            f"one of {check.show([*steps])}" if steps else f"that of an awaited cost: {plural(awaited.n, 'step')} of others wait"
        )
        check.fail(owner, f"t of {who}", t, f"{known} (learner.awaited)")
    if not given:
        check.fail(owner, "cost", "missing", "given, or enter_cost")
    step = steps[t]
    for name, value in given.items():
        if not np.isnan(getattr(step, name)):
            check.fail(owner, name, value, f"left out: that of step {t} of {who} is not awaited")
    if learner.recorder is not None:
        check.fail(owner, "the learner", "recorded", "recorded no longer (close the recorder): records hold no late costs")
    late = step._replace(cost=given.get("cost", np.nan), enter_cost=given.get("enter_cost", np.nan))  # what is counted now
    step = step._replace(cost=given.get("cost", step.cost), enter_cost=given.get("enter_cost", step.enter_cost))
    charged(owner, task, step, plain, awaited=COSTS)
    session = learner._session if key is None else learner._open.by_key.get(key)
    running = session._steps if session is not None and task.horizon is not None else []
    working = learner._working
    with learner.turn.whole, interrupts_later():
        if running:  # not counted yet
            running[t] = step
        else:
            working.count_late_costs(Steps.of([late]))
        if is_awaited(step):
            steps[t] = step
        else:
            awaited.remove(key, t)


def unpacked(learner: "ControlLoop", rows: Any, places: Any, costs: Floats) -> Awaited:
    """Return the awaited steps of a file from what `Awaited.packed` returned, after checks."""
    owner, result = "file", Awaited()
    if places.dtype != np.int64 or places.shape != (len(rows), 1 + len(PLACES)) or costs.shape != (len(rows), len(CHARGES)):
        check.fail(owner, "the awaited steps", f"{places.shape} of {places.dtype}", f"({len(rows)}, 6) of int64")
    if len(rows) > MOST:
        check.fail(owner, "the number of awaited steps", len(rows), f"at most {MOST}")
    for (key, t), place, cost in zip(rows, places.tolist(), told(costs), strict=True):
        name = None if key is None else check.name(owner, "key of an awaited step", key)
        number, time = (
            check.integer(owner, "t of an awaited step", t, 0),
            check.index(owner, "t", place[0], learner.task.plan_steps),
        )
        step = observed_step(owner, learner.task, learner.settings.structure, time, place[1:], None, cost, False)
        if not is_awaited(step) or number in result.by_key.get(name, {}):
            check.fail(owner, f"t of an awaited step of {key!r}", number, "one that is awaited, once")
        check_can_wait(owner, learner, step)
        result.put(name, number, step)
    return result


def told(costs: Floats) -> list[list[float | None]]:
    """Return (n, 2) or (n, 4) costs of a file in the order of CHARGES, None where a cost is not known."""
    missing = [None] * (len(CHARGES) - costs.shape[1])
    return [[None if np.isnan(part) else part for part in row] + missing for row in costs.tolist()]


def check_fits(task: Task, awaited: Awaited, sessions: Mapping[str | None, Any]) -> None:
    """Check that the awaited steps of sessions in a file whose steps are not counted yet are among these steps."""
    for key, steps in awaited.by_key.items():
        running = sessions[key].steps if key in sessions and task.horizon is not None else ()
        if running and any(t >= len(running) or str(running[t][:8]) != str(step[:8]) for t, step in steps.items()):
            check.fail("file", f"the awaited steps of {key!r}", "others", "among those that are not counted yet")
