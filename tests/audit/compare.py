"""All comparisons of one problem."""

import warnings

import numpy as np

from audit.known import compare_known, compare_limits, compare_oracle
from audit.learned import compare_learner
from audit.session import Session

PARTS = ("known", "limits", "learner")


def compare(problem, parts=PARTS):
    """Compare cede with the reference on a problem; return the session, which holds what was compared and found."""
    session = Session(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in parts:
            session.begin(PARTS.index(part))
            found = len(session.found)
            try:
                run_part(session, part)
            except (RuntimeError, np.linalg.LinAlgError) as error:
                session.gave_up[f"{part}: {error}"] = 1
            session.part_of |= {id(one): part for one in session.found[found:]}
    return session


def run_part(session, part):
    if part == "known":
        compare_oracle(session, compare_known(session))
    elif part == "limits":
        compare_limits(session)
    elif part == "learner":
        compare_learner(session)
