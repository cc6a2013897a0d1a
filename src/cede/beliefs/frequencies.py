"""Frequencies: the observed frequencies, used as the true table; rows without visits are uniform. For greedy learners.

Nothing is guaranteed. The width of every row is 0.
"""

from cede.beliefs.kind import BeliefKind

FREQUENCIES = BeliefKind(
    "frequencies",
    "point",
    about="the observed frequencies",
    assumes="Nothing, and nothing is guaranteed.",
    allows=frozenset(("two layers", "fading", "greedy planning")),
)
