"""Single places and numbers of a stored state that cannot be: each is refused by itself."""

import numpy as np
import pytest

import cede
from cede.learners.stacks import check_stack, stack_states
from cede.learners.state import LearnerState, Sizes, pack_state, unpack_state
from cede.rows.stored import LayerCounts, check_layer

TASK = cede.Task(np.full((4, 2), np.nan), ["a", "b"], 3, cost_range=(0, 1))


def seen(*keys):
    return LayerCounts((2, 2), np.array(keys, dtype=np.int64), np.ones(len(keys)))


@pytest.mark.parametrize(
    ("keys", "owners", "fits"),
    [
        ([0, 1, 2], None, True),
        ([0, 2, 1], None, False),  # above the first one, but not above the one before
        ([0, 1, 1], None, False),
        ([0, 2, 1], [0, 0, 1], True),  # each team begins anew
        ([0, 2, 1], [0, 0, 0], False),
        ([0, 2, 1], [0, 1, 1], False),
        ([3, 0, 3], [0, 1, 1], True),
    ],
)
def test_places_ascend_within_each_team(keys, owners, fits):
    arguments = "x", "agents", seen(*keys), None if owners is None else np.array(owners)
    if fits:
        check_layer(*arguments)
    else:
        with pytest.raises(ValueError, match="the counts of agents is impossible, must be ascending places of the table"):
            check_layer(*arguments)


@pytest.mark.parametrize("name", ["planned", "fresh"])
@pytest.mark.parametrize("wrong", [[-1, 0], [0, 2**62], [0], [[0], [0]], [0.0, 0.0], [False, False]], ids=str)
def test_each_number_of_a_stack_is_checked(name, wrong):
    sizes = Sizes(TASK, cede.greedy(TASK).settings)
    stacked = stack_states(sizes, [LearnerState()] * 2, [TASK.tables] * 2, keeps_plans=False)
    check_stack("x", sizes, stacked, 2)
    with pytest.raises(ValueError, match=f"x: {name} is impossible, must be integers from 0 to "):
        check_stack("x", sizes, {**stacked, name: np.array(wrong)}, 2)


@pytest.mark.parametrize("window", [1, 2])
def test_costs_of_a_window_are_kept_however_short_it_is(window):
    """Eight costs are learned, one of each state and action; a step has at most two, one of the action and one of arriving."""
    learner = cede.greedy(TASK, forget_environment=cede.Window(window))
    sizes = Sizes(TASK, learner.settings)
    assert {"costs_recent_row", "costs_recent_part", "environment_recent"} <= {one.name for one in sizes.arrays}
    numbers, arrays = pack_state(LearnerState())
    for rows, fits in (([7, -1, 0, -1, 3, 7], True), ([8, -1, 0, -1, 3, 7], False), ([-2, -1, 0, -1, 3, 7], False)):
        given = {**arrays, "costs_recent_row": np.array([rows] * window, dtype=np.int64)}
        if fits:
            assert unpack_state(sizes, numbers, given).costs_recent_row[0].tolist() == rows
        else:
            with pytest.raises(ValueError, match="costs_recent_row is beyond the table, must be steps that can be"):
                unpack_state(sizes, numbers, given)


def test_a_policy_without_its_value_is_no_plan():
    policy, value = np.zeros((3, 4, 2), dtype=np.int16), np.zeros((4, 4, 2))
    found = [LearnerState(policy=p, value=v).has_plan for p in (policy, policy[:0]) for v in (value, value[:0])]
    assert found == [True, False, False, False]
