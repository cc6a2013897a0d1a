"""One call with one wrong argument; calls in any order; the command line."""

import hashlib
import warnings
from dataclasses import is_dataclass

import numpy as np
import scipy.sparse as sp

import cede
from cede._base import archive
from cede.beliefs.belief import Belief
from cede.planning.passes import set_threads
from hunt.catalogue import catalogue, episode, mdp, task, words_of
from hunt.guard import NO_MEMORY, REFUSED, SAME, SURVIVED, Trial
from hunt.values import FilePath, anything

# Too large to try: they are valid, and take the memory or the time that they ask for.
HUGE = {"horizon", "episodes", "draws", "n", "macro", "n_states", "n_actions", "bins", "takeover_delay", "jobs", "sync_every"}
HUGE |= {"repeats"}


def digest(thing):
    """A text that is equal for equal things, as far as calls can tell them apart."""
    if isinstance(thing, cede.Learner):
        header, arrays = thing.packed()
        return archive.checksum({"settings": str(thing.settings), **header}, arrays)
    if isinstance(thing, cede.Fleet):
        shared = "" if thing.shared_environment is None else digest(thing.environment)
        return " ".join([*(digest(one) for one in thing), shared, str(thing.environment_episodes)])
    if isinstance(thing, np.ndarray):
        return hashlib.sha256(f"{thing.dtype} {thing.shape}".encode() + np.ascontiguousarray(thing).tobytes()).hexdigest()
    if sp.issparse(thing):
        return digest(thing.toarray())
    if isinstance(thing, Belief):
        return " ".join(map(digest, (thing.centre.matrix(), thing.width, thing.row, thing.linear, thing.closed)))
    if is_dataclass(thing) and not isinstance(thing, type):
        thing = {name: value for name, value in vars(thing).items() if name in thing.__dataclass_fields__}
    if isinstance(thing, dict):
        thing = [part for pair in thing.items() for part in pair]
    if isinstance(thing, list | tuple):
        return " ".join(map(digest, thing))
    return repr(thing) if isinstance(thing, bool | int | float | str | None) else type(thing).__name__


_valid = {}  # digests of the results of valid calls


def one_call(rng, note):
    """Make one argument of a call wrong, or give it in another form."""
    names = list(catalogue())
    name = names[rng.integers(len(names))]
    return try_call(name, rng, note)


def try_call(name, rng, note, argument=None):
    call = catalogue()[name]()
    argument = argument or list(call.arguments)[rng.integers(len(call.arguments))]
    value, kind = call.arguments[argument]
    other = kind.same(value, rng) if rng.random() < 0.25 else None
    wrong = other is None
    if wrong:
        other = kind.bad(value, rng)
        if argument in HUGE and isinstance(other, int) and other > 10**6:
            other = -other
    what = f"{name}({argument}={shown(other)})"
    note(what)
    before = None if call.subject is None else digest(call.subject)
    try:
        result = call.run(**{argument: other})
    except MemoryError:
        return Trial(NO_MEMORY, what)
    except Exception as error:
        if not wrong:
            return Trial("refused in another form", f"{what}: {type(error).__name__}: {error}")
        if not is_clear(error, words_of(call, argument), kind):
            return Trial("unclear error", f"{what}: {type(error).__name__}: {error}")
        if before is not None and digest(call.subject) != before:
            return Trial("changed by a refused call", what)
        return Trial(REFUSED, what)
    if wrong:
        return Trial("silently accepted", what)
    if name not in _valid:
        _valid[name] = digest(catalogue()[name]().run())
    if digest(result) != _valid[name]:
        return Trial("another result in another form", what)
    return Trial(SAME, what)


def shown(value):
    try:
        return f"{type(value).__name__} {' '.join(repr(value).split())}"[:300]
    except Exception:
        return type(value).__name__


def is_clear(error, words, kind):
    """Whether an error is one of ours that names the argument; of a path, also one of the operating system's that names it."""
    text = str(error)
    if isinstance(error, Warning):
        return False
    if isinstance(kind, FilePath) and isinstance(error, OSError):
        return error.filename is not None or "could not be written" in text
    return type(error) in (ValueError, cede.UnreadableFile) and "must be" in text and any(word in text for word in words)


# ------------------------------------------------------------------------------------------------- in any order


def any_order(rng, note):
    """Call methods of a learner in any order, some with wrong arguments; a twin gets the right ones alone and ends up the same."""
    ways = [
        {},
        {"planning": "greedy"},
        {"replan": "doubling"},
        {"forget": cede.Window(2)},
        {"at_most": {"human": 0.5}},
        {"baseline": 0},
        {"structure": mdp().structure},
    ]
    told = ways[rng.integers(len(ways))]
    one, twin = (cede.ucrl2_mc(task(), **told) for _ in range(2))
    steps, t, state, prev = int(rng.integers(3, 25)), 0, 0, 0
    for _ in range(steps):
        choice = rng.integers(9)
        note(f"{told} {choice}")
        if choice <= 2 and t < task().horizon:
            who, action, to = int(rng.integers(2)), int(rng.integers(2)), int(rng.integers(3))
            for each in (one, twin):
                each.observe(t, state, prev, who, action, to)
            t, state, prev = t + 1, to, who
        elif choice == 3 and t:
            for each in (one, twin):
                each.end_episode()
            t, prev = 0, 0
        elif choice == 4 and not t:
            for each in (one, twin):
                each.observe_episode(episode(5))
                each.end_episode()
        elif choice == 5 and not t:
            seed = int(rng.integers(100))
            for each in (one, twin):
                cede.simulate(mdp(), each, 2, seed=seed, progress=False)
        elif choice == 6:
            if one.choose(min(t, 3), state, prev) != twin.choose(min(t, 3), state, prev):
                return Trial("another choice", f"{told}")
        else:
            refused = refused_calls(one, rng, t)
            if refused is not None:
                return refused
    if digest(one) != digest(twin):
        return Trial("changed by a refused call", f"{told}")
    return Trial(SURVIVED, "")


def refused_calls(one, rng, t):
    """Try something that must be refused; return a Trial if it was not."""
    wrong = [
        lambda: one.observe(t + 1, 0, 0, 0, 0, 0),
        lambda: one.observe(t, 0, 0, 0, 99, 0),
        lambda: one.observe(t, anything(rng), 0, 0, 0, 0),
        lambda: one.end_episode(replan=np.array([True, False])),
        lambda: one.end_episode(replan=99),
        lambda: one.observe_episode(None),
        lambda: one.learn_from({"state": [99], "agent": [0], "action": [0], "next_state": [0], "t": [0]}),
        lambda: one.choose(99, 0, 0),
        lambda: cede.simulate(mdp(), one, 0),
        lambda: cede.simulate(cede.worlds.riverswim(), one, 2),
        lambda: cede.Fleet([one, one]),
        lambda: one.save("/nowhere/at/all"),
        lambda: cede.explain(one, 0, 0, "nobody"),
        lambda: one.choose(0, "nowhere", "machine"),
        lambda: one.observe(t, 0, "machine", "nobody", 0, 0),
        lambda: one.end_episode() if not t else one.observe(t, 0, 0, 0, 0, 0, moved="yes"),
    ]
    i = rng.integers(len(wrong))
    try:
        wrong[i]()
    except (ValueError, OSError):
        return None
    except Exception as error:
        return Trial("unclear error", f"refused call {i}: {type(error).__name__}: {error}")
    return Trial("silently accepted", f"refused call {i}")


# ------------------------------------------------------------------------------------------------- command line


OPTIONS = {
    "learn": {
        "--method": ["ucrl2-mc", "posterior-sampling", "ucrl2", "greedy", "best"],
        "--radii": ["printed", "weissman", "bernstein", "kl-value", "calibrated", "authors", "small", "wide"],
        "--episodes": ["3", "0", "-1", "x", "1.5"],
        "--agents": ["0.1,0.9", "", "a,b", "2", "0.1,,", "nan,0.5"],
        "--control-cost": ["0.1", "nan", "inf", "x", "-1"],
        "--switch-cost": ["0.1", "nan", "1e400", "x"],
        "--at-most": ["human=0.5", "human", "=", "nobody=1", "human=nan", "human=2", "p=0.3=0.5"],
        "--at-least": ["human=0.1", "human=", "[/b]=1"],
        "--baseline": ["human", "[/b]", "", "\x1b[2J", "p=0.3"],
        "--alpha": ["0.1", "nan", "-1"],
        "--takeover-delay": ["human=1", "human=x", "human=-1", "human=1.5", "human=1e9"],
        "--delta": ["0.1", "0", "2", "nan"],
        "--planning": ["full", "greedy", "both"],
        "--replan": ["every", "doubling", "2", "0", "-3", "x", "1.5"],
        "--evaluate-every": ["1", "2", "0"],
        "--threads": ["1", "0", "5000"],
        "--save": ["", "/nowhere/at/all", "/", "a\0b"],
        "--seed": ["1", "-1", "99999999999999999999", "x"],
        "--structured": [],
        "--learn-machine": [],
    },
    "fleet": {
        "--teams": ["2", "0", "x"],
        "--episodes": ["2", "0"],
        "--method": ["ucrl2-mc", "greedy", "x"],
        "--engine": ["threads", "x"],
        "--address": ["x"],
        "--jobs": ["1", "0"],
        "--sync-every": ["1", "2", "0"],
        "--delta": ["0.1", "nan"],
        "--resume": [],
        "--seed": ["1", "-1", "99999999999999999999"],
        "--replan": ["every", "x"],
        "--control-cost": ["0.5"],
    },
    "show": {"--team": ["0", "5", "-1"], "--by": ["a", "(", "[/b]"], "--picture": ["/nowhere/x.png", "x\0.png"]},
    "claims": {"--out": ["/nowhere", "/"], "--readme": ["/nowhere"]},
    "paper": {"--against": ["/nowhere", "x\0"], "--errata": ["/nowhere", "/", "x\0"], "--jobs": ["0"]},
    "figure": {"--repeats": ["0", "-1"], "--episodes": ["0", "-5"], "--radii": ["x", "printed"]},
}
ARGUMENTS = {
    "learn": ["riverswim", "lane-driving", "sea", ""],
    "fleet": ["riverswim", "sea"],
    "show": ["/nowhere", "/", "", "SAVED", "a\0b"],
    "claims": [],
    "paper": ["x"],
    "figure": ["nothing", "[/b]", "overview,", ""],
}


def command(rng, note):
    """Run a command with wrong options: it ends with 0, or with 2 and one line that says why."""
    from typer.testing import CliRunner

    from cede.cli import app
    from hunt.catalogue import saved, somewhere

    name = list(OPTIONS)[rng.integers(len(OPTIONS))]
    words = [name]
    if ARGUMENTS[name]:
        word = ARGUMENTS[name][rng.integers(len(ARGUMENTS[name]))]
        words.append(str(saved()) if word == "SAVED" else word)
    for option in rng.choice(list(OPTIONS[name]), size=rng.integers(0, min(4, len(OPTIONS[name]))), replace=False):
        values = OPTIONS[name][option]
        words += [str(option)] if not values else [str(option), values[rng.integers(len(values))]]
    if name == "learn" and "--episodes" not in words:
        words += ["--episodes", "3"]
    if name == "fleet":
        words += ["--out", str(somewhere("")), *([] if "--episodes" in words else ["--episodes", "2"])]
        words += [] if "--teams" in words else ["--teams", "2"]
    what = f"cede {words}"
    note(what)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        result = CliRunner().invoke(app, words)
    set_threads(1)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return Trial("traceback", f"{what}: {type(result.exception).__name__}: {result.exception}")
    if result.exit_code not in (0, 2):
        return Trial("another exit code", f"{what}: {result.exit_code} {result.output[-500:]}")
    if "\x1b[2J" in result.output:
        return Trial("an escape code was shown", what)
    return Trial(REFUSED if result.exit_code else SURVIVED, what)


# ------------------------------------------------------------------------------------------------- soak


def soak(rng, note):
    """Let random learners run for long in random problems: counts add up, nothing is cheaper than the best, memory stays."""
    import resource
    import sys

    sys.path.insert(0, "..")
    from problems import random_mdp

    seed = int(rng.integers(10**6))
    if rng.random() < 0.5:
        return soak_without_horizon(seed, rng, note)
    problem = random_mdp(seed)
    kinds = [cede.recommended, cede.ucrl2_mc, cede.posterior_sampling, cede.greedy, cede.ucrl2]
    kind = kinds[rng.integers(len(kinds))]
    told = {} if kind is cede.ucrl2 or rng.random() < 0.6 else {"forget": cede.HalfLife(30.0)}
    one = kind(problem.task, **told)
    episodes = int(rng.integers(200, 2000))
    note(f"{kind.__name__} {told} {episodes} of random_mdp({seed})")
    history = cede.simulate(problem, one, episodes, seed=seed, progress=False)
    steps = episodes * problem.horizon
    counts = one.counts
    ok = np.isfinite(history.regret).all() and (np.diff(history.regret) >= -1e-7 * (1 + np.abs(history.optimum))).all()
    if not told and kind is not cede.ucrl2:
        ok = ok and counts.agents.sum() == steps
    if not ok or (not told and counts.environment.sum() != steps) or history.control.sum() != steps:
        return Trial("sums that do not add up", f"{kind.__name__} {told} {episodes} of random_mdp({seed})")
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 2 * 2**20:  # kilobytes
        return Trial("memory grows", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss} kB")
    return Trial(SURVIVED, str(episodes))


def soak_without_horizon(seed, rng, note):
    """The same in random problems with ends, costs of arriving and no horizon, some of whose costs are learned."""
    from dataclasses import replace

    from planning.test_costs_ends_time import rich_mdp

    endless_one = rng.random() < 0.5
    problem = rich_mdp(seed, horizon=None if endless_one else 0)
    task = problem.task
    if rng.random() < 0.5:
        cost = np.where(task.is_terminal[:, None] | (rng.random(task.env_cost.shape) < 0.3), task.env_cost, np.nan)
        task = replace(task, env_cost=cost, cost_range=(float(task.env_cost.min()) - 1.0, float(task.env_cost.max()) + 1.0))
    kinds = [cede.recommended, cede.ucrl2_mc, cede.posterior_sampling, lambda task: cede.greedy(task, replan=20), cede.ucrl2]
    one = kinds[rng.integers(len(kinds))](task)
    length = int(rng.integers(100, 1000))
    note(f"{one.settings.name} {length} of rich_mdp({seed}), no horizon: {endless_one}")
    history = cede.simulate(problem, one, **({"steps": length} if endless_one else {"episodes": length}), seed=seed, progress=False)
    steps = int(history.control.sum())
    ok = np.isfinite(history.regret).all() and (np.diff(history.regret) >= -1e-6 * (1 + np.abs(history.expected_cost[1:]))).all()
    if not ok or one.counts.environment.sum() != steps or (endless_one and steps != length):
        return Trial("sums that do not add up", f"{one.settings.name} {length} of rich_mdp({seed}), no horizon: {endless_one}")
    return Trial(SURVIVED, str(length))
