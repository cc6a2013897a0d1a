"""The settings of a learner: what the library reads of them, whichever algorithm they are of.

Each algorithm has a settings type of its own in its file (ucrl2_mc.py, ...): a frozen dataclass with the options that it has, as
its function makes them (options.py, promises.py). `Settings` is what they have in common. It says what holds for an algorithm
without an option, and checks which options go together. A new option of one algorithm is a field of its type; the property by
which kernels or views read it is added here.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from types import UnionType
from typing import Any, get_type_hints

import numpy as np

from cede._base import archive, check
from cede._base.arrays import Floats, Policy
from cede._base.remade import Remade
from cede.beliefs.kind import BeliefKind, Use
from cede.beliefs.registry import BY_NAME, sets_that_allow
from cede.beliefs.scale import Scale, StepDown
from cede.learners.options import BeliefNames, ForgetRules, FullPlans, GreedyBackups, Knowledge, Planning, Plans
from cede.learners.promises import Baseline, ShareLimits, TrialEpisodes
from cede.problem.features import Features
from cede.problem.model import Environment
from cede.problem.structure import Outcomes, Structure
from cede.problem.task import Task
from cede.rows.fading import Forget

READ = (  # properties by which learners differ beside their name and a fixed policy, in the order in which users read them
    *("radius", "agents_radius", "prior", "delta", "scale", "flat", "known_agents", "known_environment", "structure", "features"),
    *("forget", "forget_environment", "limits", "baseline", "planning", "trial_episodes", "replan"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Settings(Remade, ABC):
    """What is read of the settings of any algorithm. A subclass has fields for the options that its algorithm takes."""

    def __post_init__(self) -> None:
        for name, kind in kinds_of(type(self)).items():
            if not isinstance(getattr(self, name), kind):
                check.fail(self.owner, name, check.show(getattr(self, name)), f"a {getattr(kind, '__name__', kind)}")
        check.probability(self.owner, "delta", self.delta)
        self._check_greedy_backups()
        self._check_doubling()
        self._check_forgetting()
        self._check_baseline()

    # ------------------------------------------------------------------------------------------------- options, and their defaults

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name of the learner, as users read it."""

    @property
    def belief(self) -> BeliefNames | None:
        """Return the kinds of the confidence sets; None: there are none (width 0)."""
        return None

    @property
    def delta(self) -> float:
        """Return the probability with which the sets may fail."""
        return 0.1

    @property
    def scale(self) -> Scale:
        """Return the factors of the radii."""
        return Scale()

    @property
    def prior(self) -> float:
        """Return the pseudo-counts of a row, if tables are sampled; 0: they are not."""
        return 0.0

    @property
    def features(self) -> Features | None:
        """Return the features of the states, from which priors are made where tables are sampled."""
        return None

    @property
    def flat(self) -> bool:
        """Return whether it learns p(s' | s, d) instead of the two layers."""
        return False

    @property
    def knowledge(self) -> Knowledge:
        """Return what is known or declared."""
        return Knowledge()

    @property
    def forgetting(self) -> ForgetRules:
        """Return how counts fade."""
        return ForgetRules()

    @property
    def promise(self) -> ShareLimits | Baseline | TrialEpisodes | None:
        """Return what it promises beside a low cost."""
        return None

    @property
    def plans(self) -> Plans:
        """Return how it plans."""
        return FullPlans()

    @property
    def policy(self) -> Policy | None:
        """Return the policy that is used in every episode, (L, S, D); None: the learner plans."""
        return None

    # ------------------------------------------------------------------------------------------------- what follows from them

    @property
    def owner(self) -> str:
        """Return the function that errors name."""
        return self.name.split(" (")[0]

    @property
    def radius(self) -> str | None:
        """Return the kind of the confidence sets, of the environment's if the agents' are others; None: there are none."""
        return None if self.belief is None else self.belief.environment

    @property
    def agents_radius(self) -> str | None:
        """Return the kind of the agents' sets; None: the same."""
        return None if self.belief is None else self.belief.agents

    @property
    def known_agents(self) -> Mapping[int, Floats]:
        """Return the policies that are known: index in task.tables -> (slots, S, A)."""
        return self.knowledge.agents

    @property
    def known_environment(self) -> Environment | None:
        """Return the environment, if it is known."""
        return self.knowledge.environment

    @property
    def structure(self) -> Structure | None:
        """Return what is declared of the layers that are learned."""
        return self.knowledge.structure

    @property
    def outcomes(self) -> Outcomes | None:
        """Return the declared structure of the environment; None if there is none."""
        return None if self.structure is None else self.structure.environment

    @property
    def forget(self) -> Mapping[str, Forget]:
        """Return how counts of agents fade, by name in task.tables; those of agents that are not there do not."""
        return self.forgetting.agents

    @property
    def forget_environment(self) -> Forget | None:
        """Return how counts of the environment fade."""
        return self.forgetting.environment

    @property
    def forgets(self) -> bool:
        """Return whether any counts fade."""
        return bool(self.forget) or self.forget_environment is not None

    @property
    def limits(self) -> tuple[Floats, Floats] | None:
        """Return the least and the most share of the steps of each member, (members,) each; None: there are no limits."""
        return (self.promise.least, self.promise.most) if isinstance(self.promise, ShareLimits) else None

    @property
    def baseline(self) -> Baseline | None:
        """Return what the learner must never be much worse than."""
        return self.promise if isinstance(self.promise, Baseline) else None

    @property
    def trial_episodes(self) -> bool:
        """Return whether every member has control in whole episodes, at first and then ever more seldom."""
        return isinstance(self.promise, TrialEpisodes)

    @property
    def planning(self) -> Planning:
        """Return "full" if it makes whole plans, "greedy" if it backs up only the states that are visited."""
        return "greedy" if isinstance(self.plans, GreedyBackups) else "full"

    @property
    def replan(self) -> str | int:
        """Return when it makes a new plan: for "every" episode, by "doubling", or every so many episodes (or steps)."""
        return self.plans.replan if isinstance(self.plans, FullPlans) else "every"

    @property
    def kinds(self) -> tuple[BeliefKind, ...]:
        """Return the kinds of sets of both layers; empty if there are none."""
        return tuple(BY_NAME[name] for name in (self.radius, self.agents_radius) if name is not None)

    def allows(self, use: Use) -> bool:
        """Return whether the sets of both layers may be used for this."""
        return all(use in kind.allows for kind in self.kinds)

    @property
    def has_sets(self) -> bool:
        """Return whether there are sets of both layers that are to hold the truth, so that they bound costs from both sides."""
        return self.radius is not None and not self.flat and self.allows("bounds")

    @property
    def is_scaled(self) -> bool:
        """Return whether radii may be narrower than those that carry the guarantee."""
        parts = (self.scale.agents, self.scale.environment)
        return not self.allows("guarantee") or any(not isinstance(x, float) or x < 1.0 for x in parts)

    @property
    def can_share(self) -> bool:
        """Return whether a learner with these settings learns an environment table that others can use."""
        return not self.flat and self.known_environment is None and self.policy is None and self.forget_environment is None

    # ------------------------------------------------------------------------------------------------- wrong pairs of options

    def _check_greedy_backups(self) -> None:
        """Check that the other options allow to back up only the states that are visited."""
        if self.planning == "full":
            return
        for kind in self.kinds:
            if "greedy planning" not in kind.allows:
                check.fail(self.owner, "planning", "'greedy'", f"'full' with {kind.name} sets: their size follows from all rows")
        if self.forgets:
            expected = "'full' with forget: greedy planning never gives up what it once believed"
        elif self.limits is not None:
            expected = "'full' with at_most or at_least: greedy planning is for costs that stay"
        elif self.baseline is not None:
            expected = "'full' with a baseline: only of a whole plan it can be proven what it costs"
        else:
            return
        check.fail(self.owner, "planning", "'greedy'", expected)

    def _check_doubling(self) -> None:
        """Check that the other options allow to plan when a count has doubled."""
        if self.replan == "doubling" and self.forgets:
            expected = "'every' or a number with forget: counts that fade may never double"
            check.fail(self.owner, "replan", "'doubling'", expected)
        if self.replan == "doubling" and self.limits is not None:
            expected = "'every' or a number with at_most or at_least: a plan that is kept has its shares"
            check.fail(self.owner, "replan", "'doubling'", expected)

    def _check_forgetting(self) -> None:
        """Check that the sets are for counts that fade, if they do."""
        for kind in self.kinds if self.forgets else ():
            if "fading" not in kind.allows:
                names = " or ".join(map(repr, sets_that_allow("two layers", "fading")))
                check.fail(self.owner, "belief", repr(kind.name), f"{names} with forget: these sets are not for counts that fade")
        if self.features is not None and self.forgets:
            expected = "left out with forget: models are fitted to counts that do not fade"
            check.fail(self.owner, "features", "given", expected)

    def _check_baseline(self) -> None:
        """Check that what the learner costs can be compared with a baseline, if it has one."""
        if self.baseline is None:
            return
        if self.forgets:
            check.fail(self.owner, "forget", "given", "left out with a baseline: what was proven would have to be forgotten, too")
        for kind in self.kinds:
            if "bounds" not in kind.allows:
                expected = "'kl' with a baseline: sets for optimism only prove nothing about what a policy costs at most"
                check.fail(self.owner, "belief", repr(kind.name), expected)

    def __repr__(self) -> str:
        """Return the call that makes such settings, without arguments that have their defaults."""
        given: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and value != one.default:
                given |= getattr(value, "arguments", {one.metadata.get("argument", one.name): value})
        return f"{self.owner}({', '.join(f'{name}={written(value)}' for name, value in given.items())})"


@cache
def kinds_of(settings: type[Settings]) -> dict[str, Any]:
    """Return the types of the fields of settings, by name, as far as they can be checked. Arrays are not among them."""
    hints = get_type_hints(settings)
    return {one.name: hint for one in fields(settings) if isinstance(hint := hints[one.name], type | UnionType)}


def written(value: Any) -> str:
    """Return an argument as it could stand in a call; what is large is left out."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {written(one)}" for name, one in value.items()) + "}"
    if isinstance(value, np.ndarray):
        return "array(...)"
    if isinstance(value, Scale):
        alike = value.agents == value.environment
        return repr(value.agents) if alike else f"Scale(agents={value.agents!r}, environment={value.environment!r})"
    return f"{type(value).__name__}(...)" if isinstance(value, Environment | Structure | Features) else repr(value)


def with_options(settings: Settings, **options: Any) -> Settings:
    """Return settings with other options, of which those that the algorithm does not have are left out."""
    return replace(settings, **{one.name: options[one.name] for one in fields(settings) if one.name in options})


# -------------------------------------------------------------------------------- functions over all options


def shown(task: Task, settings: Settings) -> dict[str, Any]:
    """Return settings as a user reads them: all that is needed to repeat a run, as text and numbers by name."""
    bounded = settings.radius is not None
    radius = (
        settings.radius if settings.agents_radius is None else f"{settings.agents_radius} (agents), {settings.radius} (environment)"
    )
    forget = {
        **settings.forget,
        **({} if settings.forget_environment is None else {"the environment": settings.forget_environment}),
    }
    special: dict[str, Any] = {
        "radius": radius,
        "delta": settings.delta if bounded else None,
        "scale": shown_scale(settings) if bounded else None,
        "prior": settings.prior or None,
        "structure": None if settings.structure is None else str(settings.structure),
        "features": None if settings.features is None else list(settings.features.names),
        "forget": forget or None,
        "known_agents": [task.tables[table] for table in settings.known_agents],
        "known_environment": settings.known_environment is not None,
    }
    elsewhere = {"agents_radius", "flat", "forget_environment", "limits", "baseline"}  # shown under other names
    result: dict[str, Any] = {"learner": settings.name}
    for name in READ:
        if name not in elsewhere:
            result[name] = special.get(name, getattr(settings, name))
    if settings.limits is not None:
        least, most = settings.limits
        result["at_least"] = {name: float(x) for name, x in zip(task.members, least, strict=True) if x > 0} or None
        result["at_most"] = {name: float(x) for name, x in zip(task.members, most, strict=True) if x < 1} or None
    if settings.baseline is not None:
        start = "" if settings.baseline.start is None else ", start known"
        result["baseline"] = str(settings.baseline) + start + (" (not guaranteed: radii are scaled)" if settings.is_scaled else "")
    return result


def shown_scale(settings: Settings) -> str:
    """Return the scale of the sets as a user reads it."""
    return ("" if settings.allows("guarantee") else "calibrated from the data, no guarantee; times ") + str(settings.scale)


Memo = dict[Any, Any]  # digests of large values that were met before, by identity


def key_of(value: Any, memo: Memo) -> Any:
    """Return a hashable key of a value, equal for equal values. memo: keys of large values that were met before."""
    if isinstance(value, np.ndarray):
        place = (value.ctypes.data, value.shape)  # equal for all views of one array
        if place not in memo:
            memo[place] = (
                hashlib.sha256(np.ascontiguousarray(value).data).hexdigest(),
                value,
            )  # keeps the value alive, so that its address is not used again
        return memo[place][0]
    if isinstance(value, Mapping):
        return tuple((name, key_of(one, memo)) for name, one in value.items())
    if isinstance(value, tuple):
        return tuple(key_of(one, memo) for one in value)
    if isinstance(value, Environment | Outcomes | Features):
        if id(value) not in memo:
            memo[id(value)] = (archive.digest(value), value)
        return memo[id(value)][0]
    return value


def alike_key(task: Task, settings: Settings, memo: Memo) -> tuple[Any, ...]:
    """Return a hashable key of settings, which is equal for learners that may run in one group.

    Agents are compared by their place in the task, since teams may name them differently. Names and fixed policies are a team's own
    and left out. Functions, as scales may be, are compared by identity.
    """
    structure, baseline = settings.structure, settings.baseline
    declared = {} if structure is None else structure.agents
    by_place = {
        "scale": tuple(
            one if isinstance(one, float | StepDown) else id(one) for one in (settings.scale.agents, settings.scale.environment)
        ),
        "structure": (tuple(declared.get(name) for name in task.tables), structure and structure.environment),
        "forget": tuple(settings.forget.get(name) for name in task.tables),
        "baseline": baseline and (baseline.policy, baseline.alpha, baseline.start),
    }
    return (settings.policy is None, *(key_of(by_place.get(name, getattr(settings, name)), memo) for name in READ))


def for_newcomer(task: Task, settings: Settings, like: Task, known_agents: Mapping[int, Floats]) -> Settings:
    """Return the settings of a new team that are those of another one, but for what is a team's own.

    task: that of the new team. settings, like: settings and task of the other team. known_agents: known policies of the new team's
    agents, as in `Knowledge`.

    Limits, a baseline and known agents are not taken over. What is declared of agents, and rules to forget, are taken over for
    agents of the same name. If one rule holds for all agents of the other team, it holds for all of the new one.
    """
    structure, forget = settings.structure, {name: rule for name, rule in settings.forget.items() if name in task.tables}
    if structure is not None:
        own = {name for table, name in enumerate(task.tables) if table not in known_agents}
        left = {name: cases for name, cases in structure.agents.items() if name in own}
        structure = replace(structure, agents=left)
    if len(settings.forget) == len(like.tables) and len(set(settings.forget.values())) == 1:  # one rule for all agents
        forget = dict.fromkeys(task.tables, next(iter(settings.forget.values())))
    return with_options(
        settings,
        knowledge=Knowledge(known_agents, settings.known_environment, structure),
        forgetting=ForgetRules(forget, settings.forget_environment),
        promise=settings.promise if settings.trial_episodes else None,
    )
