"""Summary of a learner: control by state, steps of each agent, expected costs, and rows with wide confidence sets."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.archive import path_to_write
from cede._base.arrays import Floats, Policy
from cede._base.extras import AGENT_COLOURS, pyplot, save_picture, wrapped_label
from cede._base.reprs import listed, plural, short_repr
from cede.insight.bounding import bounds
from cede.insight.figures import figure, interval
from cede.insight.frequencies import frequencies
from cede.insight.occupancy import occupancy
from cede.insight.starts import normalised, starts_of
from cede.insight.uncertain import WideRow, widest
from cede.insight.visits import state_visits, visits_by_place
from cede.learners.learner import Learner
from cede.planning.passes import value_under

MOST_GROUPS = 40  # with more default groups, all states are one group
FEW_STATES = 12  # with so few states, each is shown by itself
RARE = 1e-3  # steps in an episode: groups with fewer planned steps are drawn without agents
GUESSED = 0.01  # fraction of planned steps without data from which on there is a warning
ROUNDING = 1e-9
Rows = list[tuple[str, ...]]
Table = tuple[str, tuple[str, ...], Rows]  # title, columns, rows


@dataclass(frozen=True)
class StateGroup:
    """States that are shown together in a summary."""

    name: str
    states: int
    visits: float | None  # counted steps in them; None: the learner counts cases, which several groups may share
    steps: float  # planned steps in them per episode; for averages, the fraction of all steps
    shares: tuple[float, ...] | None  # (members,) fraction of these steps in which each acts; None: the plan never leads here
    expected: float | None  # mean cost of an episode that starts here, by frequencies; None: for averages, and for UCRL2
    cost: tuple[float, float] | None  # bounds of that cost; None: no confidence sets guarantee any
    ends: bool = False  # whether all of these states are terminal
    ended: float | None = None  # fraction of the episodes that ended in these states; None: not known

    @property
    def is_met(self) -> bool:
        """Return whether the plan leads here, and whether these states were visited, if that is known."""
        return self.shares is not None and self.steps >= RARE and self.visits != 0

    @property
    def how_often(self) -> str:
        """Return how often the plan leads here, in words; for terminal states, how many episodes ended here."""
        if self.ends:
            return "episodes end" if self.ended is None else f"{self.ended:.0%} of episodes ended"
        return "never met" if self.visits == 0 else figure(self.steps, 0.1)

    def row(self, members: int) -> tuple[str, ...]:
        """Return the group as a row of a table."""
        shares = [f"{share:.0%}" for share in self.shares] if self.shares is not None and self.is_met else ["-"] * members
        cost = "" if self.expected is None or self.ends else figure(self.expected)
        if self.cost is not None and not self.ends:
            _, low, high = interval(0.0, *self.cost)
            cost += f" ({low} to {high})"
        return self.name, f"{self.states:,}", self.how_often, *shares, cost.strip()


@dataclass(frozen=True)
class Summary:
    """Summary of a learner, for `cede show` and pictures. `summarise` returns it."""

    settings: dict[str, Any]
    episodes: int
    agents: tuple[str, ...]
    control: tuple[float, ...]  # (members,) counted steps in which each acted, without forgotten steps
    planned: tuple[float, ...]  # (members,) fraction of the planned steps in which each acts, by frequencies
    starts: str  # source of the start distribution, in words
    groups: tuple[StateGroup, ...]
    widest: tuple[WideRow, ...]  # rows with wide sets, the greatest possible effect on the cost first
    warnings: tuple[str, ...] = ()  # see `Learner.warnings`
    unit: str = "episodes"  # what `episodes` counts: steps where there is no horizon
    steps_of: str = "steps per episode"  # what `StateGroup.steps` is
    cost_of: str = "cost of an episode from here"  # what `StateGroup.expected` and `StateGroup.cost` are
    remembered: bool = False  # whether the learner forgets, so that `control` lacks steps
    ended: tuple[tuple[str, float], ...] = ()  # by terminal state, the fraction of the episodes that ended there; empty: not known

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            total = max(sum(self.control), 1e-300)
            held = [f"{name} {steps / total:.0%}" for name, steps in zip(self.agents, self.control, strict=True)]
            warned = plural(len(self.warnings), "warning") if self.warnings else None
            name = check.printable(self.settings.get("learner", ""))[:60]
            control = f"{'remembered of control' if self.remembered else 'control'}: {listed(held)}"
            return name, f"{self.episodes:,} {self.unit}", plural(len(self.groups), "group"), control, warned

        return short_repr(self, parts)

    def __str__(self) -> str:
        tables = [text_table(*table) for table in self.tables()]
        warnings = [f"warning: {text}" for text in self.warnings]
        notes = [f"where episodes start: {self.starts}", *self.endings(), *warnings]
        return "\n\n".join([*tables, "\n".join(check.printable(line) for line in notes)])

    def endings(self) -> list[str]:
        """Return a line with the fractions of episodes that ended in each terminal state; none if not known."""
        if not self.ended:
            return []
        parts = [f"{name} {part:.0%}" for name, part in self.ended]
        rest = 1.0 - sum(part for _, part in self.ended)
        return [f"how episodes ended: {', '.join(parts)}" + (f", by the horizon {rest:.0%}" if rest > ROUNDING else "")]

    def tables(self) -> list[Table]:
        """Return its content as tables: title, columns, rows of texts."""
        total = max(sum(self.control), 1e-300)
        held = zip(self.agents, self.control, self.planned, strict=True)
        control: Rows = [(name, f"{n:,.0f}", f"{n / total:.0%}", f"{plan:.0%}") for name, n, plan in held]
        of_them = ("steps remembered", "share of these") if self.remembered else ("steps so far", "share so far")
        columns: tuple[str, ...] = ("agent", *of_them, "share planned")
        tables: list[Table] = [(f"In control in {self.episodes:,} {self.unit}", columns, control)]
        columns = ("states", "number", self.steps_of, *self.agents, self.cost_of)
        tables.append(("Who acts where if the plan is followed", columns, [group.row(len(self.agents)) for group in self.groups]))
        if self.widest:
            wide: Rows = [
                (row.layer, row.place, f"{row.visits:,.0f}", f"{row.width:.2f}", figure(row.matters)) for row in self.widest
            ]
            columns = ("belief", "where", "visits", "width", "could change the cost by")
            tables.append(("Where belief is still wide, first what could change most", columns, wide))
        return tables

    def draw(self, path: str | Path) -> Path:
        """Draw control by state, and write the picture to a file. Return its path."""
        return draw(self, path_to_write("draw", "path", path))


def text_table(title: str, columns: tuple[str, ...], rows: Rows) -> str:
    """Return a table as plain text: the first column aligned to the left, all others to the right."""
    cells = [[check.printable(text) for text in row] for row in (columns, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(text.rjust(n) for text, n in zip(row[1:], widths[1:], strict=True))]) for row in cells
    ]
    return "\n".join([check.printable(title), *(line.rstrip() for line in lines)])


def summarise(learner: Learner, *, by: str | Callable[[str], str] | None = None, start: ArrayLike | None = None) -> Summary:
    """Summarise a learner: control by state, steps of each agent, expected costs, and rows with wide confidence sets.

    Control is weighted by how often the plan visits each state and previous agent under the observed frequencies.

    by: how states are grouped. A function of their names returns the name of the group. A regular expression is searched for in
    them; its match (its first group, if it has one) is the name. By default each state is by itself if there are at most 12; else
    the text before the first colon or comma is the name.

    start: (S,) probabilities of the first state. By default they follow from the counts; `Summary.starts` says how.
    """
    check.instance("summarise", "learner", learner, Learner)
    task = learner.task
    names = list(task.state_names or (f"state {s}" for s in range(task.n_states)))
    labels, starts = grouped(names, by), starts_of("summarise", learner, start)
    policy = learner.plan.policy.reshape(-1, task.n_states, task.n_agents)
    met = occupancy(task, *frequencies(learner), policy, starts.chances)
    acts, orders = np.zeros((len(task.members), task.n_states)), task.roles.orders
    for d, member in enumerate(task.acting):
        acts[member] += (orders.chance_of(d, policy) * met).sum(axis=(0, 2))
    visits, costs, ended = state_visits(learner), costs_from_here(learner), ends_seen(learner)
    groups = []
    for name in dict.fromkeys(labels):
        here = np.array([i for i, other in enumerate(labels) if other == name])
        steps = float(acts[:, here].sum())
        shares = tuple((acts[:, here].sum(axis=1) / steps).tolist()) if steps > 0 else None
        weight = normalised(starts.chances[here] if starts.chances[here].any() else met.sum(axis=(0, 2))[here])
        expected, low, high = (None if cost is None else float(weight @ cost[here]) for cost in costs)
        ends = None if low is None or high is None else (low, high)
        seen = None if visits is None else float(visits[here].sum())
        over = bool(task.is_terminal[here].all())
        part = float(ended[here].sum()) if ended is not None and task.is_terminal[here].any() else None
        groups.append(StateGroup(name, len(here), seen, steps, shares, expected, ends, over, part))
    settings = {key: value for key, value in learner.about.items() if value is not None and value is not False and value != []}
    about: dict[str, Any] = {"remembered": bool(learner.settings.forgetting.agents)}
    if ended is not None:
        about["ended"] = tuple((names[s], float(ended[s])) for s in task.terminal)
    if task.horizon is None:
        about["unit"] = "steps"
        about["steps_of"] = "part of all steps" if task.discount is None else "steps, discounted"
        about["cost_of"] = "cost of a step in the long run" if task.discount is None else "discounted cost from here"
    return Summary(
        settings,
        learner.episode - 1,
        task.members,
        tuple(learner.steps_in_control.tolist()),
        tuple((acts.sum(axis=1) / max(float(acts.sum()), 1e-300)).tolist()),
        starts.source,
        tuple(groups),
        widest(learner, names, policy, met),
        (*learner.warnings, *guesses(learner, policy, met, names)),
        **about,
    )


def guesses(learner: Learner, policy: Policy, met: Floats, names: list[str]) -> list[str]:
    """Return a warning about planned steps of agents in states where they have no data; none if such steps are few.

    policy: (L, S, D). met: (L, S, D), expected visits under the plan.
    """
    task, settings = learner.task, learner.settings
    if settings.flat or learner.episode == 1:
        return []
    acted = visits_by_place(learner)[0]
    unknown = np.stack([acted[task.layout.slots(table)].sum(axis=0) == 0 for table in range(len(task.tables))])  # (tables, S)
    unknown[list(settings.knowledge.agents)] = False
    unseen = [unknown[table][:, None] * task.roles.orders.chance_of(d, policy) for d, table in enumerate(task.table)]
    guess: Floats = met * sum(unseen)
    part = float(guess.sum() / max(float(met.sum()), 1e-300))
    if part < GUESSED:
        return []
    t, s, prev = np.unravel_index(int(np.argmax(guess)), guess.shape)
    who = check.printable(task.members[task.acting[policy[t, s, prev]]])
    where = check.printable(names[s])
    return [
        f"in {part:.0%} of the steps planned, who is to act was never seen acting there, first of all {who} in {where}: a guess"
    ]


def ends_seen(learner: Learner) -> Floats | None:
    """Return the fraction of the episodes that ended in each state, (S,). None if that is not counted: without terminal states or a
    horizon, if counts fade, and with declared outcomes.
    """
    task, settings, episodes = learner.task, learner.settings, learner.environment_episodes
    if (
        not task.terminal
        or task.horizon is None
        or settings.outcomes is not None
        or settings.forgetting.environment is not None
        or not episodes
    ):
        return None
    arrived = np.asarray(learner.counts.environment.sum(axis=0)).ravel()
    result: Floats = np.where(task.is_terminal, arrived, 0.0) / episodes
    return result


def costs_from_here(learner: Learner) -> tuple[Floats | None, Floats | None, Floats | None]:
    """Return the cost of an episode of the plan from each state on, (S,), after the start agent: expected, at least and at most.

    Bounds are None without sets that guarantee them; the expected cost is None for UCRL2 and for averages.
    """
    task, settings = learner.task, learner.settings
    expected = low = high = None
    if not settings.flat and (task.horizon is not None or task.discount is not None):
        policy = learner.plan.policy.reshape(-1, task.n_states, task.n_agents)
        value = value_under(learner.costs.middle("summarise", task), *frequencies(learner), policy)
        expected = value[0, :, task.start_agent]
    if settings.has_sets and not settings.is_scaled and not settings.forgetting.any:
        limits = bounds(learner)
        low, high = (end.reshape(-1, task.n_states, task.n_agents)[0, :, task.start_agent] for end in (limits.low, limits.high))
    return expected, low, high


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
        matches = [pattern.search(name) for name in names]
        return [(match.group(match.lastindex or 0) if match else "other states") for match in matches]
    if len(names) <= FEW_STATES:
        return names
    labels = [re.split(r"[:,]", name)[0] for name in names]
    return labels if len(set(labels)) <= MOST_GROUPS else ["all states"] * len(names)


def draw(summary: Summary, path: Path) -> Path:
    """Draw a summary and write the picture to a file."""
    plt = pyplot()
    groups = summary.groups
    shown = [wrapped_label(f"{group.name} ({group.how_often})", 40) for group in groups]
    high = max(0.32, 0.05 + 0.15 * max(name.count("\n") + 1 for name in shown))  # of a group, in inches
    members = [wrapped_label(name) for name in summary.agents]
    beside = 2 if max(map(len, members)) > 15 else 4  # entries of the legend, of which there may be three more than members
    above = 0.15 * (1 + max(name.count("\n") for name in members)) * -(-(len(members) + 3) // beside)
    picture, axes = plt.subplots(figsize=(6.6, 1.1 + above + high * len(groups)), layout="constrained")
    shares: Floats = np.array([group.shares if group.is_met else (0.0,) * len(summary.agents) for group in groups])
    left = np.zeros(len(shares))
    for agent, name in enumerate(members):
        colour = AGENT_COLOURS[agent % len(AGENT_COLOURS)]
        axes.barh(range(len(shares)), shares[:, agent], left=left, color=colour, label=name, height=0.7)
        left += shares[:, agent]
    why = [
        "" if g.is_met else "episodes end" if g.ends else "never met" if g.visits == 0 else "hardly ever, by the plan"
        for g in groups
    ]
    for text, hatch in (("episodes end", "..."), ("never met", "xxx"), ("hardly ever, by the plan", "///")):
        places = [i for i, reason in enumerate(why) if reason == text]
        if places:
            axes.barh(places, 1.0, color="white", edgecolor="#BBBBBB", hatch=hatch, height=0.7, linewidth=0, label=text)
    axes.set_yticks(range(len(shares)), shown, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel(f"who acts if the plan is followed (in brackets: {summary.steps_of})")
    picture.legend(loc="outside upper center", ncols=beside, fontsize=8, frameon=False)
    try:
        return save_picture(picture, path, bbox_inches="tight")  # whatever the names: nothing is cut off
    finally:
        plt.close(picture)
