"""Files that are damaged, and files that are forged: wrong inside, with a right checksum."""

import copy
import io
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import cede
from cede._base.archive import load_arrays, write_arrays
from cede.learners.files import SCHEMA
from hunt.calls import digest
from hunt.catalogue import L, S, average, endless, ends, mdp, policies
from hunt.guard import NO_MEMORY, REFUSED, SAME, SURVIVED, Trial

HEAD = ("kind", "schema", "checksum")


def ways():
    """Learners of every kind, by name; each with some episodes behind it."""
    slow = mdp(delay=1)
    problems, known = {"slow": slow, "endless": endless(), "average": average(), "ends": ends()}, {"machine": policies()["machine"]}
    told = {
        "printed": lambda task: cede.ucrl2_mc(task, seed=4),
        "slow": cede.ucrl2_mc,
        "structured": lambda task: cede.ucrl2_mc(task, structure=mdp().structure),
        "bernstein": lambda task: cede.ucrl2_mc(task, belief="bernstein", scale=0.5),
        "kl": lambda task: cede.ucrl2_mc(task, belief="kl", structure=mdp().structure),
        "recommended": lambda task: cede.recommended(task, forget=cede.HalfLife(9.0)),
        "greedy planning": lambda task: cede.ucrl2_mc(task, planning="greedy"),
        "doubling": lambda task: cede.ucrl2_mc(task, replan="doubling"),
        "schedule": lambda task: cede.ucrl2_mc(task, scale=cede.Scale.authors(40), replan=3),
        "forgetting": lambda task: cede.ucrl2_mc(task, forget=cede.Window(3), forget_environment=cede.HalfLife(3.5)),
        "limits": lambda task: cede.posterior_sampling(task, at_most={"human": 0.5}),
        "baseline": lambda task: cede.ucrl2_mc(task, baseline=0, start=mdp().environment.start),
        "known": lambda task: cede.greedy(task, known_agents=known, known_environment=mdp().environment),
        "ucrl2": cede.ucrl2,
        "fixed": lambda task: cede.fixed(task, 1),
        "unknown costs": lambda task: cede.ucrl2_mc(task.with_unknown_costs((0.0, 2.0)), forget_environment=cede.Window(3)),
        "endless": lambda task: cede.ucrl2_mc(task.with_unknown_costs((0.0, 2.0)), scale=0.1, replan=9),
        "average": lambda task: cede.posterior_sampling(task, at_most={"human": 0.5}),
        "ends": lambda task: cede.ucrl2_mc(task, scale=0.5),
    }
    return {name: (problems.get(name, mdp()), make) for name, make in told.items()}


def bytes_of(thing):
    where = Path(tempfile.mkdtemp(prefix="cede-hunt-")) / "file"
    thing.save(where)
    return where.read_bytes()


@cache
def originals():
    """Bytes of valid files by name, and of each the digest of what it holds."""
    found = {}
    for name, (problem, make) in ways().items():
        for episodes in (0, 6):
            one = make(problem.task)
            if episodes and problem.horizon is None:
                cede.simulate(problem, one, steps=10 * episodes, progress=False)
            elif episodes:
                cede.simulate(problem, one, episodes, progress=False)
            if episodes and name == "printed":
                one.observe(0, 0, 0, 1, 1, 2)
            found[f"{name} {episodes}"] = bytes_of(one)
    teams = cede.Fleet([cede.ucrl2_mc(mdp().task, seed=1), cede.ucrl2_mc(mdp().task, seed=2), cede.ucrl2(mdp().task)])
    cede.simulate_fleet([mdp()] * 3, teams, 4, jobs=1, progress=False)
    found["fleet"] = bytes_of(teams)
    shared = cede.Fleet([cede.ucrl2_mc(mdp().task, structure=mdp().structure, replan="doubling", seed=i) for i in range(2)])
    cede.simulate_fleet([mdp()] * 2, shared, 4, jobs=1, progress=False)
    found["fleet with structure"] = bytes_of(shared)
    return {name: (data, digest(cede.load(data))) for name, data in found.items()}


# ------------------------------------------------------------------------------------------------- damaged


def damage(rng, data):
    """Flip, cut, insert, repeat or clear some bytes."""
    data, kind = bytearray(data), rng.integers(7)
    at = int(rng.integers(len(data)))
    if rng.random() < 0.3:  # the directory of the archive is at the end
        at = len(data) - 1 - int(rng.integers(min(400, len(data))))
    n = int(rng.integers(1, 40))
    if kind == 0:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at:at] = rng.bytes(n)
    elif kind == 3:
        del data[at : at + n]
    elif kind == 4:
        data[at : at + n] = bytes(len(data[at : at + n]))
    elif kind == 5:
        data[at : at + n] = b"\xff" * len(data[at : at + n])
    else:
        other = int(rng.integers(len(data)))
        data[at : at + n] = data[other : other + len(data[at : at + n])]
    return bytes(data)


def damaged(rng, note):
    """Load a damaged file: it is refused as unreadable, or nothing that matters was changed."""
    name = list(originals())[rng.integers(len(originals()))]
    data, wanted = originals()[name]
    for _ in range(int(rng.integers(1, 3))):
        data = damage(rng, data) if len(data) > 1 else data
    note(f"damaged {name}")
    source = data
    if rng.random() < 0.5:
        source = Path(tempfile.gettempdir()) / "damaged.cede"
        source.write_bytes(data)
    try:
        found = cede.load(source)
    except cede.UnreadableFile:
        return Trial(REFUSED)
    except MemoryError:
        return Trial(NO_MEMORY)
    except Exception as error:
        return Trial("another error than UnreadableFile", f"{name}: {type(error).__name__}: {error}")
    return Trial(SAME) if digest(found) == wanted else Trial("a damaged file was read", name)


# ------------------------------------------------------------------------------------------------- forged

LEAVES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    7,
    2**31,
    2**62,
    2**63,
    10**40,
    0.5,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "time",
    "prev_agent",
    "greedy",
    "bernstein",
    [],
    [0],
    {},
    {"array": "x"},
    {"class": "Task"},
    {"map": [[1, 2]]},
    {"sparse": "x", "shape": [2, 2]},
]


def places(node, path=()):
    """All places in a header."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inside:
        yield (*path, key)
        yield from places(value, (*path, key))


def forge_header(rng, header):
    """Replace, delete or exchange some part of a header."""
    header = copy.deepcopy(header)
    for _ in range(int(rng.integers(1, 3))):
        found = list(places(header))
        path = found[rng.integers(len(found))]
        node = header
        for key in path[:-1]:
            node = node[key]
        kind, key = rng.integers(8), path[-1]
        if kind == 0:
            del node[key]
        elif kind == 1:
            other = found[rng.integers(len(found))]
            value = header
            for step in other:
                value = value[step]
            node[key] = copy.deepcopy(value)
        elif kind == 2 and isinstance(node[key], list):
            node[key] = node[key] * 2 if rng.integers(2) else node[key][:-1]
        elif kind == 3:
            deep = []
            for _ in range(3000):
                deep = [deep]
            node[key] = deep
        elif kind == 4 and isinstance(node[key], int) and not isinstance(node[key], bool):
            node[key] += int(rng.integers(-2, 3))
        else:
            node[key] = LEAVES[rng.integers(len(LEAVES))]
    return header


def forge_array(rng, array):
    """Make an array wrong: an element, its type, its shape, its order."""
    kind, array = rng.integers(10), array.copy()
    if array.size and kind <= 4:
        at = tuple(int(rng.integers(n)) for n in array.shape)
        if array.dtype.kind == "f":
            array[at] = [np.nan, np.inf, -np.inf, -1.0, 1e300, 0.0, 0.5, 2.0**62, 5e-324][rng.integers(9)]
        elif array.dtype.kind == "b":
            array[at] = not array[at]
        else:
            ends = np.iinfo(array.dtype)
            array[at] = [ends.max, ends.min, 0, 1, ends.max // 2, max(ends.min, -1)][rng.integers(6)]
        return array
    if kind == 5:
        return array.astype([np.float64, np.int64, np.int16, np.float32, np.bool_, np.int32, np.uint64][rng.integers(7)])
    if kind == 6:
        return array[:-1] if array.ndim and len(array) else np.zeros(3)
    if kind == 7:
        return np.concatenate([array, array]) if array.ndim else array
    if kind == 8:
        return array.reshape(-1)[::-1].reshape(array.shape).copy()
    return array[:0] if array.ndim else array[None]


def forge(rng, data, kinds, schema):
    """Return forged bytes of a file: the header or some arrays are wrong, and the checksum is right."""
    header, arrays = load_arrays(data, kinds, schema)
    kind = header["kind"]
    with np.errstate(all="ignore"):
        if rng.random() < 0.5:
            header = forge_header(rng, {key: value for key, value in header.items() if key not in HEAD})
        for _ in range(int(rng.integers(0, 3))):
            name = list(arrays)[rng.integers(len(arrays))]
            if rng.random() < 0.05:
                arrays = {key: value for key, value in arrays.items() if key != name}
            elif rng.random() < 0.05:
                arrays[name] = arrays[list(arrays)[rng.integers(len(arrays))]]
            elif name in arrays:
                arrays[name] = forge_array(rng, arrays[name])
    buffer = io.BytesIO()
    write_arrays(buffer, kind, schema, {key: value for key, value in header.items() if key not in HEAD}, arrays)
    return buffer.getvalue()


def use(one):
    """Do with a learner whatever can be done with one. What it refuses is fine."""
    task, endless_one = one.task, one.task.horizon is None
    for t in sorted({0, task.plan_steps - 1}):
        for state in sorted(set(np.flatnonzero(~task.is_terminal)[[0, -1]].tolist())):
            for prev in range(min(task.n_agents, 6)):
                one.choose(*(() if endless_one else (t,)), state, prev)
    _ = one.plan, one.own_plan, one.counts, one.beliefs, one.prices, one.about, one.packed()
    tries = [
        lambda: cede.insight.bounds(one),
        lambda: cede.explain(one, None if endless_one else 0, 0, 0),
        lambda: cede.insight.summarise(one),
        lambda: one.costs,
        lambda: one.observe(*(() if endless_one else (one.observed,)), 0, 0, 0, 0, 0, cost=0.5),
        one.end_episode,
        lambda: cede.simulate(mdp(), one, 2, progress=False),
        lambda: cede.simulate(mdp(delay=1), one, 2, progress=False),
        lambda: cede.simulate(ends(), one, 2, progress=False),
        lambda: cede.simulate(endless(), one, steps=20, progress=False),
        lambda: cede.simulate(average(), one, steps=20, progress=False),
        lambda: bytes_of(one),
        one.replan,
        lambda: cede.Fleet([one]).learners[0].plan,
    ]
    for attempt in tries:
        try:
            attempt()
        except ValueError as error:
            if "must be" not in str(error):
                raise


def forged(rng, note):
    """Load a forged file, and use what was loaded."""
    name = list(originals())[rng.integers(len(originals()))]
    try:
        data = forge(rng, originals()[name][0], ("learner", "fleet"), SCHEMA)
    except (ValueError, RecursionError, OverflowError, TypeError):  # not even JSON could hold it
        return Trial(REFUSED)
    note(f"forged {name}")
    try:
        found = cede.load(data)
    except cede.UnreadableFile:
        return Trial(REFUSED)
    except MemoryError:
        return Trial(NO_MEMORY)
    except Exception as error:
        return Trial("another error than UnreadableFile", f"{name}: {type(error).__name__}: {error}")
    try:
        for one in list(found)[:3] if isinstance(found, cede.Fleet) else [found]:
            if one.task.plan_steps * one.task.n_states * one.task.n_agents <= 10**6:
                use(one)
        if isinstance(found, cede.Fleet):
            bytes_of(found)
            if found.shared_environment is not None:
                _ = found.environment
    except MemoryError:
        return Trial(NO_MEMORY)
    except Exception as error:
        return Trial("a forged file broke something", f"{name}: {type(error).__name__}: {error}")
    return Trial(SURVIVED)


# ------------------------------------------------------------------------------------------------- checkpoints


def run_to(path, episodes, resume):
    """Run a small fleet with a checkpoint; a new fleet each time, as after a restart."""
    shared = [cede.ucrl2_mc(mdp().task, seed=i) for i in range(2)]
    others = [
        cede.ucrl2_mc(mdp().task, replan="doubling", at_most=None, seed=5),
        cede.posterior_sampling(mdp().task, forget=cede.Window(2)),
    ]
    teams = cede.Fleet([*shared, *others, cede.ucrl2_mc(mdp().task, planning="greedy"), cede.fixed(mdp().task, 0)])
    point = cede.Checkpoint(path, seconds=1e9, resume=resume)
    return cede.simulate_fleet([mdp()] * len(teams), teams, episodes, jobs=1, checkpoint=point, progress=False), teams


@cache
def checkpointed():
    path = Path(tempfile.mkdtemp(prefix="cede-hunt-")) / "run.npz"
    run_to(path, 4, False)
    return path.read_bytes()


def checkpoint(rng, note):
    """Resume from a checkpoint that is damaged or forged."""
    from cede.fleet.checkpoint import KIND
    from cede.fleet.checkpoint import SCHEMA as CHECKPOINT

    path = Path(tempfile.gettempdir()) / "run.npz"
    try:
        torn = rng.random() < 0.2
        data = damage(rng, checkpointed()) if torn else forge(rng, checkpointed(), KIND, CHECKPOINT)
    except (ValueError, RecursionError, OverflowError, TypeError):
        return Trial(REFUSED)
    path.write_bytes(data)
    note("checkpoint")
    try:
        _, teams = run_to(path, 6, True)
        for one in teams:
            one.choose(L - 1, S - 1, 1)
    except MemoryError:
        return Trial(NO_MEMORY)
    except ValueError as error:  # an UnreadableFile, or one of another run, version or length
        named = str(path) in str(error)
        return Trial(REFUSED) if named else Trial("an error that does not name the file", f"{type(error).__name__}: {error}")
    except Exception as error:
        return Trial("a forged checkpoint broke something", f"{type(error).__name__}: {error}")
    return Trial(SURVIVED)


# ------------------------------------------------------------------------------------------------- tables of figures


@cache
def tables():
    folder = Path(__file__).parents[2] / "studies" / "results"
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.csv")) if path.name != "claims.csv"}


def table(rng, note):
    """Make the report of a directory in which one table is damaged."""
    from studies.report import write_report

    out = Path(tempfile.mkdtemp(prefix="cede-hunt-"))
    names = [str(name) for name in rng.choice(list(tables()), size=2, replace=False)]
    for name in names:
        (out / name).write_bytes(tables()[name])
        (out / name).with_suffix(".png").write_bytes(b"picture")
    data = bytearray(tables()[names[0]])
    if rng.random() < 0.5:
        data = bytearray(damage(rng, bytes(data)))
    else:
        lines = data.decode().split("\n")
        at = int(rng.integers(len(lines) - 1))
        cells = lines[at].split(",")
        texts = ["<script>alert(1)</script>", "nan", "-1", "1e999", "", '"', "\x1b[2J"]
        cells[rng.integers(len(cells))] = texts[rng.integers(len(texts))]
        lines[at] = ",".join(cells)
        data = "\n".join(lines).encode()
    (out / names[0]).write_bytes(bytes(data))
    note(f"table {names[0]}")
    try:
        page = write_report(out).read_text()
    except ValueError as error:
        named = str(out) in str(error)
        return Trial(REFUSED) if named else Trial("an error that does not name the file", f"{names}: {error}")
    except Exception as error:
        return Trial("a damaged table broke something", f"{names}: {type(error).__name__}: {error}")
    return Trial(SURVIVED) if "<script>" not in page else Trial("a tag came through", str(names))
