"""Numbers and words for people, written out."""

import pytest

from cede.insight.explaining import times
from cede.insight.figures import figure, interval, rounded


@pytest.mark.parametrize(
    ("value", "stake", "text"),
    [
        (0.0, 0.0, "0"),
        (1.23456, 0.0, "1.23"),
        (-1.23456, 0.0, "-1.23"),
        (0.0123456, 0.0, "0.0123"),
        (123456.0, 0.0, "123,456"),
        (1.0, 0.0, "1"),
        (9.996, 0.0, "10"),
        (0.4, 100.0, "less than 1"),
        (0.01, 50.0, "less than 0.1"),
        (-0.01, 50.0, "more than -0.1"),
        (12.345, 50.0, "12.3"),
        (1e-9, 0.0, "1e-09"),
    ],
)
def test_three_digits_of_what_matters(value, stake, text):
    assert figure(value, stake) == text


def test_intervals_have_two_digits_of_their_width():
    assert interval(1.23456, 1.1, 1.37) == ("1.23", "1.1", "1.37")
    assert interval(123.456, 100.0, 150.0) == ("123", "100", "150")
    assert interval(2.0, 2.0, 2.0) == ("2", "2", "2")
    assert rounded(3.14159, 3) == "3.142"
    assert rounded(3.14159, -2) == "3"


def test_how_often():
    found = [times(visits) for visits in (0.25, 1.0, 1.6, 2.0, 12345.0)]
    assert found == ["less than once", "once", "2 times", "2 times", "12,345 times"]
