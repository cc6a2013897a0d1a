"""Settings: every field tells learners apart, is written to files, and checks itself."""

from dataclasses import fields, replace

import numpy as np
import pytest

import cede
from cede._base import archive
from cede.learners.baseline import Baseline
from cede.learners.files import CLASSES
from cede.learners.settings import Settings, alike_key, check_fits, for_newcomer
from cede.problem.features import read_features

MDP = cede.worlds.riverswim(agents=[0.3, 0.7])
TASK = MDP.task
PLAIN = Settings("ucrl2_mc")
OTHER = {  # another value of every field
    "name": "other",
    "radius": "bernstein",
    "agents_radius": "bernstein",
    "prior": 2.0,
    "delta": 0.2,
    "scale": cede.Scale(agents=0.5),
    "flat": True,
    "known_agents": {0: MDP.team.agents[0].policy[None]},
    "known_environment": MDP.environment,
    "structure": MDP.structure,
    "features": read_features("test", TASK, None, None),
    "forget": {"p=0.3": cede.HalfLife(5)},
    "forget_environment": cede.Window(5),
    "limits": (np.zeros(2), np.array([0.5, 1.0])),
    "baseline": Baseline(TASK.always(1), 0.1),
    "policy": TASK.always(0),
    "planning": "greedy",
    "auditions": True,
    "replan": 7,
}


def plain(name):
    """Settings that can have another value of a field: what is sampled has no confidence sets."""
    if name == "features":
        return replace(PLAIN, radius=None, prior=1.0)
    return replace(PLAIN, radius=None) if name == "prior" else PLAIN


def test_every_field_has_another_value_here():
    """A new field must be added above, and is then held to all that follows."""
    assert set(OTHER) == {one.name for one in fields(Settings)}


@pytest.mark.parametrize("name", OTHER)
def test_learners_that_differ_in_one_field_are_not_alike(name):
    other, own = replace(plain(name), **{name: OTHER[name]}), [one.name for one in fields(Settings) if one.metadata.get("own")]
    keys = [alike_key(TASK, told, {}) for told in (plain(name), other)]
    if name == "name":
        assert keys[0] == keys[1]
    else:
        assert keys[0] != keys[1]
    assert own == ["name", "policy"]


@pytest.mark.parametrize("name", OTHER)
def test_every_field_is_written_and_read(name):
    told, arrays = replace(plain(name), **{name: OTHER[name]}), {}
    again = archive.rebuild(archive.describe(told, "told", arrays), arrays, CLASSES)
    assert archive.digest(again) == archive.digest(told)
    assert archive.digest(again) != archive.digest(PLAIN)
    check_fits("test", TASK, again)


def test_agents_go_by_their_place():
    """Teams that call their agents differently are alike."""
    other = cede.worlds.riverswim(agents=[0.1, 0.9])
    rules = [{mdp.task.agents[1]: cede.HalfLife(9)} for mdp in (MDP, other)]
    structures = [cede.Structure({mdp.task.agents[0]: [0, 0, 0, 1, 1, 1]}) for mdp in (MDP, other)]
    one, two = (replace(PLAIN, forget=rule, structure=structure) for rule, structure in zip(rules, structures, strict=True))
    assert alike_key(TASK, one, {}) == alike_key(other.task, two, {})
    swapped = replace(one, forget={TASK.agents[0]: cede.HalfLife(9)})
    assert alike_key(TASK, one, {}) != alike_key(TASK, swapped, {})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"radius": "wide"}, "ucrl2_mc: radius is 'wide', must be one of"),
        ({"delta": 1.0}, "ucrl2_mc: delta is 1.0, must be a number in"),
        ({"prior": -1.0}, "ucrl2_mc: prior is -1.0, must be from"),
        ({"replan": 0}, "ucrl2_mc: replan is 0, must be an integer of at least 1|from 1"),
        ({"planning": "greedy", "replan": 3}, "greedy planning has no whole plan to keep"),
        ({"forget": {"p=0.3": 5}}, r"forget\['p=0.3'\] is 5, must be a HalfLife or a Window"),
        ({"forget": {"p=0.3": cede.HalfLife(5)}, "replan": "doubling"}, "counts that fade may never double"),
        ({"limits": OTHER["limits"], "planning": "greedy"}, "greedy planning is for costs that stay"),
        ({"baseline": OTHER["baseline"], "limits": OTHER["limits"]}, "baseline is a policy, alpha 0.1, must be left out"),
        ({"baseline": OTHER["baseline"], "radius": None}, "no confidence sets of both layers"),
        ({"auditions": True, "baseline": OTHER["baseline"]}, "auditions is True, must be False with limits or a baseline"),
        ({"auditions": True, "planning": "greedy"}, "auditions is True, must be False with greedy planning"),
        ({"radius": "calibrated", "planning": "greedy"}, "planning is 'greedy', must be 'full' with calibrated sets"),
        ({"radius": "kl-value", "baseline": OTHER["baseline"]}, "belief is 'kl-value', must be 'kl' with a baseline"),
        ({"radius": "kl", "forget_environment": cede.HalfLife(5)}, "belief is 'kl', must be 'printed' or 'calibrated' with forget"),
        ({"features": OTHER["features"]}, "features is given, must be left out but for posterior sampling"),
        ({"flat": True, "structure": MDP.structure}, "what is known or declared is given, must be left out"),
    ],
)
def test_settings_check_themselves(wrong, message):
    with pytest.raises(ValueError, match=message):
        replace(PLAIN, **wrong)


def test_a_newcomer_is_told_the_same_except_for_what_is_a_teams_own():
    told = replace(PLAIN, **{name: OTHER[name] for name in ("delta", "scale", "limits", "known_agents", "structure", "replan")})
    new = for_newcomer(TASK, told, TASK, {})
    changed = {one.name for one in fields(Settings) if getattr(new, one.name) is not getattr(told, one.name)}
    assert changed <= {"limits", "known_agents", "structure", "forget", "baseline"}
    assert new.limits is None
    assert new.known_agents == {}


def test_what_a_user_reads_holds_every_setting():
    """Settings of a learner name every field, as itself or in other words."""
    words = {"name": "learner", "agents_radius": "radius", "forget_environment": "forget", "limits": "at_most"}
    silent = {"flat", "policy"}  # told by the learner's name
    told = replace(PLAIN, limits=OTHER["limits"], forget_environment=OTHER["forget_environment"])
    shown = cede.Learner(TASK, told).settings | cede.Learner(TASK, replace(PLAIN, baseline=OTHER["baseline"])).settings
    for one in fields(Settings):
        assert one.name in silent or words.get(one.name, one.name) in shown, one.name
