"""What the paper argues rather than shows: how regret grows with the sizes of a problem, and which actions it should depend on."""

from cede.experiments.claims.finding import FAILS, HOLDS, Finding, joined
from cede.experiments.claims.rules import ACCOUNTED_FOR, TREND, WITHIN_BOUND
from cede.experiments.claims.statistics import Effect, below, digits, effect, intervals, judged, paired, quotient
from cede.experiments.figure import Row
from cede.experiments.figures import action_why as why
from cede.experiments.figures.growth import WORDS, exponents
from cede.experiments.runs.growth import USUAL
from cede.experiments.tables import final_rows, select, values


def growth(rows: list[Row]) -> list[Finding]:
    """Judge Theorem 2 and the corollary on random problems: that they hold, and that regret grows no faster than they say."""
    worst = max(row["regret"] / row["bound"] for row in rows)
    problems, looks = len({(row["seed"], row["axis"], *(row[name] for name in USUAL)) for row in rows}), len(rows)
    result = [
        Finding(
            "The bounds of Theorem 2 and of the corollary hold on random problems",
            "growth",
            f"largest regret / bound in {problems} problems",
            digits(worst),
            f"the largest of {looks} looks",
            HOLDS if worst < WITHIN_BOUND.limit else FAILS,
            WITHIN_BOUND.name,
        )
    ]
    for axis in values(rows, "axis"):
        measured, printed = exponents(rows, axis, "regret"), float(exponents(rows, axis, "bound").mean())
        found = effect(measured)
        claim = f"On random problems regret grows no faster with {axis} ({WORDS[axis]}) than the bound"
        less = Effect(found.value - printed, found.low - printed, found.high - printed, found.n)
        text = "exponent of regret, fitted for each problem, and that of the bound over the same sizes"
        shown, verdict = f"{found.value:.2f}, bound {printed:.2f}", below(less, TREND.limit)
        result.append(Finding(claim, "growth", text, shown, intervals([found]), verdict, TREND.name))
    return result


def ratios_to_same_form(rows: list[Row], learner: str) -> dict[str, Effect]:
    """Return the regret of a learner over that of UCRL2 (same-form), paired by seed, for each number of actions above 2."""
    last, result = final_rows(rows), {}
    for n in sorted(values(last, "actions"))[1:]:
        ours, theirs = (select(last, learner=name, actions=n) for name in (learner, why.SAME_FORM))
        result[f"{n} actions"] = quotient(*paired(ours, theirs))
    return result


def conjecture(rows: list[Row]) -> list[Finding]:
    """Judge the paper's conjecture that regret should depend on the actions that agents take, not on all that there are."""
    found = ratios_to_same_form(rows, why.KL_AGENTS)
    printed = ratios_to_same_form(rows, why.PRINTED)
    measured = "; ".join(f"{name}: {digits(one.value)} (printed {digits(printed[name].value)})" for name, one in found.items())
    verdict = joined({name: below(one, ACCOUNTED_FOR.limit) for name, one in found.items()})
    claim = "Sets that follow from the actions that agents take spare UCRL2-MC what unused actions cost it"
    text = "regret with KL sets of the agents / UCRL2 (same-form); in brackets with printed sets"
    return [Finding(claim, "action-why", text, measured, intervals(list(found.values())), verdict, ACCOUNTED_FOR.name)]


def unused_actions(rows: list[Row]) -> list[Finding]:
    """Judge our explanation of what UCRL2-MC loses more than UCRL2 with four and more actions."""
    claim = "what UCRL2-MC loses more than UCRL2 from 4 actions on comes from its sets of the agents alone"
    text = "regret with known agents / UCRL2 (same-form)"
    return [judged(claim, "action-why", text, ratios_to_same_form(rows, why.KNOWN_AGENTS), ACCOUNTED_FOR)]
