"""The table of a comparison: means, paired differences to a reference, intervals and a test; as text and as LaTeX.

Names of worlds and learners are data. They are shown as they are, and never interpreted by a terminal or by LaTeX.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

import numpy as np

from cede._base import check
from cede._base.arrays import Floats
from cede.comparison.paired import LEAST_REPEATS, LEVEL, MOST_EXACT, holm, mean_interval, repeats_needed, sign_flip_test

Interval = tuple[float, float]
WIDTH = 100  # of the note under a table
REALISED = "realised"  # beside the name of a learner whose regret is not exact
NOT_EXACT = "Realised: what episodes really cost beyond the optimum, since the learner shows no policy; noisier than exact regret."
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    **{sign: f"{{{sign}}}" for sign in "-'\"[]*,?!"},  # no dashes, quotes or options of \\ are made of them
}


@dataclass(frozen=True)
class ComparisonRow:
    """One learner in one world. With too few repeats there are no intervals; the reference is not compared."""

    world: str
    learner: str
    mean: float  # over repeats
    interval: Interval | None  # of the mean
    difference: float | None = None  # to the reference, mean over repeats; negative: less than the reference
    difference_interval: Interval | None = None
    p: float | None = None  # of the sign-flip test
    corrected: float | None = None  # the same, corrected for the number of comparisons
    verdict: str = "reference"  # or "lower", "higher", "not decided", "too few repeats"


@dataclass(frozen=True)
class ComparisonTable:
    """Means and paired differences of a comparison. str() is text for a terminal, `latex` is a tabular for a paper."""

    rows: tuple[ComparisonRow, ...]
    note: str  # measure, methods and number of repeats

    @property
    def head(self) -> list[str]:
        """Return the titles of the columns."""
        return ["world", "learner", "mean", "95% interval", "difference", "95% interval", "p", ""]

    def cells(self) -> list[list[str]]:
        """Return all rows as text, numbers in the same form for all."""
        lines = []
        for i, row in enumerate(self.rows):
            again = i > 0 and self.rows[i - 1].world == row.world
            digits = digits_for(max(abs(row.mean), abs(row.difference or 0.0)))
            p = "" if row.corrected is None else shown_p(row.corrected)
            gap = "" if row.difference is None else shown(row.difference, digits, "+")
            ends = [shown_interval(interval, digits) for interval in (row.interval, row.difference_interval)]
            numbers = [shown(row.mean, digits), ends[0], gap, ends[1], p]
            lines.append(["" if again else row.world, row.learner, *numbers, row.verdict])
        return lines

    def __str__(self) -> str:
        """Return the table as text. Names are aligned to the left, numbers to the right."""
        from rich.cells import cell_len

        lines = [[check.printable(cell) for cell in cells] for cells in [self.head, *self.cells()]]
        widths = [max(cell_len(line[i]) for line in lines) for i in range(len(self.head))]
        text = []
        for line in lines:
            padded = []
            for i, (cell, width) in enumerate(zip(line, widths, strict=True)):
                space = " " * (width - cell_len(cell))
                padded.append(cell + space if i in (0, 1, 7) else space + cell)
            text.append("  ".join(padded).rstrip())
        rule = "-" * max(cell_len(line) for line in text)
        return "\n".join([text[0], rule, *text[1:], rule, fill(check.printable(self.note), max(WIDTH, len(rule)))])

    @property
    def latex(self) -> str:
        """Return the table as a LaTeX tabular, which needs no package."""
        lines = [r"\begin{tabular}{llrrrrrl}", r"\hline"]
        for i, cells in enumerate([self.head, *self.cells()]):
            names, numbers = [escaped(cell) for cell in (*cells[:2], cells[7])], [as_math(cell) for cell in cells[2:7]]
            words = [escaped(cell) for cell in cells[2:7]]
            lines.append(" & ".join([*names[:2], *(numbers if i else words), names[2]]) + r" \\")
            lines += [r"\hline"] if i in (0, len(self.rows)) else []
        note = rf"\multicolumn{{8}}{{p{{0.95\linewidth}}}}{{\footnotesize {escaped(self.note)}}}"
        return "\n".join([*lines, note, r"\end{tabular}"]) + "\n"


def digits_for(value: float) -> int:
    """Return how many decimal places show three to four digits of a value."""
    return int(np.clip(2 - np.floor(np.log10(value)), 0, 6)) if value > 0 else 0


def shown(value: float, digits: int, sign: str = "") -> str:
    """Return a number with so many decimal places. sign: "+" to show it always."""
    return f"{round(value, digits) + 0.0:{sign},.{digits}f}"


def shown_interval(interval: Interval | None, digits: int) -> str:
    """Return an interval as text, empty if there is none."""
    return "" if interval is None else f"{shown(interval[0], digits)} to {shown(interval[1], digits)}"


def shown_p(p: float) -> str:
    """Return a p-value as text."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def escaped(text: str) -> str:
    """Return a text with LaTeX's special characters escaped."""
    return "".join(LATEX.get(sign, sign) for sign in check.printable(text))


def as_math(text: str) -> str:
    """Return numbers, as this table writes them, as LaTeX: with minus signs instead of hyphens, and no space after commas."""
    return " to ".join(f"${part.replace(',', '{,}')}$" if part else "" for part in text.split(" to "))


def make_table(
    values: Floats, worlds: Sequence[str], learners: Sequence[str], reference: str, what: str, realised: Sequence[str] = ()
) -> ComparisonTable:
    """Make the table of one measure. values: (W, N, R) by world, learner and repeat; what: the measure in words; realised: learners
    whose values are not exact.
    """
    repeats, comparisons = values.shape[2], len(worlds) * (len(learners) - 1)
    base = learners.index(reference)
    differences = values - values[:, [base]]
    few = repeats < LEAST_REPEATS
    pairs = [(w, n) for w in range(len(worlds)) for n in range(len(learners)) if n != base]
    raw = [sign_flip_test(differences[pair]) for pair in pairs]
    tested = dict(zip(pairs, zip(raw, holm(raw), strict=True), strict=True))
    means, gaps = (intervals_of(some) if not few else {} for some in (values, differences))
    rows = []
    for w, n in np.ndindex(values.shape[:2]):
        name = f"{learners[n]} ({REALISED})" if learners[n] in realised else learners[n]
        row = ComparisonRow(worlds[w], name, float(values[w, n].mean()), means.get((w, n)))
        if n != base:
            gap, (p, corrected) = float(differences[w, n].mean()), tested[w, n]
            verdict = verdict_of(gap, corrected, repeats, comparisons)
            row = ComparisonRow(row.world, row.learner, row.mean, row.interval, gap, gaps.get((w, n)), p, corrected, verdict)
        rows.append(row)
    note = note_of(what, reference, repeats, comparisons)
    return ComparisonTable(tuple(rows), f"{note} {NOT_EXACT}" if realised else note)


def intervals_of(values: Floats) -> dict[tuple[int, int], Interval]:
    """Return the interval of the mean over repeats, by world and learner. values: (W, N, R)."""
    low, high = mean_interval(values.reshape(-1, values.shape[2]).T)
    return {place: (float(low[i]), float(high[i])) for i, place in enumerate(np.ndindex(values.shape[:2]))}


def verdict_of(difference: float, corrected: float, repeats: int, comparisons: int) -> str:
    """Return the verdict of a comparison, in words."""
    if repeats < repeats_needed(comparisons):
        return "too few repeats"
    if corrected >= 1 - LEVEL:
        return "not decided"
    return "lower" if difference < 0 else "higher"


def note_of(what: str, reference: str, repeats: int, comparisons: int) -> str:
    """Return the note under the table: measure and methods."""
    times = f"{repeats:,} repeat" + ("s" if repeats > 1 else "")
    text = f"{what}, mean of {times} with paired seeds. "
    if repeats >= LEAST_REPEATS:
        text += "Intervals: BCa bootstrap, at least as wide as Student's, not corrected for their number. "
    else:
        text += f"Intervals need at least {LEAST_REPEATS} repeats. "
    if not comparisons:
        return text.strip()
    how = "exact" if repeats <= MOST_EXACT else "with random flips"
    text += f"Difference: to {reference}, repeat by repeat. p: sign-flip permutation test of the mean difference, two-sided, {how}"
    text += f", corrected for {comparisons} comparisons (Holm). " if comparisons > 1 else ". "
    needed = repeats_needed(comparisons)
    if repeats < needed:
        compared = f"{comparisons} comparisons" if comparisons > 1 else "1 comparison"
        return text + f"Nothing can be decided: with {times} and {compared} no p can be below 0.05; at least {needed} are needed."
    return text + "Lower, higher: p < 0.05."
