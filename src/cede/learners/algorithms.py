"""The settings type of each algorithm, and settings from files. Each algorithm's own file has the function that makes a learner.

What is read from a file goes through the same checks as any other input, so a file cannot make settings that no call could make.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from cede._base import archive, check
from cede._base.archive import Arrays
from cede._base.arrays import Policy
from cede.beliefs.posterior import checked_prior
from cede.beliefs.scale import Scale, StepDown
from cede.learners.options import BeliefNames, ForgetRules, FullPlans, GreedyBackups, Knowledge, Plans
from cede.learners.promises import Baseline, ShareLimits, TrialEpisodes, checked_form
from cede.learners.settings import Settings
from cede.problem.features import Features
from cede.problem.model import Environment
from cede.problem.structure import Outcomes, Structure
from cede.problem.takeover import Modes
from cede.problem.task import Task
from cede.rows.fading import HalfLife, Window

CALIBRATED = BeliefNames("calibrated")
FORMS = {"appendix": "appendix", "same-form": "printed"}  # kinds of sets of UCRL2 by its argument `radius`


@dataclass(frozen=True, eq=False, repr=False)
class UCRL2MC(Settings):
    """Settings of `ucrl2_mc`."""

    belief: BeliefNames = BeliefNames()
    delta: float = 0.1
    scale: Scale = Scale()
    knowledge: Knowledge = Knowledge()
    forgetting: ForgetRules = ForgetRules()
    promise: ShareLimits | Baseline | None = None
    plans: Plans = FullPlans()

    name = "ucrl2_mc"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.allows("two layers"):
            both = f"{self.belief.environment!r} and {self.belief.agents!r}"
            check.fail(self.owner, "radius", both, "sets that this learner can have")


@dataclass(frozen=True, eq=False, repr=False)
class Recommended(Settings):
    """Settings of `recommended`."""

    knowledge: Knowledge = Knowledge()
    forgetting: ForgetRules = ForgetRules()
    promise: TrialEpisodes | ShareLimits | Baseline | None = TrialEpisodes()
    plans: FullPlans = FullPlans()

    name = "recommended"
    belief = CALIBRATED


@dataclass(frozen=True, eq=False, repr=False)
class UCRL2(Settings):
    """Settings of `ucrl2`."""

    form: str = field(default="appendix", metadata={"argument": "radius"})  # of the radius: "appendix" or "same-form"
    delta: float = 0.1
    scale: Scale = Scale()
    plans: Plans = FullPlans()

    flat = True

    def __post_init__(self) -> None:
        check.choice("ucrl2", "radius", self.form, tuple(FORMS))
        super().__post_init__()

    @property
    def name(self) -> str:
        """Return the name of the learner."""
        return f"ucrl2 ({self.form})"

    @property
    def belief(self) -> BeliefNames:
        """Return the kind of the set."""
        return BeliefNames(FORMS[self.form])


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorSampling(Settings):
    """Settings of `posterior_sampling`."""

    prior: float = 1.0
    features: Features | None = None
    knowledge: Knowledge = Knowledge()
    forgetting: ForgetRules = ForgetRules()
    promise: ShareLimits | None = None
    plans: FullPlans = FullPlans()

    name = "posterior_sampling"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_prior(self.owner, self.prior)


@dataclass(frozen=True, eq=False, repr=False)
class Greedy(Settings):
    """Settings of `greedy`."""

    knowledge: Knowledge = Knowledge()
    forgetting: ForgetRules = ForgetRules()
    promise: ShareLimits | None = None
    plans: Plans = FullPlans()

    name = "greedy"


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Settings):
    """Settings of `fixed` and `oracle`."""

    switching: Policy  # (L, S, D) the policy that is used in every episode
    title: str = "fixed policy"  # name of the learner

    def __post_init__(self) -> None:
        check.name("Settings", "name", self.title)
        super().__post_init__()
        object.__setattr__(self, "switching", checked_form(self.owner, "policy", self.switching, 3, np.int16))

    @property
    def name(self) -> str:
        """Return the name of the learner: that of the agent, "fixed policy" or "oracle"."""
        return self.title

    @property
    def policy(self) -> Policy:
        """Return the policy that is used in every episode, (L, S, D)."""
        return self.switching

    def __repr__(self) -> str:
        return "oracle()" if self.title == "oracle" else f"fixed({self.title!r})"


@dataclass(frozen=True, eq=False, repr=False)
class CountsAlone(Settings):
    """Settings of a learner that has counts and what is known, and nothing else: no sets, no limits, nothing fades.

    prior: pseudo-counts of a row if tables are drawn; 0: frequencies are taken for the truth.
    """

    prior: float = 0.0
    knowledge: Knowledge = Knowledge()

    name = "greedy"


ALGORITHMS = (UCRL2MC, Recommended, UCRL2, PosteriorSampling, Greedy, Fixed)
OPTIONS = (BeliefNames, Knowledge, ForgetRules, ShareLimits, Baseline, TrialEpisodes, FullPlans, GreedyBackups)
PARTS = (Task, Modes, Scale, StepDown, HalfLife, Window, Structure, Outcomes, Environment, Features)
CLASSES: dict[str, Callable[..., Any]] = {cls.__name__: cls for cls in (*ALGORITHMS, *OPTIONS, *PARTS)}


def unpack_settings(header: Mapping[str, Any], arrays: Arrays) -> tuple[Task, Settings]:
    """Make task and settings from what `pack_settings` returned, and check that they fit together."""
    classes = {**CLASSES, "Settings": settings_from_fields}
    task, settings = (archive.rebuild(header[name], arrays, classes) for name in ("task", "told"))
    if not isinstance(task, Task) or not isinstance(settings, Settings):
        check.fail("file", "task and settings", "others", "a Task and Settings")
    settings.check_fits("file", task)
    return task, settings


def settings_from_fields(
    *,
    name: str,
    radius: str | None,
    agents_radius: str | None,
    prior: float,
    delta: float,
    scale: Scale,
    flat: bool,
    known_agents: Mapping[int, Any],
    known_environment: Environment | None,
    structure: Structure | None,
    forget: Mapping[str, Any],
    forget_environment: Any,
    limits: Any,
    baseline: Baseline | None,
    policy: Any,
    planning: str,
    replan: Any,
    features: Features | None = None,
    auditions: bool = False,
) -> Settings:
    """Return the settings of an algorithm from the fields that older files, up to schema 6 and the first of 7, hold for all.

    Options that the algorithm does not have must be empty there. features: since schema 5. auditions: trial episodes, since 4.
    """
    check.choice("file", "planning", planning, ("full",) if replan not in ("every", 1) else ("full", "greedy"))
    limited, trials = None if limits is None else ShareLimits(*limits), TrialEpisodes() if auditions else None
    promises = [one for one in (limited, baseline, trials) if one is not None]
    options: dict[str, Any] = {
        "belief": None if radius is None else BeliefNames(radius, agents_radius),
        "delta": delta,
        "scale": scale,
        "prior": prior,
        "features": features,
        "knowledge": Knowledge(known_agents, known_environment, structure),
        "forgetting": ForgetRules(forget, forget_environment),
        "promise": promises[0] if promises else None,
        "plans": GreedyBackups() if planning == "greedy" else FullPlans(replan),
    }
    algorithm: type[Settings] = Greedy if radius is None else UCRL2MC
    if policy is not None:
        algorithm, options["switching"], options["title"] = Fixed, policy, name
    elif flat:
        forms = {kind: form for form, kind in FORMS.items()}
        algorithm, options["form"] = UCRL2, forms[check.choice("file", "radius", radius, tuple(forms))]
    elif prior:
        algorithm = PosteriorSampling
    elif name == "recommended" and options["belief"] == CALIBRATED and (delta, scale) == (0.1, Scale()):
        algorithm = Recommended
    own = {one.name for one in fields(algorithm)}
    in_every_file = {"delta", "scale", "plans"} | ({"belief"} if algorithm in (UCRL2, Recommended) else set())
    if len(promises) > 1 or (radius is None and agents_radius is not None):
        check.fail("file", f"the settings of {check.printable(name)[:60]}", "contradictory", "one promise, sets of both layers")
    for option, value in options.items():
        if option not in own | in_every_file and getattr(value, "arguments", value):
            check.fail("file", f"{option} of {check.printable(name)[:60]}", "given", "left out")
    return algorithm(**{option: value for option, value in options.items() if option in own})
