"""Learners from files: the inverse of files.py, and the conversion of what older versions wrote.

What is read goes through the same checks as any other input, so a file cannot make a learner that no call
could make.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from cede._base import archive, check
from cede._base.archive import Arrays
from cede.beliefs.scale import Scale, StepDown
from cede.learners.awaited import check_fits, told
from cede.learners.awaited import unpacked as awaited_in
from cede.learners.files import below
from cede.learners.fixed import Fixed
from cede.learners.greedy import Greedy
from cede.learners.learner import MOST_SEED, Learner
from cede.learners.options import BeliefNames, ForgetRules, FullPlans, GreedyBackups, Knowledge
from cede.learners.posterior_sampling import PosteriorSampling
from cede.learners.promises import Baseline, ShareLimits, TrialEpisodes
from cede.learners.recommended import CALIBRATED, Recommended
from cede.learners.session import Choice, Content, OpenSessions, Session
from cede.learners.settings import Settings
from cede.learners.state import Sizes, unpack_state
from cede.learners.team_changes import TeamChange
from cede.learners.ucrl2 import FORMS, UCRL2
from cede.learners.ucrl2_mc import UCRL2MC
from cede.learners.working import no_value
from cede.planning.passes import Plan
from cede.problem.features import Features
from cede.problem.model import Environment
from cede.problem.policies import checked_switching_policy
from cede.problem.structure import Outcomes, Structure
from cede.problem.takeover import Modes
from cede.problem.task import CHARGES, Task
from cede.rows.fading import HalfLife, Window
from cede.steps.check import checked_episode
from cede.steps.recorded import Recorded, unpacked
from cede.steps.step import Episode

ALGORITHMS = (UCRL2MC, Recommended, UCRL2, PosteriorSampling, Greedy, Fixed)
OPTIONS = (BeliefNames, Knowledge, ForgetRules, ShareLimits, Baseline, TrialEpisodes, FullPlans, GreedyBackups)
REASONS = ("", "plan", "audition", "baseline", "greedy", "fixed")  # of a session's choices
PARTS = (Task, Modes, Scale, StepDown, HalfLife, Window, Structure, Outcomes, Environment, Features)


def before_8(algorithm: type[Settings]) -> Callable[..., Settings]:
    """Return the constructor of settings for files, which up to schema 7 held limits, baseline and trial episodes as one field."""
    names = {ShareLimits: "limits", Baseline: "baseline", TrialEpisodes: "trials"}
    own = {one.name for one in fields(algorithm)} & {*names.values()}

    def make(*, promise: Any = ..., **given: Any) -> Settings:
        if promise is not ...:
            given |= {**dict.fromkeys(own), **({} if promise is None else {names[type(promise)]: promise})}
        return algorithm(**given)

    return make


CLASSES: dict[str, Callable[..., Any]] = {cls.__name__: cls for cls in (*OPTIONS, *PARTS)}
CLASSES |= {cls.__name__: before_8(cls) for cls in ALGORITHMS}


def unpack_learner(header: Mapping[str, Any], arrays: Arrays) -> Learner:
    """Make a learner from what `Learner.packed` returned, after all checks."""
    return unpack_own(*unpack_settings(header, arrays), header, arrays)


def unpack_own(task: Task, settings: Settings, header: Mapping[str, Any], arrays: Arrays) -> Learner:
    """Make a learner from its task and settings and from what `pack_own` returned, and check that all fits together."""
    learner = Learner(task, settings, seed=check.integer("file", "seed", header["seed"], 0, MOST_SEED))
    own = below(arrays, "state")
    own |= {f"extras/{name}": array for name, array in extras_before_7(own).items()}
    state = unpack_state(Sizes(task, settings), header["state"], own)
    # before schema 6 learners knew the numbers of episodes only
    recorded = unpacked(header["recorded"]) if "recorded" in header else Recorded(before=state.episodes + 1)
    changes = tuple(TeamChange(*one) for one in header.get("changes", ()))  # since schema 8
    sessions = unpack_sessions(learner, header.get("sessions"), below(arrays, "running"))
    learner.resume(state, *sessions, recorded, changes)
    return learner


def unpack_sessions(learner: Learner, header: Any, arrays: Arrays) -> tuple[OpenSessions, Session]:
    """Return the open sessions of a learner and its session None from what `pack_sessions` returned, after checks.

    header: None before schema 8: there is the session None alone, with its steps, or with the columns of an Episode.
    """
    owner, task = "file", learner.task
    if header is None:
        running, more = Session(learner, None), dict(arrays)
        put_steps(running, more.pop("steps"), more.pop("charged"))
        if more:
            if running.t or task.horizon is None:
                check.fail(owner, "the running episode", "observed step by step, too", "observed once")
            running.take_all(checked_episode(owner, task, Episode(**more), learner.settings.structure))
        return OpenSessions(), running
    steps, charged, begin = arrays["steps"], arrays["charged"], 0
    most = task.plan_steps
    sessions: dict[str | None, Content] = {}
    plans = {-1: None} | {i: unpack_plan(task, arrays, i) for i in range(sum(name.startswith("policy/") for name in arrays))}
    for row in header["open"]:
        session, end = (
            Session(learner, key := row["key"]),
            begin + check.integer(owner, "steps of a session", row["steps"], 0, most),
        )
        put_steps(session, steps[begin:end], charged[begin:end])
        values: dict[str, Any] = {name: check.integer(owner, name, row[name], 0) for name in ("number", "clock", "planned")}
        values |= {name: check.truth(owner, name, row[name]) for name in ("named", "whole")}
        reason, used = check.choice(owner, "reason", row["reason"], REASONS), check.number(owner, "used", row["used"])
        plan = plans[check.integer(owner, "plan of a session", row["plan"], -1, len(plans) - 2)]
        choice = None if row["choice"] is None else checked_place(task, row["choice"])
        content = session.content._replace(**values, reason=reason, used=used, plan=plan, choice=choice)
        if key in sessions or (key is not None and not check.name(owner, "key of a session", key)):
            check.fail(owner, "key of a session", check.show(key), "another one: it is there already")
        sessions[key], begin = content, end
    if None not in sessions or begin != len(steps):
        check.fail(owner, "the open sessions", "others", "the session None and those of all steps")
    limits = {"most": check.integer(owner, "most", header["most"], 1), "begun": check.integer(owner, "begun", header["begun"], 0)}
    seconds = float("inf") if header["seconds"] is None else check.number(owner, "seconds", header["seconds"], least=0.0)
    approved = None if header["approved"] is None else check.index(owner, "approved", header["approved"], len(task.members))
    awaited = awaited_in(learner, header["awaited"], arrays["awaited/steps"], arrays["awaited/charged"])
    check_fits(task, awaited, sessions)
    kept = {"sessions": sessions, "awaited": awaited.content, "seconds": seconds, "approved": approved}
    return OpenSessions.of(learner, {**kept, **limits})


def put_steps(session: Session, steps: Any, charged: Any) -> None:
    """Add the steps of a file to a new session, after checks: (n, 6) places and (n, 2) costs, or (n, 4) with those of the team."""
    if steps.dtype != np.int64 or steps.ndim != 2 or steps.shape[1] != 6:
        check.fail("file", "the steps of the running episode", f"{steps.shape} of {steps.dtype}", "(n, 6) of int64")
    if charged.dtype != np.float64 or charged.shape not in ((len(steps), 2), (len(steps), len(CHARGES))):
        check.fail("file", "the costs of the running episode", f"{charged.shape} of {charged.dtype}", "(n, 2) or (n, 4) of float64")
    for step, costs in zip(steps.tolist(), told(charged), strict=True):
        session.add(session.checked("file", step[0], step[1:], costs, True))  # checked when it was new


def unpack_plan(task: Task, arrays: Arrays, i: int) -> Plan:
    """Return a plan of open sessions, after checks."""
    policy = checked_switching_policy("file", task, arrays[f"policy/{i}"]).reshape(task.policy_shape)
    value = arrays.get(f"value/{i}", no_value(task))
    return Plan(policy, value)


def checked_place(task: Task, choice: Any) -> Choice:
    """Check the last choice of a session in a file, and return it."""
    t, *place = choice
    sizes = (task.n_states, task.n_agents, task.n_agents)
    checked = (check.index("file", "a choice", value, size) for value, size in zip(place, sizes, strict=True))
    return Choice(check.integer("file", "t of a choice", t, 0), *checked)


def extras_before_7(arrays: Arrays) -> Arrays:
    """Return the extras that files of schemas 5 and 6 hold under other names; none if there are none."""
    result: Arrays = {}
    for i, layer in enumerate(("agents", "environment")):
        if arrays.get("fitted_at", np.empty(0)).size and arrays["fitted_at"][i] > 0:
            result |= {f"{layer}/episodes": arrays["fitted_at"][[i]], f"{layer}/scores": arrays[f"{layer}_scores"].ravel()}
            for old, new in (("fitted", "counts"), ("bases", "models")):
                result |= {f"{layer}/{new}_{part}": arrays[f"{layer}_{old}_{part}"] for part in ("key", "number")}
    return result


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
    options: dict[str, Any] = {
        "belief": None if radius is None else BeliefNames(radius, agents_radius),
        "delta": delta,
        "scale": scale,
        "prior": prior,
        "features": features,
        "knowledge": Knowledge(known_agents, known_environment, structure),
        "forgetting": ForgetRules(forget, forget_environment),
        "limits": limited,
        "baseline": baseline,
        "trials": trials,
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
    if [limited, baseline, trials].count(None) < 2 or (radius is None and agents_radius is not None):
        check.fail("file", f"the settings of {check.printable(name)[:60]}", "contradictory", "one promise, sets of both layers")
    for option, value in options.items():
        given = value is not None if option in ("limits", "baseline", "trials") else getattr(value, "arguments", value)
        if option not in own | in_every_file and given:
            check.fail("file", f"{option} of {check.printable(name)[:60]}", "given", "left out")
    return algorithm(**{option: value for option, value in options.items() if option in own})
