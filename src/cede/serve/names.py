"""Names, numbers and kinds that all parts of the service share."""

import re
from typing import Any

from cede._base import check

BIG = 2**53  # whole numbers below it are exact in every language
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~:-]{0,127}")  # of an environment or a team
OF_ENVIRONMENT, OF_TEAM = 0, 1  # kinds of owners of counts and histories
CountRow = tuple[int, int, str, int, int]  # of the table `counts`: kind and number of the owner, layer, key, n
Row = tuple[Any, ...]  # of a database table


def checked_name(owner: str, place: str, name: Any) -> str:
    """Check the name of an environment or a team, which is part of a URL, and return it."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        check.fail(owner, place, check.show(name), "1 to 128 letters, digits and . _ ~ : -, a letter or a digit first")
    return name
