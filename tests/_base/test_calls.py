"""Wrong and missing arguments are answered in the grammar of errors; errors inside of a call stay what they are."""

import inspect
import pickle
import re

import numpy as np
import pytest

import cede
from cede._base.calls import clear_call

TABLE = np.ones((2, 2, 2)) / 2


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda task: cede.recommended(task, features=[(0,)]), "recommended: an argument is 'features', must be one of 'task', "),
        (lambda task: cede.ucrl2(task, at_most={}), "ucrl2: an argument is 'at_most', must be one of "),
        (lambda task: cede.posterior_sampling(task, delta=0.1), "posterior_sampling: an argument is 'delta', must be one of "),
        (lambda task: cede.simulate(task, n_episodes=3), "simulate: an argument is 'n_episodes', must be one of 'mdp', "),
        (lambda task: cede.simulate(), "simulate: mdp is missing, must be given"),
        (lambda task: cede.compare(["relay"]), "compare: learners is missing, must be given"),
        (
            lambda task: cede.Environment(transitions=TABLE, cost=[0, 1]),
            "Environment: an argument is 'transitions', must be one of ",
        ),
        (lambda task: cede.Environment(TABLE, [0, 1]), "Environment: start is missing, must be given"),
        (lambda task: cede.Task(actions=2, agents=["a"]), "Task: an argument is 'actions', must be one of "),
        (lambda task: cede.Agent([[1, 0]]), "Agent: policy is missing, must be given"),
        (lambda task: cede.recommended(task, 3), "recommended: the call is wrong (too many positional arguments), must be "),
    ],
)
def test_what_is_wrong_with_a_call_is_named(call, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        call(cede.worlds.relay().task)


def test_errors_inside_of_a_call_stay():
    @clear_call
    def broken(x, *, y=1):
        raise TypeError("inside")

    with pytest.raises(TypeError, match="inside"):
        broken(1, y=2)
    assert list(inspect.signature(broken).parameters) == ["x", "y"]
    assert pickle.loads(pickle.dumps(cede.recommended)) is cede.recommended
