"""What the paper argues rather than shows: how regret grows with the sizes of a problem, and which actions it should depend on."""

from dataclasses import replace

import numpy as np

from studies.claims.finding import OURS, Finding, of_bound
from studies.claims.rules import ACCOUNTED_FOR, NEXT_TO_NOTHING, TREND, WITHIN_BOUND
from studies.claims.statistics import Effect, below, digits, effect, intervals, judged, paired, quotient
from studies.figure import Row
from studies.figures import action_why as why
from studies.figures.growth import WORDS, exponents
from studies.runs.growth import USUAL
from studies.tables import final_rows, select, values


def growth(rows: list[Row]) -> list[Finding]:
    """Judge Theorem 2 and the corollary on random problems: that they hold. A bound above all that could be lost always does."""
    worst, trivial = max(row["regret"] / row["bound"] for row in rows), min(row["bound"] / (row["N"] * row["T"]) for row in rows)
    problems = len({(row["seed"], *(row[name] for name in USUAL)) for row in rows})
    statistic = f"largest regret / bound in {problems} problems; in brackets the least bound / steps, each of which costs at most 1"
    measured = f"{digits(worst)} ({digits(trivial)})"
    claim = "The bounds of Theorem 2 and of the corollary hold on random problems"
    return [Finding(claim, "growth", statistic, measured, "largest of all checks", of_bound(worst, trivial), WITHIN_BOUND.name)]


def growth_exponents(rows: list[Row]) -> list[Finding]:
    """Compare how fast regret grows with each size to how fast its bound does. Regret that grows faster, a thousand times below the
    bound, contradicts nothing.
    """
    result = []
    for axis in values(rows, "axis"):
        measured, printed = exponents(rows, axis, "regret"), float(exponents(rows, axis, "bound").mean())
        found = effect(measured)
        claim = f"On random problems of these sizes regret grows no faster with {axis} ({WORDS[axis]}) than its bound"
        less = Effect(found.value - printed, found.low - printed, found.high - printed, found.n)
        text = "exponent of regret, fitted for each seed, and exponent of the bound over the same sizes"
        shown, verdict = f"{found.value:.2f}, bound {printed:.2f}", below(less, TREND.limit)
        result.append(Finding(claim, "growth", text, shown, intervals([found]), verdict, TREND.name, OURS))
    return result


def ratios_to_same_form(rows: list[Row], learner: str) -> dict[str, Effect]:
    """Return the regret of a learner over that of UCRL2 (same-form), paired by seed, for each number of actions above 2."""
    last, result = final_rows(rows), {}
    for n in sorted(values(last, "actions"))[1:]:
        ours, theirs = (select(last, learner=name, actions=n) for name in (learner, why.SAME_FORM))
        result[f"{n} actions"] = quotient(*paired(ours, theirs))
    return result


def untaken_actions(rows: list[Row]) -> list[Finding]:
    """Judge what one might hope for because, as the paper says, only the actions that agents take need to be learned: that others
    cost nothing. In this study they take two, whatever their number; UCRL2 (same-form), which knows no actions, shows what else has
    changed.
    """
    last, found = final_rows(rows), {}
    few, *_, most = n_of = sorted(values(last, "actions"))
    for n, m in ((few, n_of[1]), (n_of[1], most)):
        ours, theirs = (
            np.divide(*paired(select(last, learner=name, actions=m), select(last, learner=name, actions=n)))
            for name in (why.PRINTED, why.SAME_FORM)
        )
        found[f"from {n} to {m}"] = quotient(ours, theirs)
    claim = "Unused actions cost UCRL2-MC next to nothing"
    text = "regret with more actions / with fewer, relative to the same of UCRL2 (same-form)"
    return [judged(claim, "action-why", text, found, NEXT_TO_NOTHING)]


def conjecture(rows: list[Row]) -> list[Finding]:
    """Judge whether sets that follow from the actions that agents take do what the paper hopes for from a better analysis."""
    found = ratios_to_same_form(rows, why.KL_AGENTS)
    printed = ratios_to_same_form(rows, why.PRINTED)
    measured = "; ".join(f"{name}: {digits(one.value)} (printed {digits(printed[name].value)})" for name, one in found.items())
    claim = "With sets that depend on the actions that agents take, unused actions cost UCRL2-MC nothing"
    text = "regret with KL sets of the agents / UCRL2 (same-form); in brackets with printed sets"
    return [replace(judged(claim, "action-why", text, found, ACCOUNTED_FOR), measured=measured)]


def unused_actions(rows: list[Row]) -> list[Finding]:
    """Judge our explanation of what UCRL2-MC loses more than UCRL2 with four and more actions."""
    claim = "From 4 actions on, UCRL2-MC loses more than UCRL2 only because of its sets of the agents"
    text = "regret with known agents / UCRL2 (same-form)"
    return [judged(claim, "action-why", text, ratios_to_same_form(rows, why.KNOWN_AGENTS), ACCOUNTED_FOR)]
