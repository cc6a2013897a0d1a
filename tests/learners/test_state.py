"""The declared table of what a learner keeps: start values, stacks, cuts and checks all follow from it."""

from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest

import cede
from cede.learners.stacks import STACKED, check_stack, joined, part_of, stack_states, unstack_states
from cede.learners.state import ARRAYS, EPISODES, NUMBERS, LearnerState, Sizes, at_start, pack_state, unpack_state
from cede.learners.working import plan_of

MDP = cede.worlds.riverswim(agents=[0.3, 0.7])
WAYS = {
    "plain": {},
    "doubling": {"replan": "doubling"},
    "greedy": {"planning": "greedy"},
    "windows": {"forget": cede.Window(3), "forget_environment": cede.Window(4)},
    "limits": {"at_most": {"p=0.7": 0.4}},
    "baseline": {"baseline": "p=0.7"},
    "kept plan": {"replan": 5},
    "unknown costs": {},
    "unknown costs, windows": {"forget_environment": cede.Window(2)},
    "features": {"features": True},
    "trials": {"trials": 3},
    "endless": {"at_most": {"p=0.7": 0.4}, "replan": 7},
}
ENDLESS = replace(MDP, horizon=None)


def task_of(way):
    if way == "endless":
        return ENDLESS.task
    return MDP.task.with_unknown_costs() if way.startswith("unknown") else MDP.task


def learners(way, n=3):
    other = {"features": cede.posterior_sampling, "trials": cede.recommended}
    make = other.get(way, partial(cede.ucrl2_mc, scale=0.3))
    found = [make(task_of(way), seed=i, **WAYS[way]) for i in range(n)]
    for i, learner in enumerate(found):
        if i and way == "endless":
            cede.simulate(ENDLESS, learner, steps=30 * i, seed=i, progress=False)
        elif i:
            cede.simulate(MDP, learner, 8 * i if way == "features" else 4 * i, seed=i, progress=False)
    return found


def test_every_field_is_declared():
    names = [one.name for one in fields(LearnerState)]
    assert names == ["counts", *NUMBERS, "extras", *(one.name for one in ARRAYS)]
    kept = {one.name for way in WAYS for one in Sizes(task_of(way), learners(way, 1)[0].settings).arrays}
    assert kept == {one.name for one in ARRAYS} - {"policy", "value"}  # some way here has each of them


def same_extras(one, other):
    for name in one.extras.keys() | other.extras.keys():
        nothing = np.empty(0)  # an extra that is missing is empty
        np.testing.assert_array_equal(one.extras.get(name, nothing), other.extras.get(name, nothing))


@pytest.mark.parametrize("way", WAYS)
def test_states_are_packed_stacked_cut_and_joined(way):
    some = learners(way)
    sizes, states = Sizes(task_of(way), some[0].settings), [learner.state for learner in some]
    for state in states:
        again = unpack_state(sizes, *pack_state(state))
        for one in ARRAYS:
            np.testing.assert_array_equal(getattr(again, one.name), getattr(state, one.name))
        same_extras(again, state)
    names = [sizes.task.tables] * 3
    stacked = stack_states(sizes, states, names, keeps_plans=True)
    check_stack("test", sizes, stacked, 3)
    apart = joined([part_of(stacked, 0, 1), part_of(stacked, 1, 1), part_of(stacked, 1, 3)])
    for name, array in stacked.items():
        np.testing.assert_array_equal(apart[name], array)
    for after, before in zip(unstack_states(sizes, apart, states, names, 2, 1), states, strict=True):
        assert (after.episodes, after.environment_episodes) == (before.episodes + 2, before.environment_episodes + 1)
        for name, layer in before.counts.layers.items():
            if len(layer.key):
                np.testing.assert_array_equal(after.counts.layers[name].key, layer.key)
                np.testing.assert_array_equal(after.counts.layers[name].number, layer.number)
        same_extras(after, before)
        for one in sizes.arrays:
            wanted = getattr(before, one.name)
            np.testing.assert_array_equal(getattr(after, one.name), wanted if wanted.size else at_start(one, sizes))


@pytest.mark.parametrize("way", WAYS)
def test_every_declared_array_is_checked_alike_for_files_and_checkpoints(way):
    learner = learners(way)[2]
    assert learner.plan is not None
    sizes, state = Sizes(task_of(way), learner.settings), learner.state
    numbers, arrays = pack_state(state)
    stacked = stack_states(sizes, [state], [sizes.task.tables], keeps_plans=True)
    names = [one.name for one in ARRAYS if one.name in stacked and getattr(state, one.name).size]
    assert "policy" in names
    for name in names:
        for harm in (lambda a: a[..., :-1], lambda a: a.astype(np.float32), lambda a: a[..., None]):
            with pytest.raises(ValueError, match=f"the shape of {name}"):
                unpack_state(sizes, numbers, {**arrays, name: harm(arrays[name])})
            with pytest.raises(ValueError, match=f"the shape of {name}"):
                check_stack("test", sizes, {**stacked, name: harm(stacked[name][0])[None]}, 1)
        wrong = np.full_like(arrays[name], 99) if arrays[name].dtype.kind == "i" else np.full_like(arrays[name], np.inf)
        wrong = np.full_like(wrong, 2**60) if arrays[name].dtype == np.int64 else wrong
        with pytest.raises(ValueError, match=r"policy|not finite|beyond the table"):
            unpack_state(sizes, numbers, {**arrays, name: wrong})
        with pytest.raises(ValueError, match=r"policy|not finite|beyond the table"):
            check_stack("test", sizes, {**stacked, name: wrong[None]}, 1)


@pytest.mark.parametrize("name", STACKED)
@pytest.mark.parametrize("bad", [np.inf, np.nan, 0.0, -1.0])
def test_counts_that_cannot_be_are_refused_by_files_and_checkpoints_alike(name, bad):
    learner = learners("unknown costs")[2]
    sizes = Sizes(learner.task, learner.settings)
    numbers, arrays = pack_state(learner.state)
    for i, layer in enumerate(numbers["layers"]):
        if layer.startswith(STACKED[name]) and arrays[f"counts/{i}/number"].size:
            numbers_of_layer = arrays[f"counts/{i}/number"].copy()
            numbers_of_layer[-1] = bad
            with pytest.raises(ValueError, match=f"the counts of {layer} is impossible"):
                unpack_state(sizes, numbers, {**arrays, f"counts/{i}/number": numbers_of_layer})
    stacked = stack_states(sizes, [learner.state], [sizes.task.tables], keeps_plans=False)
    wrong = stacked[f"{name}_number"].copy()
    wrong[-1] = bad
    with pytest.raises(ValueError, match=f"the counts of {name} is impossible"):
        check_stack("test", sizes, {**stacked, f"{name}_number": wrong}, 1)


HARM = {
    "another type": lambda a: a.astype(np.float32),
    "another shape": lambda a: a[:, None],
    "another length": lambda a: np.append(a, a[-1:] + 1),
    "beyond the limits": lambda a: np.append(a[:-1], a[-1:] + 2**60) if a.dtype.kind == "i" else np.append(a[:-1], np.inf),
    "no number": lambda a: np.append(a[:-1], np.nan),
}


@pytest.mark.parametrize("harm", HARM)
def test_every_declared_extra_is_checked_alike_for_files_and_checkpoints(harm):
    learner = learners("features")[2]
    sizes, state = Sizes(learner.task, learner.settings), learner.state
    numbers, arrays = pack_state(state)
    assert set(state.extras) == {one.name for one in sizes.extras}
    for name in state.extras:
        wrong = {**arrays, f"extras/{name}": HARM[harm](state.extras[name])}
        with pytest.raises(ValueError, match=r"file: .*(agents|environment)/"):
            unpack_state(sizes, numbers, wrong)
        harmed = replace(state, extras={**state.extras, name: HARM[harm](state.extras[name])})
        stacked = stack_states(sizes, [harmed], [sizes.task.tables], keeps_plans=False)
        with pytest.raises(ValueError, match=r"(agents|environment)/"):
            check_stack("test", sizes, stacked, 1)
    with pytest.raises(ValueError, match="file: an extra is 'agents/more', must be one that the settings declare"):
        unpack_state(sizes, numbers, {**arrays, "extras/agents/more": np.ones(2)})
    plain = Sizes(learner.task, cede.posterior_sampling(learner.task).settings)
    with pytest.raises(ValueError, match=r"an extra is .*, must be one that the settings declare"):
        unpack_state(plain, numbers, arrays)


@pytest.mark.parametrize("bad", [None, "x", -1, 2**63, 0.5, True])
def test_numbers_that_cannot_be_are_refused(bad):
    sizes = Sizes(MDP.task, learners("plain", 1)[0].settings)
    numbers, arrays = pack_state(LearnerState())
    for name in (*EPISODES, *NUMBERS):
        if not (name == "stale" and bad is True):
            with pytest.raises(ValueError, match=f"{name} is"):
                unpack_state(sizes, {**numbers, name: bad}, arrays)


def test_a_state_without_its_plan_is_as_at_the_start():
    state = replace(LearnerState(), planned=3)
    assert plan_of(MDP.task, state) is None
    assert not state.must_use_plan
