"""All comparisons of one problem."""

import warnings

import numpy as np

from audit.forgetting import compare_forgetting
from audit.generate import problem as make
from audit.insight import compare_explanation, compare_summary
from audit.known import compare_known, compare_limits, compare_oracle
from audit.learned import compare_learner
from audit.runs import compare_frequencies, compare_limited_run, compare_regret, compare_ucrl2
from audit.session import Session

PARTS = ("known", "limits", "learner", "regret", "limited run", "frequencies", "ucrl2", "forgetting")
OTHERS = {
    "limits": compare_limits,
    "regret": compare_regret,
    "limited run": compare_limited_run,
    "frequencies": compare_frequencies,
    "ucrl2": compare_ucrl2,
    "forgetting": compare_forgetting,
}
SELDOM = {
    "limits": 0.6,
    "regret": 0.6,
    "limited run": 0.15,
    "frequencies": 0.5,
    "forgetting": 0.3,
}  # part of the problems, where not all


def compare(problem, parts=None):
    """Compare cede with the reference on a problem; return the session, which holds what was compared and found."""
    session = Session(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in parts or chosen_parts(problem):
            session.begin(PARTS.index(part))
            found = len(session.found)
            try:
                run_part(session, part)
            except (RuntimeError, np.linalg.LinAlgError) as error:
                session.gave_up[f"{part}: {error}"] = 1
            session.part_of |= {id(one): part for one in session.found[found:]}
    return session


def chosen_parts(problem):
    """Return the parts of the comparison that a problem gets."""
    dice = np.random.default_rng([problem.seed, problem.number, 5]).random(len(PARTS))
    return [part for part, roll in zip(PARTS, dice, strict=True) if roll < SELDOM.get(part, 1.0)]


def run_part(session, part):
    """Run one part of the comparison."""
    if part == "known":
        compare_oracle(session, compare_known(session))
    elif part == "learner":
        known = compare_learner(session)
        if known is not None:
            compare_explanation(session, known)
            compare_summary(session, known)
    else:
        OTHERS[part](session)


def compared(seed, number):
    """Compare one problem; return its features, what was counted, the largest differences, and what was found, by kind."""
    one = make(seed, number)
    session = compare(one)
    found = {}
    for each in session.found:
        found.setdefault(each.kind, (each, session.part_of[id(each)]))
    return sorted(one.features), (session.compared, session.refused, session.gave_up), session.largest, found
