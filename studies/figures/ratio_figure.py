"""Make a figure of UCRL2-MC's final regret over UCRL2's of one team in RiverSwim, as one number grows: agents or actions."""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from studies.drawing import draw_ratios
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.runs import river
from studies.tables import all_rows, final_rows

SIZES, QUICK_SIZES = tuple(range(3, 11)), (3, 6, 10)  # unless a figure has others
EPISODES, QUICK_EPISODES = 20_000, 300
REPEATS, QUICK_REPEATS = 5, 2

Outcomes = Sequence[tuple[Part, Outcome]]


def last_points(outcomes: Outcomes) -> list[Row]:
    """Make a table of the last point of each curve."""
    return final_rows(all_rows(outcomes))


def ratio_figure(
    name: str,
    title: str,
    story: str,
    *,
    part: Callable[[str, int, int, int], Part],
    column: str,
    axis_label: str,
    note: str,
    sizes: Sequence[int] = SIZES,
    quick_sizes: Sequence[int] = QUICK_SIZES,
    quick_episodes: int = QUICK_EPISODES,
    ticks: Sequence[int] | None = None,
) -> Figure:
    """Return a figure with one run for each size, learner and repeat.

    part: makes the run from a learner's name, a size, the number of episodes and a seed; column: of the table, for the horizontal
    axis; note: small print; ticks: as in `draw_ratios`.
    """

    def parts(options: Options) -> list[Part]:
        n = options.choose("episodes", EPISODES, quick_episodes)
        runs = product(quick_sizes if options.quick else sizes, river.LEARNERS, options.seeds(REPEATS, QUICK_REPEATS))
        return [part(learner, size, n, seed) for size, learner, seed in runs]

    def draw(rows: list[Row], path: Path) -> list[Path]:
        return draw_ratios(rows, column, axis_label, path, note, ticks)

    return Figure(name, title, story, parts, last_points, draw)
