"""The constants and widths of sets, each against its formula with the numbers written out."""

from math import lgamma, log, pi, sqrt

import numpy as np
import pytest

from cede.beliefs.constants import RadiiAhead, RadiusSizes, constants_ahead, constants_of
from cede.beliefs.costs import BERNSTEIN_INTERVALS, NO_INTERVALS, UCRL2_INTERVALS, cost_constant_of
from cede.beliefs.registry import constant_of, form_of, width_of

PRINTED, APPENDIX, BERNSTEIN, KL, KL_VALUE, CALIBRATED, NONE = 0, 1, 2, 3, 4, 5, -1
ROWS, OUTCOMES, VALUES, STEPS, DELTA = 12, 5, 38, 140.0, 0.25
FORMULAS = {
    PRINTED: 2 * log(STEPS**7 * ROWS * 2 ** (OUTCOMES + 1) / DELTA),
    APPENDIX: 14 * OUTCOMES * log(2 * STEPS * ROWS / DELTA),
    BERNSTEIN: log(6 * ROWS * OUTCOMES / DELTA),
    KL: log(2 * ROWS / DELTA),
    KL_VALUE: log(2 * ROWS * VALUES / DELTA),
    CALIBRATED: log(2 * ROWS * STEPS / DELTA),
    NONE: 0.0,
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_constants(kind):
    found = constant_of(kind, STEPS, ROWS, OUTCOMES, VALUES, DELTA)
    assert found == pytest.approx(FORMULAS[kind], rel=1e-14)


def widths(kind, visits, constant, scale):
    """The widths of rows with so many visits; row i has i / 8 more in its constant."""
    return np.array([width_of(kind, n, constant + i / 8, scale) for i, n in enumerate(visits)])


@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_widths(kind, scale):
    """The first row was never seen, the last has half a visit (counts may fade)."""
    visits, constant = [0.0, 1.0, 7.0, 900.0, 0.5], 3.5
    expected = []
    for i, n in enumerate(visits):
        c, m = constant + i / 8, max(1.0, n)
        if kind == NONE:
            expected.append(0.0)
        elif kind in (PRINTED, APPENDIX):
            expected.append(scale * sqrt(c / m))
        elif n == 0:
            expected.append(1e300)
        elif kind == BERNSTEIN:
            expected.append(scale**2 * (c + log(m * (m + 1))) / m)
        else:
            more = 0.5 * log(pi) + lgamma(m + 1) - lgamma(m + 0.5) if kind == KL_VALUE else 0.0
            expected.append(scale**2 * (c + more) / m)
    np.testing.assert_allclose(widths(kind, visits, constant, scale), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", FORMULAS)
def test_scale_0_is_certainty(kind):
    assert (widths(kind, [0.0, 1.0, 50.0], 3.5, 0.0) == 0).all()


def test_the_linear_part_of_intervals():
    assert form_of(BERNSTEIN, 0.5) == (0, 6.0)
    assert [form_of(kind, 0.5)[1] for kind in (PRINTED, APPENDIX, KL, KL_VALUE, CALIBRATED, NONE)] == [0.0] * 6
    assert form_of(BERNSTEIN, 0.0) == (0, 0.0)
    assert [form_of(kind, 0.5)[0] for kind in FORMULAS] == [0, 0, 0, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(BERNSTEIN_INTERVALS, log(3 * 8 / 0.1)), (UCRL2_INTERVALS, 3.5 * log(2 * 140 * 8 / 0.1)), (NO_INTERVALS, 0.0)],
)
def test_constants_of_both_layers_and_of_costs(kind, expected):
    """Agents have the steps of all teams that share them, the environment all in it; costs have a delta of their own."""
    sizes = RadiusSizes(agents_kind=PRINTED, environment_kind=APPENDIX, delta=0.2, horizon=7, outcomes=6, n_actions=2, agent_rows=9)
    sizes.environment_rows, sizes.cost_kind, sizes.cost_rows, sizes.cost_delta = 12, kind, 8, 0.1
    agents, environment, cost = constants_of(sizes, 140.0, 350.0, 210.0)
    assert agents == pytest.approx(2 * log(210.0**7 * 9 * 2**3 / 0.2), rel=1e-14)
    assert environment == pytest.approx(14 * 6 * log(2 * 350 * 12 / 0.2), rel=1e-14)
    assert cost == pytest.approx(expected, rel=1e-14)
    assert constants_of(sizes, 0.0, 0.0, 0.0) == constants_of(sizes, 1.0, 1.0, 1.0)

    names = ("agents", "environment", "cost", "steps", "common", "crew", "agents_scale", "environment_scale")
    ahead = RadiiAhead(**{name: np.full((1, 3), np.nan) for name in names})
    constants_ahead(sizes, 21, 50, 30, ahead)  # before episode 21 this team saw 20 episodes of 7 steps, its fleet 50, its agents 30
    assert ahead.steps.tolist() == [[140.0, 147.0, 154.0]]
    assert ahead.common.tolist() == [[350.0, 357.0, 364.0]]
    assert ahead.crew.tolist() == [[210.0, 217.0, 224.0]]
    for i in range(3):
        steps = 140.0 + 7 * i, 350.0 + 7 * i, 210.0 + 7 * i
        assert (ahead.agents[0, i], ahead.environment[0, i], ahead.cost[0, i]) == constants_of(sizes, *steps)


def test_no_costs_to_learn_is_no_failure():
    assert cost_constant_of(BERNSTEIN_INTERVALS, 140.0, 0, 0.1) == pytest.approx(log(3 / 0.1), rel=1e-14)
