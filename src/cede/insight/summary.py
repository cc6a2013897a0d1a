"""A summary of what a learner knows: who is in control where, how often each agent was, what it costs, where belief is wide."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cede._base import check
from cede._base.archive import path_to_write
from cede._base.arrays import Floats
from cede._base.extras import AGENT_COLOURS, label, pyplot, save_picture
from cede._base.reprs import listed, plural, short_repr
from cede.insight.bounds import bounds
from cede.learning.counts import places_of
from cede.learning.learner import Learner

MOST_GROUPS = 40  # with more groups by default, all states are shown as one
FEW_STATES = 12  # with so few states, each is shown by itself
WIDEST = 8  # rows with wide sets that are listed at most


@dataclass(frozen=True)
class Group:
    """States that are shown together in a summary."""

    name: str
    states: int
    visits: float  # how often they were visited, all actions together
    shares: tuple[float, ...]  # (members,) part of the plan's entries, over all times and previous agents, that choose each
    cost: tuple[float, float] | None  # least and greatest mean cost of an episode that starts here; None: the learner has no sets


@dataclass(frozen=True)
class WideRow:
    """A row of a belief whose confidence set is still wide."""

    layer: str  # "environment", or the name of an agent
    place: str
    visits: float
    width: float


@dataclass(frozen=True)
class Summary:
    """What a learner knows, for `cede show` and pictures. `summarise` returns it."""

    settings: dict[str, Any]
    episodes: int
    agents: tuple[str, ...]
    control: tuple[float, ...]  # (members,) steps in which each was seen acting; faded counts, if the learner forgets
    groups: tuple[Group, ...]
    widest: tuple[WideRow, ...]  # rows with wide sets, the most visited first
    warnings: tuple[str, ...] = ()  # see `Learner.warnings`
    unit: str = "episodes"  # what `episodes` counts: steps where there is no horizon
    cost_of: str = "cost of an episode from here"  # what `Group.cost` is

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            total = max(sum(self.control), 1e-300)
            held = [f"{name} {steps / total:.0%}" for name, steps in zip(self.agents, self.control, strict=True)]
            warned = plural(len(self.warnings), "warning") if self.warnings else None
            told = check.printable(self.settings.get("learner", ""))[:60]
            return told, f"{self.episodes:,} {self.unit}", plural(len(self.groups), "group"), f"control: {listed(held)}", warned

        return short_repr(self, parts)

    def draw(self, path: str | Path) -> Path:
        """Draw who is in control where, and write the picture to a file. Return its path."""
        return draw(self, path_to_write("draw", "path", path))


def summarise(learner: Learner, *, by: str | Callable[[str], str] | None = None) -> Summary:
    """Summarise what a learner knows.

    by: how states are grouped. A function of their names returns the name of the group. A regular expression is searched for in
    them; its match (its first group, if it has one) is the name. By default each state is by itself if there are at most 12; else
    the text before the first colon or comma is the name.
    """
    check.instance("summarise", "learner", learner, Learner)
    task, counts = learner.task, learner.counts
    names = list(task.state_names or (f"state {s}" for s in range(task.n_states)))
    labels = grouped(names, by)
    told = learner.told
    visits = counts.environment.sum(axis=1)
    per_state = np.zeros(task.n_states)
    if not told.flat:
        per_state = visits[places_of(task, structure=told.structure)[1]].sum(axis=1).reshape(-1, task.n_states).sum(axis=0)
    interval = bounds(learner) if told.has_sets else None
    policy = learner.plan.policy.reshape(-1, task.n_states, task.n_agents)
    groups = []
    for name in dict.fromkeys(labels):
        here = np.array([i for i, other in enumerate(labels) if other == name])
        shares = np.bincount(task.aim[policy[:, here].ravel()], minlength=len(task.members)) / policy[:, here].size
        ends = None
        if interval is not None:
            first = (end.reshape(-1, task.n_states, task.n_agents)[0] for end in (interval.low, interval.high))
            low, high = (float(end[here, task.start_agent].mean()) for end in first)
            ends = (low, high)
        groups.append(Group(name, len(here), float(per_state[here].sum()), tuple(shares.tolist()), ends))
    settings = {key: value for key, value in learner.settings.items() if value is not None and value is not False and value != []}
    about: dict[str, str] = {}
    if task.horizon is None:
        about["unit"] = "steps"
        about["cost_of"] = "cost of a step in the long run" if task.discount is None else "discounted cost from here"
    wide = widest(learner, names)
    return Summary(
        settings,
        learner.episode - 1,
        task.members,
        tuple(learner.steps_in_control.tolist()),
        tuple(groups),
        wide,
        learner.warnings,
        **about,
    )


def grouped(names: list[str], by: Any) -> list[str]:
    """Return the name of the group of each state. by: as for `summarise`."""
    if callable(by):
        return [str(by(name)) for name in names]
    if by is not None:
        if not isinstance(by, str):
            check.fail("summarise", "by", check.show(by), "a function of a state's name, or a regular expression")
        try:
            pattern = re.compile(by)
        except re.error as error:
            check.fail("summarise", "by", repr(by), f"a regular expression ({error})")
        found = [pattern.search(name) for name in names]
        return [(match.group(match.lastindex or 0) if match else "other states") for match in found]
    if len(names) <= FEW_STATES:
        return names
    labels = [re.split(r"[:,]", name)[0] for name in names]
    return labels if len(set(labels)) <= MOST_GROUPS else ["all states"] * len(names)


def widest(learner: Learner, names: list[str]) -> tuple[WideRow, ...]:
    """Return visited rows whose sets are still wide, at least of median width; the most visited first, at most WIDEST of them."""
    if not learner.told.has_sets:
        return ()
    task, counts = learner.task, learner.counts
    agents_place, environment_place = places_of(task, structure=learner.told.structure)
    actions = task.action_names or tuple(f"action {a}" for a in range(task.n_actions))
    agents, environment = learner.beliefs
    seen_agents, seen_environment = counts.agents.sum(axis=1), counts.environment.sum(axis=1)
    found: dict[tuple[str, int], WideRow] = {}
    for table, name in enumerate(task.tables):
        for slot in range(int(task.first_slot[table]), int(task.first_slot[table] + task.n_slots[table])):
            for s in range(task.n_states):
                row, width = int(agents_place[slot, s]), float(agents.distances[agents.row[slot, s]])
                if width > 0:
                    found.setdefault((name, row), WideRow(name, names[s], float(seen_agents[row]), width))
    for i, a in np.ndindex(*environment_place.shape):
        row, width = int(environment_place[i, a]), float(environment.distances[environment.row[i, a]])
        if width > 0:
            period, s = divmod(i, task.n_states)
            place = f"{names[s]}, {actions[a]}" + (f", period {period}" if task.periods is not None else "")
            found.setdefault(("environment", row), WideRow("environment", place, float(seen_environment[row]), width))
    seen = [row for row in found.values() if row.visits > 0]
    typical = float(np.median([row.width for row in seen])) if seen else 0.0
    wide = sorted((row for row in seen if row.width >= typical), key=lambda row: -row.visits)
    return tuple(wide[:WIDEST])


def draw(summary: Summary, path: Path) -> Path:
    """Draw a summary and write the picture to a file."""
    plt = pyplot()
    picture, axes = plt.subplots(figsize=(6.6, 1.2 + 0.32 * len(summary.groups)), layout="constrained")
    shares: Floats = np.array([group.shares for group in summary.groups])
    left = np.zeros(len(shares))
    for agent, name in enumerate(summary.agents):
        colour = AGENT_COLOURS[agent % len(AGENT_COLOURS)]
        axes.barh(range(len(shares)), shares[:, agent], left=left, color=colour, label=label(name), height=0.7)
        left += shares[:, agent]
    axes.set_yticks(range(len(shares)), [label(group.name) for group in summary.groups], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("part of the plan that hands control to each agent")
    picture.legend(loc="outside upper center", ncols=min(len(summary.agents), 5), fontsize=8, frameon=False)
    try:
        return save_picture(picture, path)
    finally:
        plt.close(picture)
