"""Python's share of a run: how many functions are called before and after the compiled loop, and how often from file to file."""

import sys

import cede

MOST_CALLS, MOST_CHANGES = 1_300, 750  # of one run of 100 episodes, with making its problem


def calls_of(action):
    """Return how many Python functions an action calls, and how many of them are in another file than their caller."""
    calls = changes = 0

    def count(frame, event, argument):
        nonlocal calls, changes
        if event == "call":
            calls += 1
            changes += frame.f_back is not None and frame.f_back.f_code.co_filename != frame.f_code.co_filename

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls, changes


def test_what_is_counted():
    assert calls_of(lambda: None) == (1, 0)
    assert calls_of(sys.getprofile) == (0, 0)  # it is not Python
    assert calls_of(lambda: [calls_of.__name__ for _ in "ab"]) == (2, 0)
    assert calls_of(lambda: cede.Scale(1.0))[1] > 1


def test_a_warm_run_needs_few_calls():
    learner = cede.ucrl2_mc(cede.worlds.riverswim().task)

    def run():
        cede.simulate(cede.worlds.riverswim(), learner, 100)

    run()
    calls, changes = calls_of(run)
    assert calls <= MOST_CALLS, f"{calls} calls of Python functions"
    assert changes <= MOST_CHANGES, f"{changes} of them from another file"
