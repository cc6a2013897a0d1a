"""The report of a learner: one page for those who decide, in sentences, with intervals and pictures. Needs the extra `plots`."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from cede import __version__
from cede._base import check, page
from cede._base.archive import path_to_write, write_whole
from cede._base.arrays import Floats, Policy
from cede._base.extras import AGENT_COLOURS, need, wrapped_label
from cede._base.progress import Progress
from cede._base.reprs import plural
from cede._base.run_picture import LOOK
from cede._kernels.account import is_hand_over
from cede.insight.estimating import DRAWS, Estimate, Policies, estimate
from cede.insight.figures import figure, interval
from cede.insight.frequencies import frequencies
from cede.insight.occupancy import occupancy
from cede.insight.starts import starts_of
from cede.insight.summary import Summary, summarise
from cede.learners.learner import Learner
from cede.problem.task import Task
from cede.steps.log import check_fits
from cede.steps.record import Record

LEAST = 20  # episodes of a record from which on the first and the last tenth are compared
MOST_PLACES = 3  # in which a hand-over is most frequent
SELDOM = 0.005  # hand-overs in an episode, or in a step: rarer ones are not listed


@dataclass(frozen=True, repr=False)
class LearnerReport:
    """A page about a learner, for those who decide. `report` returns it."""

    title: str
    html: str  # a whole page, which needs no other file

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, completely or not at all, and return its path."""
        where = path_to_write("LearnerReport.save", "path", path)
        write_whole(where, self.html)
        return where

    def __repr__(self) -> str:
        return f"<LearnerReport: {check.printable(self.title)[:60]}, {len(self.html):,} characters; save(path) writes it>"


def report(
    learner: Learner,
    record: Record | None = None,
    *,
    today: Policies | None = None,
    title: str | None = None,
    by: str | Callable[[str], str] | None = None,
    draws: int = 200,
    progress: bool | Callable[[int], None] = True,
) -> LearnerReport:
    """Make a page about a learner: what its plan costs and saves, who acts when, hand-overs, what is uncertain.

    Costs are those of `estimate`, with its intervals; states are grouped as by `summarise`. record: what really happened, as
    `read_record` returns it. today: today's rule, a policy as for `estimate` or the name of an agent; by default the baseline of
    the learner, if it has one. title: of the page. by: how states are grouped. draws: as for `estimate`. Needs the extra `plots`.
    """
    owner = "report"
    need("matplotlib", "plots")
    task = check.instance(owner, "learner", learner, Learner).task
    name = check.name(owner, "title", "Who is in control, and what it saves" if title is None else title)
    if record is not None:
        check_fits(owner, check.instance(owner, "record", record, Record), task)
    if today is None and learner.settings.baseline is not None:
        today = "baseline"
    with Progress(owner, 3 + 2 * len(task.members), check.progress(owner, progress)) as bar:
        summary = summarise(learner, by=by)
        bar.advance()
        costs = Costs.of(learner, today, draws, bar.advance)
        moves = hand_overs(learner)
        bar.advance()
    parts = [
        section_of_costs(costs, learner),
        section_of_control(summary, learner),
        section_of_hand_overs(moves, learner),
        "" if record is None else section_of_record(record, task),
        section_of_doubts(summary, costs, learner),
        section_of_methods(summary, costs),
    ]
    length = plural(summary.episodes, summary.unit.removesuffix("s"))
    lead = f"{' and '.join(task.members) if len(task.members) < 3 else plural(len(task.members), 'agent')}, after {length}."
    return LearnerReport(name, page.page(name, lead, *parts))


# ------------------------------------------------------------------------------------------------- costs


@dataclass(frozen=True)
class Costs:
    """What the plan and its alternatives cost, and what the plan saves against each."""

    plan: Estimate
    others: tuple[Estimate, ...]  # each agent alone, and today's rule
    saved: tuple[Estimate, ...]  # the plan against each of them: negative if it saves
    today: int | None  # which of them is today's rule

    @classmethod
    def of(cls, learner: Learner, today: Any, draws: int, advance: Callable[[], None]) -> "Costs":
        """Estimate all of them. today: as for `report`."""
        task = learner.task
        policies: list[Any] = [member for member in range(len(task.members)) if task.can_reach(member)]
        place = None
        if today is not None:
            is_agent = check.ndim(today) == 0 and today != "baseline" and not hasattr(today, "policy")
            one: Any = task.agent_index("report", "today", today) if is_agent else today
            policies += [] if is_agent and one in policies else [one]
            place = policies.index(one) if is_agent else len(policies) - 1
        others, saved = [], []
        plan = estimate(learner, draws=draws)
        for policy in policies:
            others.append(estimate(learner, policy, draws=draws))
            advance()
            saved.append(estimate(learner, against=policy, draws=draws))
            advance()
        return cls(plan, tuple(others), tuple(saved), place)

    @property
    def per(self) -> str:
        """Return the unit of the costs, in words that go into a sentence."""
        return "discounted run" if self.plan.per == "run, discounted" else self.plan.per

    def name(self, i: int) -> str:
        """Return the name of an alternative."""
        own = self.others[i].policy
        known = own if own not in ("a policy", "a plan", "baseline") else "today's rule"
        return f"{known} (today's rule)" if i == self.today and known != "today's rule" else known

    @property
    def rival(self) -> int:
        """Return which alternative the plan is measured by first: today's rule, else the cheapest agent alone."""
        return self.today if self.today is not None else int(np.argmin([other.mean for other in self.others]))


def with_interval(mean: float, low: float, high: float) -> str:
    """Return a number with its interval in brackets."""
    middle, least, most = rounded(mean, low, high)
    return f"{middle} ({least} to {most})"


def rounded(mean: float, low: float, high: float) -> tuple[str, ...]:
    """Return a number and the ends of its interval: with the digits of the width, or if that is wide, with two of each."""
    if high - low <= abs(mean):
        return interval(mean, low, high)
    return tuple(figure(value, (high - low) / 100, digits=2) for value in (mean, low, high))


def verdict(saved: Estimate, other: str, per: str) -> str:
    """Return a sentence about the difference between the plan and another policy: no more than its interval says."""
    amounts = with_interval(-saved.mean, -saved.high, -saved.low)
    if saved.mean == saved.low == saved.high == 0.0:
        return f"The plan does the same as {other}."
    if saved.high < 0:
        return f"Against {other}, the plan saves {amounts} per {per}."
    if saved.low > 0:
        return f"Against {other}, the plan costs {with_interval(saved.mean, saved.low, saved.high)} more per {per}."
    return (
        f"Against {other}, no saving is shown yet: per {per} it may save up to {figure(-saved.low)}, or cost up to "
        f"{figure(saved.high)} more."
    )


def section_of_costs(costs: Costs, learner: Learner) -> str:
    """Return what the plan costs, and what it saves."""
    per, plan = costs.per, costs.plan
    first = f"With the plan, a{'n' if per[0] in 'aeiou' else ''} {per} costs {with_interval(plan.mean, plan.low, plan.high)}."
    saved, other = costs.saved[costs.rival], costs.others[costs.rival]
    part = ""
    if saved.high < 0 < other.mean and saved.high - saved.low <= -saved.mean:
        part = f" That is {-saved.mean / other.mean:.0%} of what {costs.name(costs.rival)} costs."
    rows = [("the plan", *interval_cells(plan), "")]
    for i, (alone, against) in enumerate(zip(costs.others, costs.saved, strict=True)):
        rows.append((costs.name(i), *interval_cells(alone), saving_cell(against)))
    told = "" if learner.episode > 1 else "Nothing was learned yet: all numbers are guesses."
    return page.section(
        "What it costs, and what it saves",
        page.notes([told] if told else []),
        page.paragraph(f"{first} {verdict(saved, costs.name(costs.rival), per)}{part}", "main"),
        page.picture("costs with intervals", costs_picture(costs), "34rem"),
        page.table((f"cost per {per}", "estimate", "interval", "the plan saves"), rows),
        page.paragraph(meaning(plan), "soft"),
    )


def interval_cells(one: Estimate) -> tuple[str, str]:
    """Return an estimate, and its interval, as cells of a table."""
    middle, low, high = rounded(one.mean, one.low, one.high)
    return middle, f"{low} to {high}"


def saving_cell(saved: Estimate) -> str:
    """Return what the plan saves as a cell of a table; in words if the interval holds both signs."""
    if saved.low == saved.high == 0.0:
        return "0"
    return with_interval(-saved.mean, -saved.high, -saved.low) + (", not shown" if saved.low <= 0 <= saved.high else "")


def meaning(one: Estimate) -> str:
    """Return what the intervals mean, in a sentence."""
    hold = "They assume that states, costs and agents are as declared, and stay as they were."
    if one.kind == DRAWS:
        return f"In brackets: {one.level:.0%} of {one.draws} draws of everything that fits the steps seen. {hold}"
    return f"In brackets: bounds that hold all at once, with a probability of at least {one.level:.0%}. {hold}"


def costs_picture(costs: Costs) -> Any:
    """Draw the costs of the plan and of its alternatives with their intervals."""
    rows = [("the plan", costs.plan), *((costs.name(i), one) for i, one in enumerate(costs.others))]
    with need("matplotlib", "plots").rc_context({**LOOK, "font.size": 10}):
        drawn = need("matplotlib.figure", "plots").Figure(figsize=(4.8, 0.75 + 0.42 * len(rows)), layout="constrained")
        axes = drawn.subplots()
        for i, (_, one) in enumerate(rows):
            colour = "#D55E00" if i == 0 else "#555555"
            axes.plot([one.low, one.high], [i, i], color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
            axes.plot([one.mean], [i], "o", color=colour, markersize=7)
        axes.set_yticks(range(len(rows)), [wrapped_label(name, 24) for name, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(f"cost per {costs.per}")
        axes.margins(x=0.06)
        axes.grid(False, axis="y")
    return drawn


# ------------------------------------------------------------------------------------------------- control


def section_of_control(summary: Summary, learner: Learner) -> str:
    """Return who acts in which states."""
    colours = [AGENT_COLOURS[i % len(AGENT_COLOURS)] for i in range(len(summary.agents))]
    total = max(sum(summary.control), 1e-300)
    so_far = tuple(steps / total for steps in summary.control)
    rows = [("by the plan", "all steps", summary.planned)]
    if sum(summary.control):
        rows.append(("so far", f"{sum(summary.control):,.0f} steps, trials and learning included", so_far))
    met = sorted((group for group in summary.groups if group.is_met and not group.ends), key=lambda group: -group.steps)
    groups = [(group.name, f"{group.how_often} {summary.steps_of}", group.shares or ()) for group in met]
    rest = sum(not group.is_met and not group.ends for group in summary.groups)
    left_out = (
        f"{plural(rest, 'further situation')} {'is' if rest == 1 else 'are'} never met, or hardly ever by the plan." if rest else ""
    )
    return page.section(
        "Who acts when",
        page.bars(summary.agents, colours, rows),
        page.paragraph("In which situations, the most frequent ones first:" if groups else ""),
        page.bars(summary.agents, colours, groups) if groups else "",
        page.paragraph(left_out, "soft"),
        page.paragraph(" ".join(f"{line[0].upper()}{line[1:]}." for line in summary.endings()), "soft"),
    )


@dataclass(frozen=True)
class HandOver:
    """How often the plan hands control from one member to another."""

    before: int
    after: int
    often: float  # per episode; without a horizon per step
    cost: float  # of one, in the mean
    places: tuple[str, ...]  # the states in which it is most frequent


def hand_overs(learner: Learner) -> list[HandOver]:
    """Return the hand-overs of the plan under the observed frequencies, the most frequent first."""
    task, policy = learner.costs.middle("report", learner.task), learner.plan.policy
    policy = policy.reshape(-1, task.n_states, task.n_agents)
    met = occupancy(task, *frequencies(learner), policy, starts_of("report", learner).chances)
    steps = 1.0 if task.horizon is not None else max(float(met.sum()), 1e-300)
    names = task.state_names or [f"state {s}" for s in range(task.n_states)]
    return handed_over(task, policy, met / steps, names)


def handed_over(task: Task, policy: Policy, met: Floats, names: Any) -> list[HandOver]:
    """Return the hand-overs of a policy, (L, S, D). met: expected visits, (L, S, D)."""
    states, agents = np.arange(task.n_states)[:, None], np.arange(task.n_agents)
    aim, moves = task.layout.aim, dict[tuple[int, int], Floats]()
    paid = dict[tuple[int, int], float]()
    for chosen, here in zip(policy, met, strict=True):
        handed = is_hand_over(aim, agents, chosen) & (here > 0)
        price = np.broadcast_to(task.control_costs(states, agents, chosen)[1], here.shape)
        for s, prev in np.argwhere(handed):
            pair = int(aim[prev]), int(aim[chosen[s, prev]])
            moves.setdefault(pair, np.zeros(task.n_states))[s] += here[s, prev]
            paid[pair] = paid.get(pair, 0.0) + float(here[s, prev] * price[s, prev])
    result = []
    for pair, where in moves.items():
        often = float(where.sum())
        most = [str(names[s]) for s in np.argsort(-where, kind="stable")[:MOST_PLACES] if where[s] >= 0.1 * often]
        result.append(HandOver(*pair, often, paid[pair] / often, tuple(most)))
    return sorted(result, key=lambda move: -move.often)


def section_of_hand_overs(moves: list[HandOver], learner: Learner) -> str:
    """Return how often, where and at what price the plan hands over."""
    task, unit = learner.task, "episode" if learner.task.horizon is not None else "step"
    listed = [move for move in moves if move.often >= SELDOM]
    if not listed:
        return page.section("Hand-overs", page.paragraph("The plan hardly ever hands over control."))
    often, cost = sum(move.often for move in moves), sum(move.often * move.cost for move in moves)
    text = f"In 100 {unit}s, the plan hands over control {figure(100 * often)} times in the mean. "
    rows = [
        (f"{task.members[m.before]} to {task.members[m.after]}", "; ".join(m.places), figure(100 * m.often), figure(m.cost))
        for m in listed
    ]
    price = f"Hand-overs cost {figure(cost)} per {unit}." if cost else "Hand-overs cost nothing."
    return page.section(
        "Hand-overs",
        page.paragraph(text + price),
        page.table(("from, to", "mostly in", f"in 100 {unit}s", "cost of one"), rows, left=2),
        page.paragraph("Means by what was observed so far, without intervals.", "soft"),
    )


# ------------------------------------------------------------------------------------------------- what happened, doubts, methods


def section_of_record(record: Record, task: Task) -> str:
    """Return what a record says: costs, shares and overrides as they happened."""
    episodes, steps = record.episodes(), len(record)
    if not steps:
        return page.section("What happened", page.paragraph("The record holds no steps."))
    unit, cost = "episode", episodes.cost[record.ended]
    if not record.has_horizon:
        unit, cost = "step", episodes.cost / np.maximum(episodes.control.sum(axis=1), 1)
    held = episodes.control.sum(axis=0) / max(int(episodes.control.sum()), 1)
    colours = [AGENT_COLOURS[i % len(AGENT_COLOURS)] for i in range(len(record.agents))]
    texts = [plural(steps, "step") + (f" in {plural(len(record.ended), 'episode')}." if record.has_horizon else ".")]
    if record.has_horizon and len(cost) >= LEAST:
        n = len(cost) // 10
        early, late = (
            f"{figure(float(part.mean()))} ± {figure(2 * float(part.std(ddof=1)) / np.sqrt(n), digits=2)}"
            for part in (cost[:n], cost[-n:])
        )
        texts.append(f"In the first tenth of them, an episode cost {early} in the mean; in the last tenth {late}.")
    elif len(cost):
        texts.append(f"A{'n' if unit == 'episode' else ''} {unit} cost {figure(float(cost.mean()))} in the mean.")
    share = float(episodes.overrides.sum()) / steps
    texts.append(f"In {share:.1%} of the steps, another agent acted than the learner chose." if share else "")
    return page.section(
        "What happened",
        page.paragraph(" ".join(text for text in texts if text)),
        page.bars(record.agents, colours, [("in control", f"{steps:,} steps", held.tolist())]),
        page.picture("costs, control and hand-overs over time", record.plot(), "42rem"),
        page.paragraph(
            "Every episode is a matter of chance; ± is twice the standard error of a mean." if len(texts) > 1 else "", "soft"
        ),
    )


def section_of_doubts(summary: Summary, costs: Costs, learner: Learner) -> str:
    """Return what is uncertain: warnings, and the rows that could change the cost most."""
    warned = dict.fromkeys([*summary.warnings, *(text for one in (costs.plan, *costs.others) for text in one.warnings)])
    rows = [(row.layer, row.place, f"{row.visits:,.0f}", figure(row.matters)) for row in summary.widest]
    few = page.paragraph("What could change the cost most, where the learner knows least for what it matters:") if rows else ""
    nothing = "" if rows or warned else "Nothing stands out: no warnings, and no situation was seen too seldom to matter."
    return page.section(
        "What is uncertain",
        page.notes([f"{text}." for text in warned]),
        few,
        page.table(("how", "where", "times seen", f"could change the {summary.cost_of} by"), rows, left=2) if rows else "",
        page.paragraph(nothing),
    )


def section_of_methods(summary: Summary, costs: Costs) -> str:
    """Return how the numbers were made."""
    settings = [f"{key}: {value}" for key, value in summary.settings.items() if value not in (None, [], {})]
    texts = [
        f"Learner: {', '.join(settings)}.",
        f"Where episodes start: {summary.starts}.",
        f"cede {__version__}, {date.today():%d %B %Y}.",
    ]
    return page.section("How this was computed", *(page.paragraph(text, "soft") for text in texts))
