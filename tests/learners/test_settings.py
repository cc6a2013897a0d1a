"""Settings: every option tells learners apart, is written to files, and checks itself; wrong combinations cannot be built."""

from dataclasses import fields, replace

import numpy as np
import pytest

import cede
from cede._base import archive
from cede.learners.fixed import Fixed
from cede.learners.greedy import Greedy
from cede.learners.options import BeliefNames, ForgetRules, FullPlans, GreedyBackups, Knowledge
from cede.learners.posterior_sampling import PosteriorSampling
from cede.learners.promises import Baseline, ShareLimits, TrialEpisodes
from cede.learners.reading import ALGORITHMS, CLASSES, settings_from_fields
from cede.learners.recommended import Recommended
from cede.learners.settings import alike_key, for_newcomer
from cede.learners.ucrl2 import UCRL2
from cede.learners.ucrl2_mc import UCRL2MC
from cede.problem.features import read_features

MDP = cede.worlds.riverswim(agents=[0.3, 0.7])
TASK = MDP.task
LIMITS = ShareLimits(np.zeros(2), np.array([0.5, 1.0]))
BASELINE = Baseline(TASK.always(1), 0.1)
FEATURES = read_features("test", TASK, None, None)
FORGET = ForgetRules({"p=0.3": cede.HalfLife(5)})
PLAIN = {cls: Fixed(TASK.always(0)) if cls is Fixed else cls() for cls in ALGORITHMS}
OTHER = {  # other values of every field of every algorithm
    "belief": [BeliefNames("bernstein"), BeliefNames("printed", "bernstein")],
    "delta": [0.2],
    "scale": [cede.Scale(agents=0.5)],
    "form": ["same-form"],
    "prior": [2.0],
    "features": [FEATURES],
    "knowledge": [
        Knowledge({0: MDP.team.agents[0].policy[None]}),
        Knowledge(environment=MDP.environment),
        Knowledge(structure=MDP.structure),
    ],
    "forgetting": [FORGET, ForgetRules(environment=cede.Window(5))],
    "limits": [LIMITS],
    "baseline": [BASELINE],
    "trials": [None],
    "plans": [FullPlans("doubling"), FullPlans(7), GreedyBackups()],
    "switching": [TASK.always(1)],
    "title": ["other"],
}
OWN = {"switching", "title"}  # a team's own: teams that differ only in these may run in one group


REFUSED = {  # by algorithm: which of the values above its types refuse
    Recommended: (GreedyBackups,),
    PosteriorSampling: (GreedyBackups,),
}


def others():
    """Return (settings, field, another value) for every field of every algorithm."""
    result = []
    for cls, plain in PLAIN.items():
        for name in (one.name for one in fields(cls)):
            for value in OTHER[name]:
                if not isinstance(value, REFUSED.get(cls, ())):
                    result.append(pytest.param(plain, name, value, id=f"{cls.__name__}-{name}-{type(value).__name__}"))
    return result


def test_every_field_has_another_value_here():
    """A new field must be added above, and is then held to all that follows."""
    assert set(OTHER) == {one.name for cls in ALGORITHMS for one in fields(cls)}


@pytest.mark.parametrize(("plain", "name", "value"), others())
def test_learners_that_differ_in_one_field_are_not_alike(plain, name, value):
    keys = [alike_key(TASK, settings, {}) for settings in (plain, replace(plain, **{name: value}))]
    assert (keys[0] == keys[1]) == (name in OWN)


@pytest.mark.parametrize(("plain", "name", "value"), others())
def test_every_field_is_written_and_read(plain, name, value):
    settings, arrays = replace(plain, **{name: value}), {}
    again = archive.rebuild(archive.describe(settings, "told", arrays), arrays, CLASSES)
    assert type(again) is type(settings)
    assert archive.digest(again) == archive.digest(settings)
    assert archive.digest(again) != archive.digest(plain)
    again.check_fits("test", TASK)


def test_agents_go_by_their_place():
    """Teams that call their agents differently are alike."""
    other = cede.worlds.riverswim(agents=[0.1, 0.9])
    rules = [ForgetRules({mdp.task.agents[1]: cede.HalfLife(9)}) for mdp in (MDP, other)]
    known = [Knowledge(structure=cede.Structure({mdp.task.agents[0]: [0, 0, 0, 1, 1, 1]})) for mdp in (MDP, other)]
    one, two = (UCRL2MC(forgetting=rule, knowledge=structure) for rule, structure in zip(rules, known, strict=True))
    assert alike_key(TASK, one, {}) == alike_key(other.task, two, {})
    swapped = replace(one, forgetting=ForgetRules({TASK.agents[0]: cede.HalfLife(9)}))
    assert alike_key(TASK, one, {}) != alike_key(TASK, swapped, {})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BeliefNames("wide"), "belief: environment is 'wide', must be one of"),
        (
            lambda: UCRL2MC(BeliefNames("appendix")),
            "ucrl2_mc: radius is 'appendix' and None, must be sets that this learner can have",
        ),
        (lambda: UCRL2("wide"), "ucrl2: radius is 'wide', must be one of 'appendix', 'same-form'"),
        (lambda: UCRL2MC(delta=1.0), "ucrl2_mc: delta is 1.0, must be a number in"),
        (lambda: PosteriorSampling(-1.0), "posterior_sampling: prior is -1.0, must be from"),
        (lambda: PosteriorSampling(0.0), "posterior_sampling: prior is 0.0, must be from"),
        (lambda: FullPlans(0), "replan is 0, must be an integer of at least 1|from 1"),
        (lambda: cede.ucrl2_mc(TASK, planning="greedy", replan=3), "greedy planning has no whole plan to keep"),
        (lambda: ForgetRules({"p=0.3": 5}), r"forget\['p=0.3'\] is 5, must be a HalfLife or a Window"),
        (lambda: UCRL2MC(forgetting=FORGET, plans=FullPlans("doubling")), "counts that fade may never double"),
        (lambda: UCRL2MC(forgetting=FORGET, plans=GreedyBackups()), "greedy planning never gives up what it once believed"),
        (lambda: UCRL2MC(limits=LIMITS, plans=GreedyBackups()), "greedy planning is for costs that stay"),
        (lambda: UCRL2MC(limits=LIMITS, plans=FullPlans("doubling")), "a plan that is kept has its shares"),
        (lambda: UCRL2MC(baseline=BASELINE, plans=GreedyBackups()), "only of a whole plan it can be proven what it costs"),
        (lambda: UCRL2MC(baseline=BASELINE, forgetting=FORGET), "forget is given, must be left out with a baseline"),
        (lambda: UCRL2MC(baseline=TrialEpisodes()), "ucrl2_mc: baseline is TrialEpisodes.*, must be a"),
        (lambda: Recommended(plans=GreedyBackups()), "recommended: plans is GreedyBackups.*, must be a FullPlans"),
        (lambda: UCRL2MC(BeliefNames("calibrated"), plans=GreedyBackups()), "planning is 'greedy', must be 'full' with calibrated"),
        (lambda: UCRL2MC(BeliefNames("kl-value"), baseline=BASELINE), "belief is 'kl-value', must be 'kl' with a baseline"),
        (
            lambda: UCRL2MC(BeliefNames("kl"), forgetting=ForgetRules(environment=cede.HalfLife(5))),
            "belief is 'kl', must be 'printed' or 'calibrated' with forget",
        ),
        (lambda: PosteriorSampling(features=FEATURES, forgetting=FORGET), "features is given, must be left out with forget"),
        (lambda: ShareLimits([0.0], [1.0]), r"limits: least is \[0.0\], must be an array of float64"),
        (lambda: Fixed(np.zeros((2, 2))), "fixed policy: policy is .* must be an array of int16 with 3 axes"),
    ],
)
def test_settings_check_themselves(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("cls", "option"),
    [
        (UCRL2, "knowledge"),
        (UCRL2, "limits"),
        (UCRL2MC, "trials"),
        (Greedy, "baseline"),
        (Greedy, "belief"),
        (Greedy, "features"),
        (UCRL2MC, "prior"),
        (Fixed, "plans"),
    ],
)
def test_an_algorithm_has_only_its_own_options(cls, option):
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        replace(PLAIN[cls], **{option: None})


def test_a_newcomer_has_the_same_settings_except_for_what_is_a_teams_own():
    knowledge = Knowledge({0: MDP.team.agents[0].policy[None]}, structure=MDP.structure)
    settings = UCRL2MC(delta=0.2, scale=cede.Scale(agents=0.5), limits=LIMITS, knowledge=knowledge, plans=FullPlans(7))
    new = for_newcomer(TASK, settings, TASK, {})
    changed = {one.name for one in fields(UCRL2MC) if getattr(new, one.name) is not getattr(settings, one.name)}
    assert changed == {"limits", "knowledge", "forgetting"}
    assert new.limits is None
    assert new.knowledge.agents == {}
    assert for_newcomer(TASK, Recommended(), TASK, {}).trials == TrialEpisodes()
    assert for_newcomer(TASK, Recommended(limits=LIMITS, trials=None), TASK, {}).trials is None


def test_what_a_user_reads_holds_every_setting():
    """`about` names everything by which learners differ, as itself or in other words."""
    words = {
        "belief": "radius",
        "form": "radius",
        "knowledge": "known_agents",
        "forgetting": "forget",
        "limits": "at_most",
        "trials": "trial_episodes",
    }
    words |= {"plans": "replan", "switching": "learner", "title": "learner"}
    limited = UCRL2MC(limits=LIMITS, forgetting=ForgetRules(environment=cede.Window(5)))
    about = cede.Learner(TASK, limited).about | cede.Learner(TASK, UCRL2MC(baseline=BASELINE)).about
    for name in OTHER:
        assert words.get(name, name) in about, name


@pytest.mark.parametrize(
    ("learner", "expected"),
    [
        (cede.ucrl2_mc(TASK), "ucrl2_mc()"),
        (cede.ucrl2_mc(TASK, delta=0.05, scale=0.1, belief="kl"), "ucrl2_mc(belief='kl', delta=0.05, scale=0.1)"),
        (cede.ucrl2_mc(TASK, at_most={1: 0.5}, replan=3), "ucrl2_mc(at_most={1: 0.5}, replan=3)"),
        (cede.ucrl2_mc(TASK, baseline="p=0.3", alpha=0.2), "ucrl2_mc(baseline='p=0.3', alpha=0.2)"),
        (
            cede.ucrl2_mc(TASK, scale=cede.Scale(agents=0.5), forget={"p=0.3": cede.HalfLife(5)}),
            "ucrl2_mc(scale=Scale(agents=0.5, environment=1.0), forget={'p=0.3': HalfLife(episodes=5.0)})",
        ),
        (cede.recommended(TASK), "recommended()"),
        (cede.ucrl2(TASK, radius="same-form", planning="greedy"), "ucrl2(radius='same-form', planning='greedy')"),
        (cede.posterior_sampling(TASK, prior=2.0, features=True), "posterior_sampling(prior=2.0, features=Features(...))"),
        (
            cede.greedy(TASK, known_environment=MDP.environment, known_agents={"p=0.3": MDP.team.agents[0].policy}),
            "greedy(known_agents={0: array(...)}, known_environment=Environment(...))",
        ),
        (cede.fixed(TASK, 1), "fixed('p=0.7')"),
        (cede.oracle(MDP), "oracle()"),
    ],
)
def test_settings_read_like_the_call_that_made_them(learner, expected):
    assert repr(learner.settings) == expected


OLD = {  # the fields that files of schemas 3 to 6 hold for every algorithm
    **{"name": "ucrl2_mc", "radius": "printed", "agents_radius": None, "prior": 0.0, "delta": 0.1, "scale": cede.Scale()},
    **{"flat": False, "known_agents": {}, "known_environment": None, "structure": None, "forget": {}, "forget_environment": None},
    **{"limits": None, "baseline": None, "policy": None, "planning": "full", "replan": "every"},
}


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ({}, UCRL2MC()),
        ({"agents_radius": "kl", "delta": 0.2, "replan": 7}, UCRL2MC(BeliefNames("printed", "kl"), 0.2, plans=FullPlans(7))),
        ({"planning": "greedy", "scale": cede.Scale(0.5)}, UCRL2MC(scale=cede.Scale(0.5), plans=GreedyBackups())),
        ({"limits": (LIMITS.least, LIMITS.most), "forget": FORGET.agents}, UCRL2MC(limits=LIMITS, forgetting=FORGET)),
        ({"baseline": BASELINE}, UCRL2MC(baseline=BASELINE)),
        ({"radius": "calibrated"}, UCRL2MC(BeliefNames("calibrated"))),
        ({"name": "recommended", "radius": "calibrated"}, Recommended(trials=None)),
        ({"name": "recommended", "radius": "calibrated", "auditions": True}, Recommended()),
        ({"name": "ucrl2 (same-form)", "flat": True}, UCRL2("same-form")),
        ({"name": "ucrl2 (appendix)", "flat": True, "radius": "appendix"}, UCRL2()),
        ({"name": "greedy", "radius": None}, Greedy()),
        ({"name": "posterior_sampling", "radius": None, "prior": 2.0, "features": FEATURES}, PosteriorSampling(2.0, FEATURES)),
        ({"name": "p=0.3", "radius": None, "policy": TASK.always(0)}, Fixed(TASK.always(0), "p=0.3")),
    ],
)
def test_settings_of_older_files(old, expected):
    settings = settings_from_fields(**{**OLD, **old})
    assert type(settings) is type(expected)
    assert archive.digest(settings) == archive.digest(expected)


@pytest.mark.parametrize(
    "wrong",
    [
        {"prior": 1.0},
        {"features": FEATURES},
        {"flat": True, "structure": MDP.structure},
        {"flat": True, "radius": "kl"},
        {"radius": None, "agents_radius": "kl"},
        {"policy": TASK.always(0)},
        {"baseline": BASELINE, "limits": (LIMITS.least, LIMITS.most)},
        {"auditions": True},
        {"planning": "lazy"},
        {"planning": "greedy", "replan": 3},
    ],
)
def test_what_older_files_cannot_hold(wrong):
    with pytest.raises(ValueError, match="must be"):
        settings_from_fields(**{**OLD, **wrong})


@pytest.mark.parametrize("make", [cede.recommended, cede.greedy, cede.ucrl2_mc, cede.ucrl2, cede.posterior_sampling])
def test_the_seed_is_0_unless_it_is_given(make):
    assert (make(TASK).seed, make(TASK, seed=3).seed) == (0, 3)
