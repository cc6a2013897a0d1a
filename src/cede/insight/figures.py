"""Numbers for people: as many digits as matter beside what is at stake, and never a 0 that is none."""

from math import floor, log10

DIGITS = 3


def figure(value: float, stake: float = 0.0, digits: int = DIGITS) -> str:
    """Return a number as text with so many significant digits, of the number itself or of what is at stake if that is larger.

    stake: the size of the amounts that it is compared with; digits that are small beside them are left out. What is not 0 but would
    be shown as 0 is "less than 0.001" or "more than -0.001".
    """
    size = max(abs(value), abs(stake))
    if size == 0.0:
        return "0"
    places = max(0, digits - 1 - floor(log10(size)))
    text = f"{value:,.{places}f}" if places <= 6 else f"{value:.{digits}g}"
    if float(text.replace(",", "")) == 0.0 and value != 0.0:
        least = f"{10.0**-places:.{places}f}" if places <= 6 else f"{10.0**-places:.0e}"
        return f"less than {least}" if value > 0 else f"more than -{least}"
    return trimmed(text)


def trimmed(text: str) -> str:
    """Return a number without the zeros at its end that say nothing."""
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
