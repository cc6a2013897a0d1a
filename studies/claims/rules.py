"""The rules by which claims are decided: every threshold once, with the reason why it was fixed at that value.

A limit follows from the words of a claim. Those of our own claims, but for `lane-why`, were written when the tables, and numbers
from them in the documents, were there already; the three turns were fixed after their figures were seen. Where a statistic was
replaced after its first result was seen, the finding says so (`finding.LATER`), and docs/verdicts.md says what the first one gave.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A threshold: what it is called in the table of verdicts, its value, and one sentence that says why it has that value."""

    name: str
    limit: float
    reason: str


LEVEL = Rule("interval", 0.95, "The usual level; intervals are t-intervals of a mean over seeds where no other kind is named.")
SEEDS = Rule("seeds", 2, "One seed has no interval, so it decides nothing that depends on chance.")

# ------------------------------------------------------------------------------------------------------------- of the paper

SUBLINEAR = Rule(
    "sublinear", 0.9, "Largest exponent, fitted over the second half of a run, that we call sublinear: a straight line has 1."
)
LINEAR = Rule(
    "linear", 1e-6, "A policy that does not learn has exactly linear regret, so the exponent may differ from 1 by rounding only."
)
COMPARABLE = Rule("comparable", 2.0, "Regrets within a factor 2 of each other look alike in the paper's figures.")
WELL_BELOW = Rule(
    "well below", 0.8, "A fifth less is the smallest difference that is visible in the paper's figures at first sight."
)
MUCH_LOWER = Rule("much lower", 0.5, "Much lower should mean at most half.")
IN_SCALE = Rule("in scale", 5.0, "A ratio that varies by less than 5 stays within one order of magnitude, with room to spare.")
LESS = Rule("less", 1.0, "The whole interval of the ratio of regrets is below 1.")
TREND = Rule("trend", 0.0, "Something rises or falls if the interval of its slope, or of a difference of exponents, excludes 0.")
TURN_OF_ACTIONS = Rule(
    "turn of actions", 4, "Where the curve turns in the figure; fixed after a look at it, because one line would hide the turn."
)
TURN_OF_AGENTS = Rule(
    "turn of agents", 6, "Where the curve turns in the figure; fixed after a look at it, because one line would hide the turn."
)
TURN_OF_TEAMS = Rule(
    "turn of teams", 10, "Where the ratio stops falling; fixed after a look at the figure, because one line would hide the turn."
)
NEAR_OPTIMAL = Rule("near-optimal", 1.1, "A tenth above the best is near it for a machine that was trained by trial and error.")
WITHIN_BOUND = Rule("within the bound", 1.0, "A bound is broken if regret exceeds it once in a single run.")
ACCOUNTED_FOR = Rule(
    "accounted for",
    1.1,
    "A ratio that was above 2 and is at most a tenth above 1: little is left of it; fixed after a look at the figure.",
)
SHAPE = Rule("shape", 0.1, "A curve that misses no point by more than a tenth looks like a good fit.")
HALF = Rule("half", 0.5, "More than half of something is most of it.")
A_POINT = Rule("a point", 0.01, "Shares and their limits are given in whole percent: less than one is no difference.")
COVERAGE = Rule("coverage", 0.1, "The delta of all figures: by the theorem the truth may leave the sets with this probability.")

# ------------------------------------------------------------------------------------------------------------- our own

MORE = Rule("more", 1.0, "The whole interval of the ratio is above 1.")
ROOT = Rule(
    "square root",
    0.5,
    "The published order is the square root of time: an exponent of 0.5, and half the mean after four times as long.",
)
AS_MUCH_AGAIN = Rule("as much again", 2.0, "Twice the regret: a user who does not know the costs would still call that tolerable.")
TENTH = Rule("a tenth", 0.1, "An order of magnitude: a smaller gain would not make a useless learner useful.")
HALVED = Rule("halved", 0.5, "A learner that has noticed a change loses at most half of what it lost right after it.")
NEXT_TO_NOTHING = Rule("next to nothing", 1.05, "A user would hardly notice five percent more regret.")
NEAR = Rule(
    "near the best", 0.05, "The threshold of the league: a policy that costs 5% more than the best is good enough to be used."
)
STUCK = Rule(
    "stuck", 0.25, "The threshold of the league: a policy that costs 25% more than the best at the end is not good enough."
)
NEVER = Rule("never", 0, "A single run refutes a claim with never or always.")
PROMISE = Rule("promise", 0.2, "2 delta: the probability with which the guarantee about a baseline may be broken.")
SPREAD = Rule(
    "spread", 2**0.5, "The spread over machines includes chance: their own is wider if the quotient (F) exceeds the root of 2."
)

# ------------------------------------------------------------------------------------------------------------- goals of speed

TIMING = Rule("timing", 0.1, "One run of a benchmark varies by some percent: within a tenth of its goal it decides nothing.")

PLAN_LANE = Rule(
    "plan, lane driving", 3, "Goal of the benchmark: the cost of optimism relative to a plain backup on the same numbers."
)
PLAN_RANDOM = Rule(
    "plan, random", 5, "As for lane driving, with a margin for rows of ten outcomes, which do not fill a vector register."
)
TWO_WORKERS = Rule("two workers", 1.6, "Goal of the benchmarks: four fifths of what two cores could give.")
PEER = Rule("peer", 20, "Goal of the benchmark: the peer's product form has the steps of an episode in its states.")
DENSE = Rule("dense", 100, "Goal of the benchmark: a compiled sparse plan against dense NumPy.")
GREEDY = Rule("greedy planning", 50, "Goal of the benchmark: an episode visits 10 of 1,152 states.")
SERVICE_STEP = Rule("a step of the service", 3, "Goal of the benchmark: checks and counts relative to a bare insert.")
SERVICE_DECIDE = Rule("a decide of the service", 0.7, "Goal of the benchmark: at most 30% more than a bare answer.")

OF_PAPER = (
    SUBLINEAR,
    LINEAR,
    COMPARABLE,
    WELL_BELOW,
    MUCH_LOWER,
    IN_SCALE,
    LESS,
    TREND,
    TURN_OF_ACTIONS,
    TURN_OF_AGENTS,
    TURN_OF_TEAMS,
    NEAR_OPTIMAL,
    WITHIN_BOUND,
    ACCOUNTED_FOR,
    SHAPE,
    HALF,
    A_POINT,
    COVERAGE,
)
OF_OURS = (
    MORE,
    ROOT,
    AS_MUCH_AGAIN,
    TENTH,
    HALVED,
    NEXT_TO_NOTHING,
    NEAR,
    STUCK,
    NEVER,
    PROMISE,
    SPREAD,
)
GOALS = (TIMING, PLAN_LANE, PLAN_RANDOM, TWO_WORKERS, PEER, DENSE, GREEDY, SERVICE_STEP, SERVICE_DECIDE)
RULES = (LEVEL, SEEDS, *OF_PAPER, *OF_OURS, *GOALS)
