"""The constants and widths of radii, each against its formula with the numbers written out."""

from math import lgamma, log, pi, sqrt

import numpy as np
import pytest

from cede._kernels import radii
from cede._kernels.radii import Constants, RadiusSizes, constants_ahead, constants_of

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
    found = radii.constant_of(kind, STEPS, ROWS, OUTCOMES, VALUES, DELTA)
    assert found == pytest.approx(FORMULAS[kind], rel=1e-14)


def widths(kind, visits, constant, scale):
    """The widths of rows that were visited so often, as belief sees them; the last two are known and have none."""
    visits = np.array(visits)
    result, case = np.full(len(visits) + 2, np.nan), np.arange(len(visits) + 2)
    extra = np.arange(len(visits)) / 8
    radii.radii(kind, visits, case, len(visits), constant, extra, scale, result)
    assert (result[-2:] == 0).all()
    return result[:-2]


@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_widths(kind, scale):
    """Row i has i / 8 more in its constant; the first was never seen, the last has half a visit (counts may fade)."""
    visits, constant = [0.0, 1.0, 7.0, 900.0, 0.5], 3.5
    expected = []
    for i, n in enumerate(visits):
        c, m = constant + i / 8, max(1.0, n)
        if kind in (PRINTED, APPENDIX, NONE):
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
    assert radii.linear_part(BERNSTEIN, 0.5) == 6.0
    assert [radii.linear_part(BERNSTEIN, 0.0), radii.linear_part(KL, 0.5), radii.linear_part(PRINTED, 0.5)] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "expected"), [(BERNSTEIN, log(3 * 8 / 0.1)), (PRINTED, 3.5 * log(2 * 140 * 8 / 0.1)), (NONE, 0.0)]
)
def test_constants_of_both_layers_and_of_costs(kind, expected):
    """Agents know their own steps, the environment all that were seen in it; costs have a delta of their own."""
    sizes = RadiusSizes(agents_kind=PRINTED, environment_kind=APPENDIX, delta=0.2, horizon=7, outcomes=6, n_actions=2, agent_rows=9)
    sizes.environment_rows, sizes.cost_kind, sizes.cost_rows, sizes.cost_delta = 12, kind, 8, 0.1
    agents, environment, cost = constants_of(sizes, 140.0, 350.0)
    assert agents == pytest.approx(2 * log(140.0**7 * 9 * 2**3 / 0.2), rel=1e-14)
    assert environment == pytest.approx(14 * 6 * log(2 * 350 * 12 / 0.2), rel=1e-14)
    assert cost == pytest.approx(expected, rel=1e-14)
    assert constants_of(sizes, 0.0, 0.0) == constants_of(sizes, 1.0, 1.0)

    ahead = Constants(**{name: np.full(3, np.nan) for name in ("agents", "environment", "cost", "steps", "common")})
    constants_ahead(sizes, 21, 50, ahead)  # before episode 21 this team saw 20 episodes of 7 steps, its fleet 50
    assert ahead.steps.tolist() == [140.0, 147.0, 154.0]
    assert ahead.common.tolist() == [350.0, 357.0, 364.0]
    for i in range(3):
        assert (ahead.agents[i], ahead.environment[i], ahead.cost[i]) == constants_of(sizes, 140.0 + 7 * i, 350.0 + 7 * i)


def test_no_costs_to_learn_is_no_failure():
    assert radii.bernstein_cost_constant(0, 0.1) == pytest.approx(log(3 / 0.1), rel=1e-14)
