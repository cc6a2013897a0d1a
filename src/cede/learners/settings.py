"""The settings of a learner: what the library reads of them, whichever algorithm they are of.

Each algorithm has a settings type of its own in its file (ucrl2_mc.py, ...): a frozen dataclass with the options that it has, as
its function makes them (options.py, promises.py). `Settings` is what they have in common: the value of an option that an algorithm
does not have, and which options and tasks go together (`conflicts`, `conflicts_with_task`). A new option of one algorithm is a
field of its type, its value for the others here, and a line in `shown`; files and groups of learners follow from the fields.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields, replace
from functools import cache, cached_property
from types import UnionType
from typing import Any, ClassVar, get_type_hints

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
from cede.problem.policies import checked_switching_policy
from cede.problem.structure import Outcomes, Structure
from cede.problem.task import Task

TEAMS_OWN = ("switching", "title")  # fields that are a team's own, see `alike_key`
Conflict = tuple[Any, str, Any, str]  # whether there is one; which option, its value, and what it must be instead


class Settings(Remade, ABC):
    """What is read of the settings of any algorithm. A subclass, a dataclass, has fields for the options that its algorithm takes;
    an option that it does not have is as here.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    delta: float = 0.1  # the probability with which the sets may fail
    scale: Scale = Scale()  # factors of the radii
    prior: float = 0.0  # pseudo-counts of a row, if tables are sampled; 0: they are not
    features: Features | None = None  # of the states, from which priors are made where tables are sampled
    flat: bool = False  # whether it learns p(s' | s, d) instead of the two layers
    knowledge: Knowledge = Knowledge()  # what is known or declared
    forgetting: ForgetRules = ForgetRules()  # how counts fade
    limits: ShareLimits | None = None  # shares of control that it promises
    baseline: Baseline | None = None  # what it promises never to be much worse than
    trials: TrialEpisodes | None = None  # whole episodes in which one member has control, to learn how it acts
    plans: Plans = FullPlans()  # how it plans

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name of the learner, as users read it."""

    @property
    def belief(self) -> BeliefNames | None:
        """Return the kinds of the confidence sets; None: there are none (width 0)."""
        return None

    @property
    def policy(self) -> Policy | None:
        """Return the policy that is used in every episode, (L, S, D); None: the learner plans."""
        return None

    def __post_init__(self) -> None:
        for name, kind in kinds_of(type(self)).items():
            if not isinstance(getattr(self, name), kind):
                check.fail(self.owner, name, check.show(getattr(self, name)), f"a {getattr(kind, '__name__', kind)}")
        check.probability(self.owner, "delta", self.delta)
        refuse(self.owner, conflicts(self))

    def check_fits(self, owner: str, task: Task) -> None:
        """Check that a learner with these settings can be made for a task: shapes, names, and which options a task allows."""
        self.knowledge.check_fits(owner, task)
        self.forgetting.check_fits(owner, task)
        if self.features is not None and len(self.features.codes) != task.n_states:
            check.fail(owner, "the number of rows of features", len(self.features.codes), f"{task.n_states}, the number of states")
        refuse(owner, conflicts_with_task(self, task))
        for promise in (self.limits, self.baseline, self.trials):
            if promise is not None:
                promise.check_fits(owner, task)
        if self.policy is not None:
            checked_switching_policy(owner, task, self.policy if task.horizon is not None else self.policy[0])

    # ------------------------------------------------------------------------------------------------- what follows from options

    @property
    def owner(self) -> str:
        """Return the function that errors name."""
        return self.name.split(" (")[0]

    @cached_property
    def structure(self) -> Structure | None:
        """Return what is declared of the layers that are learned."""
        return self.knowledge.structure

    @property
    def outcomes(self) -> Outcomes | None:
        """Return the declared structure of the environment; None if there is none."""
        return None if self.structure is None else self.structure.environment

    @cached_property
    def planning(self) -> Planning:
        """Return "full" if it makes whole plans, "greedy" if it backs up only the states that are visited."""
        return "greedy" if isinstance(self.plans, GreedyBackups) else "full"

    @cached_property
    def replan(self) -> str | int:
        """Return when it makes a new plan: for "every" episode, by "doubling", or every so many episodes (or steps)."""
        return self.plans.replan if isinstance(self.plans, FullPlans) else "every"

    @cached_property
    def kinds(self) -> tuple[BeliefKind, ...]:
        """Return the kinds of sets of both layers; empty if there are none."""
        return () if self.belief is None else tuple(BY_NAME[name] for name in dict.fromkeys(self.belief.of_layers))

    def allows(self, use: Use) -> bool:
        """Return whether the sets of both layers may be used for this."""
        return all(use in kind.allows for kind in self.kinds)

    @property
    def has_sets(self) -> bool:
        """Return whether there are sets of both layers that are to hold the truth, so that they bound costs from both sides."""
        return self.belief is not None and not self.flat and self.allows("bounds")

    @property
    def is_scaled(self) -> bool:
        """Return whether radii may be narrower than those that carry the guarantee."""
        parts = (self.scale.agents, self.scale.environment)
        return not self.allows("guarantee") or any(not isinstance(x, float) or x < 1.0 for x in parts)

    @property
    def can_share(self) -> bool:
        """Return whether a learner with these settings learns an environment table that others can use."""
        is_learned = self.knowledge.environment is None and self.policy is None
        return is_learned and not self.flat and self.forgetting.environment is None

    def modelled_agents(self, task: Task) -> set[str]:
        """Return the agents, by name in `task.tables`, whose priors are made from features: neither known nor declared."""
        declared = {} if self.structure is None else self.structure.agents
        known = self.knowledge.agents
        return {name for table, name in enumerate(task.tables) if table not in known and name not in declared}

    def models_environment(self, task: Task) -> bool:
        """Return whether the environment's prior is made from features: neither known nor declared, the same at all times."""
        return self.knowledge.environment is None and self.outcomes is None and task.n_periods == 1

    def __repr__(self) -> str:
        """Return the call that makes such settings, without arguments that have their defaults."""
        given: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and value != one.default:
                given |= getattr(value, "arguments", {one.metadata.get("argument", one.name): value})
        return f"{self.owner}({', '.join(f'{name}={written(value)}' for name, value in given.items())})"


# ------------------------------------------------------------------------------------------------- which options go together


def conflicts(settings: Settings) -> Iterator[Conflict]:
    """Yield which options do not go together."""
    greedy, doubling = settings.planning == "greedy", settings.replan == "doubling"
    forgets, limited, compared = settings.forgetting.any, settings.limits is not None, settings.baseline is not None
    fading = " or ".join(map(repr, sets_that_allow("two layers", "fading")))
    for kind in settings.kinds:
        wrong = greedy and "greedy planning" not in kind.allows
        yield wrong, "planning", "'greedy'", f"'full' with {kind.name} sets: their size follows from all rows"
        wrong = forgets and "fading" not in kind.allows
        yield wrong, "belief", repr(kind.name), f"{fading} with forget: these sets are not for counts that fade"
        wrong = compared and "bounds" not in kind.allows
        expected = "'kl' with a baseline: sets for optimism only prove nothing about what a policy costs at most"
        yield wrong, "belief", repr(kind.name), expected
    expected = "'full' with forget: greedy planning never gives up what it once believed"
    yield greedy and forgets, "planning", "'greedy'", expected
    expected = "'full' with at_most or at_least: greedy planning is for costs that stay"
    yield greedy and limited, "planning", "'greedy'", expected
    expected = "'full' with a baseline: only of a whole plan it can be proven what it costs"
    yield greedy and compared, "planning", "'greedy'", expected
    expected = "'every' or a number with forget: counts that fade may never double"
    yield doubling and forgets, "replan", "'doubling'", expected
    expected = "'every' or a number with at_most or at_least: a plan that is kept has its shares"
    yield doubling and limited, "replan", "'doubling'", expected
    expected = "left out with forget: models are fitted to counts that do not fade"
    yield forgets and settings.features is not None, "features", "given", expected
    expected = "left out with a baseline: what was proven would have to be forgotten, too"
    yield forgets and compared, "forget", "given", expected


def conflicts_with_task(settings: Settings, task: Task) -> Iterator[Conflict]:
    """Yield which options a task does not allow: its environment varies with time, costs are not known, it has no horizon."""
    greedy, features, baseline = settings.planning == "greedy", settings.features is not None, settings.baseline
    expected = "left out where the environment varies with time: its cases would have to hold at all times"
    yield settings.outcomes is not None and task.periods is not None, "structure.environment", "given", expected
    known = settings.knowledge.environment
    others = known is not None and not np.array_equal(known.periods, task.periods)
    yield others, "the periods of known_environment", "others", "those of the task"
    expected = "'full' where costs of arriving are learned: they change values everywhere"
    yield greedy and task.enter_cost is not None and np.isnan(task.enter_cost).any(), "planning", "'greedy'", expected
    expected = "left out with a baseline: its proofs add up whole episodes"
    discounted = task.discount is not None and task.horizon is not None
    yield baseline is not None and discounted, "discount", task.discount, expected
    is_modelled = settings.modelled_agents(task) or settings.models_environment(task)
    expected = "left out where all agents and the environment are known or declared"
    yield features and not is_modelled, "features", "given", expected
    if task.horizon is None:
        yield features, "features", "given", "left out without a horizon: priors are made anew between episodes"
        yield baseline, "baseline", str(baseline), "left out without a horizon: its proofs count whole episodes"
        yield greedy, "planning", "'greedy'", "'full' without a horizon: greedy planning goes through an episode"
        yield settings.trials, "trial_episodes", True, "False without a horizon: there are no whole episodes"
        every = settings.replan == "every" and settings.policy is None
        yield every, "replan", "'every'", "'doubling' or a number of steps without a horizon: there are no episodes"
        scheduled = callable(settings.scale.agents) or callable(settings.scale.environment)
        yield scheduled, "scale", str(settings.scale), "numbers without a horizon: a schedule goes by episodes"


def refuse(owner: str, wrong: Iterable[Conflict]) -> None:
    """Fail with the first conflict that there is."""
    for is_wrong, place, value, expected in wrong:
        if is_wrong:
            check.fail(owner, place, value, expected)


@cache
def kinds_of(settings: type[Settings]) -> dict[str, Any]:
    """Return the types of the fields of settings, by name, as far as they can be checked. Arrays are not among them."""
    hints = get_type_hints(settings)
    return {one.name: hint for one in fields(settings) if isinstance(hint := hints[one.name], type | UnionType)}


# ------------------------------------------------------------------------------------------------- functions over all options


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


def shown(task: Task, settings: Settings) -> dict[str, Any]:
    """Return settings as a user reads them: all that is needed to repeat a run, as text and numbers by name."""
    belief, knowledge, rules = settings.belief, settings.knowledge, dict[str, Any](settings.forgetting.agents)
    if settings.forgetting.environment is not None:
        rules["the environment"] = settings.forgetting.environment
    calibrated = "" if settings.allows("guarantee") else "calibrated from the data, no guarantee; times "
    result: dict[str, Any] = {
        "learner": settings.name,
        "radius": None if belief is None else str(belief),
        "prior": settings.prior or None,
        "delta": None if belief is None else settings.delta,
        "scale": None if belief is None else f"{calibrated}{settings.scale}",
        "known_agents": [task.tables[table] for table in knowledge.agents],
        "known_environment": knowledge.environment is not None,
        "structure": None if settings.structure is None else str(settings.structure),
        "features": None if settings.features is None else list(settings.features.names),
        "forget": rules or None,
        "planning": settings.planning,
        "trial_episodes": settings.trials is not None,
        "replan": settings.replan,
    }
    if settings.limits is not None:
        least, most = settings.limits.least, settings.limits.most
        result["at_least"] = {name: float(x) for name, x in zip(task.members, least, strict=True) if x > 0} or None
        result["at_most"] = {name: float(x) for name, x in zip(task.members, most, strict=True) if x < 1} or None
    if settings.baseline is not None:
        start = "" if settings.baseline.start is None else ", start known"
        result["baseline"] = str(settings.baseline) + start + (" (not guaranteed: radii are scaled)" if settings.is_scaled else "")
    return result


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
    knowledge, structure, forgetting, scale = settings.knowledge, settings.structure, settings.forgetting, settings.scale
    declared = {} if structure is None else structure.agents
    baseline = settings.baseline and (settings.baseline.policy, settings.baseline.alpha, settings.baseline.start)
    compared: dict[str, Any] = {
        "scale": tuple(one if isinstance(one, float | StepDown) else id(one) for one in (scale.agents, scale.environment)),
        "knowledge": (
            (knowledge.agents, knowledge.environment),
            (tuple(declared.get(name) for name in task.tables), structure and (structure.environment, structure.costs)),
        ),
        "forgetting": (tuple(forgetting.agents.get(name) for name in task.tables), forgetting.environment),
        "limits": settings.limits and (settings.limits.least, settings.limits.most),
        "baseline": baseline,
    }
    names = (one.name for one in fields(settings) if one.name not in TEAMS_OWN)
    return type(settings), *(key_of(compared.get(name, getattr(settings, name)), memo) for name in names)


def for_newcomer(task: Task, settings: Settings, like: Task, known_agents: Mapping[int, Floats]) -> Settings:
    """Return the settings of a new team that are those of another one, but for what is a team's own.

    task: that of the new team. settings, like: settings and task of the other team. known_agents: known policies of the new team's
    agents, as in `Knowledge`.

    Limits, a baseline and known agents are not taken over. What is declared of agents, and rules to forget, are taken over for
    agents of the same name. If one rule holds for all agents of the other team, it holds for all of the new one.
    """
    structure, rules = settings.structure, settings.forgetting.agents
    forget = {name: rule for name, rule in rules.items() if name in task.tables}
    if len(rules) == len(like.tables) and len(set(rules.values())) == 1:  # one rule for all agents
        forget = dict.fromkeys(task.tables, next(iter(rules.values())))
    if structure is not None:
        own = {name for table, name in enumerate(task.tables) if table not in known_agents}
        structure = replace(structure, agents={name: cases for name, cases in structure.agents.items() if name in own})
    return with_options(
        settings,
        knowledge=Knowledge(known_agents, settings.knowledge.environment, structure),
        forgetting=ForgetRules(forget, settings.forgetting.environment),
        limits=None,
        baseline=None,
        trials=None if settings.trials is None else replace(settings.trials, members=(), since=()),
    )
