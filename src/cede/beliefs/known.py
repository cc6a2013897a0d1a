"""Known rows: a table of width 0, for policies and environments that are known.

Steps in known rows are counted, too; only their belief differs.
"""

from cede.beliefs.kind import BeliefKind

KNOWN = BeliefKind(
    "known",
    "point",
    about="a table that is known",
    assumes="The table is the true one.",
    allows=frozenset(("two layers", "bounds", "fading", "greedy planning", "guarantee")),
)
