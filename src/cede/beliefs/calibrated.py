"""Calibrated sets: balls of relative entropy as in kl.py, with the constant log( 2 rows t_k / delta ) and the scale

    part / sqrt(m),    m: how many different rows an episode meets, about.

Errors in different rows are independent and add up like a square root, while a plan that is optimistic about each row adds them
linearly; the scale makes up for that. Rows of the environment without visits are believed uniform with a small ball around;
those of agents may be anything. All of this is chosen by measurement over many worlds (docs/decisions/0014), and nothing is
guaranteed. Greedy planning cannot use it: the scale follows from all rows.
"""

from math import log, sqrt

from cede._kernels.compiling import kernel
from cede.beliefs.kind import BeliefKind
from cede.beliefs.kl import kl_constant, kl_width


@kernel
def calibrated_constant(steps, rows, outcomes, values, delta):
    """Return log(2 rows t_k / delta)."""
    return kl_constant(steps, rows, outcomes, values, delta) + log(steps)


@kernel
def rows_met(counts, most):
    """Return about how many different rows an episode meets: (sum n)^2 / sum n^2 over the visits n of rows, from 1 to `most`."""
    total, squares = 0.0, 0.0
    for r in range(counts.counted):
        total += counts.seen.total[r]
        squares += counts.seen.total[r] * counts.seen.total[r]
    return max(1.0, min(most, total * total / squares)) if squares > 0.0 else 1.0


@kernel
def calibrated_scale(layer, scale, most):
    """Return the scale of a layer, from the rows that an episode of `most` steps meets."""
    return scale * layer.part / sqrt(rows_met(layer.counts, most))


CALIBRATED = BeliefKind(
    "calibrated",
    "kl",
    about="sets whose size is estimated from the data, as in `recommended`; no guarantee",
    assumes="Errors of different rows are independent; the scale was chosen by measurement.",
    allows=frozenset(("two layers", "bounds", "fading")),
    constant=calibrated_constant,
    width=kl_width,
    surprise=True,
    part=(0.45, 0.15),
    unseen=(0.0, 0.02),
)
