"""The picture of a run: cost, shares of control and hand-overs over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cede._base.arrays import Floats
from cede._base.extras import AGENT_COLOURS, label, pyplot

LOOK = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E5E5E5",
    "legend.frameon": False,
}
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7")
MOST_POINTS = 2000  # of a line: a picture cannot show more
LONGEST_NAME = 24  # of a member in the legend
MOST_MEMBERS = 7  # with a colour of their own; all others are drawn together


@dataclass(frozen=True, eq=False)
class RunPicture:
    """The data of the picture of a run, for every kind of history: K episodes, D members. `draw` makes the picture."""

    title: str
    cost: Floats  # (K,) what each episode cost
    control: Any  # (K, D) steps in which each member acted
    counts: Mapping[str, Any]  # by name (K,): events in each episode: hand-overs, overrides
    agents: Sequence[str]  # (D,) names
    unit: str = "episode"  # name of one of the K
    each: int = 1  # units in one of the K, if these are blocks of steps
    expected: Floats | None = None  # (K,) expected cost, if it is known
    optimum: float | None = None  # what the best policy costs, if it is known
    regret: Floats | None = None  # (K,) cumulative, if it is known
    cost_label: str = field(default="cost")


def draw(run: RunPicture) -> Any:
    """Draw a run, and return the Matplotlib figure. Needs the extra `plots`."""
    plt = pyplot()
    shows_regret = run.regret is not None and bool(np.isfinite(run.regret).any())
    panels = 3 + shows_regret
    with plt.rc_context(LOOK):
        picture, axes = plt.subplots(panels, 1, figsize=(7.2, 1.0 + 1.75 * panels), sharex=True, layout="constrained")
        draw_costs(axes[0], run)
        if run.regret is not None and shows_regret:
            x, y = thinned(run, run.regret)
            axes[1].plot(x, y, color=COLOURS[0], linewidth=1.6)
            axes[1].set_ylabel("total regret")
        draw_control(axes[-2], run)
        draw_counts(axes[-1], run)
        axes[-1].set_xlabel(run.unit)
        axes[-1].set_xlim(0, len(run.cost) * run.each)
        for panel in axes[:-2]:
            panel.ticklabel_format(axis="y", style="sci", scilimits=(-4, 5), useMathText=True)
        picture.suptitle(label(run.title[:80]), fontsize=10)
        picture.align_ylabels(axes)
    plt.close(picture)  # pyplot forgets the figure, which stays usable
    return picture


def draw_costs(axes: Any, run: RunPicture) -> None:
    """Draw realised costs, episode by episode and as a running mean, the expected cost and that of the best policy."""
    x, y = thinned(run, run.cost)
    window = max(1, len(run.cost) // 50)
    if window > 1:
        axes.plot(x, y, color="#BBBBBB", linewidth=0.5)
    name = f"mean of {window * run.each:,} {run.unit}s" if window * run.each > 1 else f"each {run.unit}"
    axes.plot(*thinned(run, running_mean(run.cost, window)), color=COLOURS[1], linewidth=1.6, label=name)
    if run.expected is not None and np.isfinite(run.expected).all():
        axes.plot(*thinned(run, run.expected), color=COLOURS[0], linewidth=1.2, label="expected")
    if run.optimum is not None and np.isfinite(run.optimum):
        axes.axhline(run.optimum, color="#444444", linewidth=0.9, linestyle="--", label="best possible")
    axes.set_ylabel(run.cost_label)
    legend(axes)


def draw_control(axes: Any, run: RunPicture) -> None:
    """Draw the share of control of each member as stacked areas."""
    window = max(1, len(run.cost) // 50)
    control = np.asarray(run.control, dtype=np.float64)
    names = [label(name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}...") for name in run.agents]
    if control.shape[1] > MOST_MEMBERS + 1:
        order = np.argsort(-control.sum(axis=0), kind="stable")
        most_active, rest = np.sort(order[:MOST_MEMBERS]), order[MOST_MEMBERS:]
        names = [*(names[i] for i in most_active), f"{len(rest)} others"]
        control = np.column_stack([control[:, most_active], control[:, rest].sum(axis=1)])
    means = np.stack([running_mean(column, window) for column in control.T])
    total = means.sum(axis=0)
    shares = means / np.where(total > 0, total, 1.0)
    x, _ = thinned(run, run.cost)
    thin = np.stack([thinned(run, share)[1] for share in shares])
    axes.stackplot(x, thin, labels=names, colors=[AGENT_COLOURS[i % len(AGENT_COLOURS)] for i in range(len(names))], linewidth=0)
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
    axes.set_ylabel("in control")
    axes.grid(False)
    legend(axes)


def draw_counts(axes: Any, run: RunPicture) -> None:
    """Draw the counts of events, as running means."""
    window = max(1, len(run.cost) // 50)
    for i, (name, counts) in enumerate(run.counts.items()):
        mean = running_mean(np.asarray(counts, dtype=np.float64), window) / run.each
        axes.plot(*thinned(run, mean), color=COLOURS[(i + 1) % len(COLOURS)], linewidth=1.4, label=name)
    axes.set_ylim(0, None)
    axes.set_ylabel(f"per {run.unit}")
    legend(axes)


def legend(axes: Any) -> None:
    """Put the legend beside a panel, where it hides nothing."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, handlelength=1.4)


def running_mean(values: Floats, window: int) -> Floats:
    """Return the mean of each value and up to `window - 1` before it, (K,)."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - window, 0)
    result: Floats = (sums[ends] - sums[begins]) / (ends - begins)
    return result


def thinned(run: RunPicture, values: Floats) -> tuple[Floats, Floats]:
    """Return x and y of a line, thinned to at most MOST_POINTS points."""
    n = len(values)
    places = np.arange(n) if n <= MOST_POINTS else np.unique(np.linspace(0, n - 1, MOST_POINTS).astype(np.int64))
    at: Floats = ((places + 1) * run.each).astype(np.float64)
    return at, np.asarray(values, dtype=np.float64)[places]
