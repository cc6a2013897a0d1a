"""Numbers as text: rounded to the relevant digits; a nonzero number is never shown as 0."""

from math import floor, log10

DIGITS = 3
MOST_PLACES = 6  # behind the point; smaller numbers have an exponent


def figure(value: float, stake: float = 0.0, digits: int = DIGITS) -> str:
    """Return a number as text, with a number of significant digits of itself or of `stake` if that is larger.

    stake: the size of the numbers that it is compared with. A nonzero number that would be shown as 0 is "less than 0.001" or "more
    than -0.001".
    """
    size = max(abs(value), abs(stake))
    return "0" if size == 0.0 else rounded(value, digits - 1 - floor(log10(size)), digits)


def interval(mean: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a number and the ends of its interval as text, with two significant digits of the width of the interval."""
    width = high - low
    if width <= 0.0:
        return figure(mean), figure(low), figure(high)
    places = 1 - floor(log10(width))
    return rounded(mean, places), rounded(low, places), rounded(high, places)


def rounded(value: float, places: int, digits: int = DIGITS) -> str:
    """Return a number as text with `places` decimal places, without meaningless zeros at the end."""
    places = max(0, places)
    text = f"{value:,.{places}f}" if places <= MOST_PLACES else f"{value:.{digits}g}"
    if value != 0.0 and float(text.replace(",", "")) == 0.0:
        least = f"{10.0**-places:.{places}f}"
        return f"less than {least}" if value > 0 else f"more than -{least}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
