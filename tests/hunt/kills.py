"""Processes that are killed while they save, work or wait; full and read-only disks; interrupts; threads."""

import copy
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path

import numpy as np

import cede
from hunt.calls import digest
from hunt.catalogue import mdp
from hunt.guard import SURVIVED, TESTS, Trial, patience

ENGINES = ("processes", "ray")


def folder():
    return Path(tempfile.mkdtemp(prefix="cede-hunt-"))


@cache
def two_learners():
    """A small and a large one, so that saving takes a while."""
    road = cede.worlds.lane_driving()
    found = [cede.ucrl2_mc(road.task, seed=seed) for seed in (1, 2)]
    for one, episodes in zip(found, (3, 40), strict=True):
        cede.simulate(road, one, episodes, evaluate_every=100, progress=False)
    return found


# ------------------------------------------------------------------------------------------------- saves


def killed_save(rng, note):
    """Kill a process that saves again and again: the file is whole, one of those saved, and nothing else is left."""
    path, both = folder() / "one.cede", two_learners()
    wanted = {digest(one) for one in both}
    both[0].save(path)
    note("kill in a save")
    for _ in range(5):
        child = os.fork()
        if child == 0:
            try:
                while True:
                    for one in both:
                        one.save(path)
            finally:
                os._exit(0)
        time.sleep(float(rng.random()) * 0.06)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if digest(cede.load(path)) not in wanted:
            return Trial("another file than was saved")
    both[0].save(path)
    left = [found.name for found in path.parent.iterdir() if found != path]
    shutil.rmtree(path.parent)
    return Trial("leftovers", str(left)) if left else Trial(SURVIVED)


def threads_that_save(rng, note):
    """Several threads and processes save to one path while others load it: what is loaded is always whole."""
    path, both = folder() / "one.cede", two_learners()
    wanted, wrong = {digest(one) for one in both}, []
    both[0].save(path)
    note("threads that save")
    until = time.monotonic() + 0.4

    def save(one):
        try:
            while time.monotonic() < until:
                one.save(path)
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")

    def load():
        try:
            while time.monotonic() < until:
                if digest(cede.load(path)) not in wanted:
                    wrong.append("another file than was saved")
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")

    child = os.fork()
    if child == 0:
        save(both[1])
        os._exit(len(wrong) > 0)
    working = [threading.Thread(target=save, args=(both[i % 2],)) for i in range(3)] + [threading.Thread(target=load)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()
    if os.waitpid(child, 0)[1]:
        wrong.append("another process could not save")
    both[0].save(path)
    left = [found.name for found in path.parent.iterdir() if found != path]
    shutil.rmtree(path.parent)
    return Trial("a race", str([*wrong[:3], *left])) if wrong or left else Trial(SURVIVED)


# ------------------------------------------------------------------------------------------------- threads


REFUSALS = ("used during a run", "in another fleet", "not in the fleet", "the number of mdps")  # which others may cause


def torn(one):
    """What does not add up in the counts of a learner, in words."""
    counts, steps = one.counts, mdp().horizon * (one.episode - 1)
    seen = counts.agents.sum(), counts.environment.sum()
    expected = steps, mdp().horizon * one.environment_episodes
    return [] if seen == expected else [f"{seen} steps of agents and environment counted instead of {expected}"]


def threads(rng, note):
    """Several threads use one learner, or the learners of one fleet: no episode is lost, none is counted twice."""
    note("threads")
    teams = cede.Fleet([cede.ucrl2_mc(mdp().task, seed=i, planning=["full", "greedy"][rng.integers(2)]) for i in range(2)])
    alone = cede.ucrl2_mc(mdp().task)
    everybody, done, wrong, lock = [*teams, alone], [0, 0, 0], [], threading.Lock()
    guest, guests = cede.ucrl2(mdp().task), cede.Fleet([cede.ucrl2(mdp().task)])  # they share nothing: counts add up all the same
    steps = cede.rollout(mdp(), cede.solve(mdp()), 1)

    def play(seed):
        own = np.random.default_rng(seed)
        try:
            for _ in range(8):
                i = int(own.integers(3))
                one, kind, counted = everybody[i], own.integers(9), 0
                try:
                    if kind == 0:
                        one.learn_from([steps], progress=False)
                        counted = 1
                    elif kind == 1 and i == 2:
                        cede.simulate(mdp(), one, 2, progress=False)
                        counted = 2
                    elif kind == 2:
                        one.choose(0, 0, 0)
                    elif kind == 3:
                        _ = one.plan, one.counts, one.beliefs
                    elif kind == 4 and i < 2:
                        cede.simulate_fleet([mdp()] * 2, teams, 1, jobs=1, progress=False)
                        with lock:
                            done[0], done[1] = done[0] + 1, done[1] + 1
                    elif kind == 5:
                        one.replan()
                    elif kind == 6:
                        wrong.extend(torn(copy.deepcopy(one)))
                    elif kind == 7:
                        [teams, guests][own.integers(2)].add(guest)
                    elif kind == 8:
                        [lambda: teams.remove(guest), lambda: guests.merge(cede.Fleet([guests.remove(guest)]))][own.integers(2)]()
                except ValueError as error:
                    if not any(text in str(error) for text in REFUSALS):
                        raise
                    counted = 0
                with lock:
                    done[i] += counted
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")

    working = [threading.Thread(target=play, args=(int(rng.integers(2**31)),)) for _ in range(4)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()
    counted = [one.episode - 1 for one in everybody]
    if wrong or counted != done or teams.environment_episodes != done[0] + done[1]:
        return Trial("a race", f"{wrong[:2]} counted {counted}, {teams.environment_episodes} of {done}")
    return Trial(SURVIVED)


# ------------------------------------------------------------------------------------------------- interrupts


@cache
def uninterrupted():
    one = cede.ucrl2_mc(mdp().task)
    history = cede.simulate(mdp(), one, 400, seed=np.random.default_rng(3), progress=False)
    return history.cost, digest(one)


def interrupts(rng, note):
    """Interrupt a run at any moment, and go on: the end is the same as without."""
    note("interrupts")
    one, stream, costs, longest = cede.ucrl2_mc(mdp().task), np.random.default_rng(3), [], 0.03

    armed = []

    def stop(*_):
        if armed:  # while a unit was compiled a signal may have been put off; it must not come between two runs
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        while one.episode <= 400:
            begun = one.episode
            try:
                armed.append(True)
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + float(rng.random()) * longest)
                cede.simulate(mdp(), one, 401 - begun, seed=stream, progress=False)
                armed.clear()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                armed.clear()
                signal.setitimer(signal.ITIMER_REAL, 0)
                costs.append(one.episode - begun)
                longest *= 1.0 if costs[-1] else 1.3  # a busy machine takes longer for a round
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if digest(one) != uninterrupted()[1]:
        return Trial("another end after interrupts", str(costs))
    return Trial(SURVIVED)


def in_another_thread(function, *arguments):
    """Call something in another thread, which waits for ever if a lock was lost: then the guard finds that this trial hangs."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function(*arguments)))
    thread.start()
    thread.join()
    return found


def interrupted_calls(rng, note):
    """Interrupt a learner that is used by hand, a fleet that is made, or a log that is counted."""
    kind = [by_hand, by_hand, interrupted_fleet, interrupted_log][rng.integers(4)]
    return kind(rng, note)


def interrupt(seconds, function, *arguments, **named):
    """Call a function and interrupt it after some seconds; return what it returned, None if it was interrupted."""
    armed = [True]

    def stop(*_):
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        return function(*arguments, **named)
    except KeyboardInterrupt:
        return None
    finally:
        armed.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted_fleet(rng, note):
    """Interrupt the making of a fleet: all learners are in it, or none."""
    note("interrupted fleet")
    learners, fleet, longest = [cede.ucrl2_mc(mdp().task, seed=i) for i in range(4)], None, 0.002
    for one in learners:
        cede.simulate(mdp(), one, 3, progress=False)
    while fleet is None and not learners[0].in_fleet:
        fleet = interrupt(0.00005 + float(rng.random()) * longest, cede.Fleet, learners)
        longest *= 1.1
        joined = {one.shared_environment for one in learners}
        counted = {int(one.environment_episodes) for one in learners}
        if len(joined) > 1 or counted != ({3} if joined == {None} else {12}):
            return Trial("a part of a fleet was made", f"{counted}")
        in_another_thread(learners[rng.integers(4)].choose, 0, 0, 0)
    wrong = [text for one in learners for text in torn(one)]
    return Trial("torn counts", str(wrong)) if wrong else Trial(SURVIVED)


def interrupted_log(rng, note):
    """Interrupt a log that is counted, and try again until it is: the end is the same as without."""
    note("interrupted log")
    told = [{}, {"replan": "doubling"}, {"forget": cede.HalfLife(50.0)}][rng.integers(3)]
    log = [cede.rollout(mdp(), cede.solve(mdp()), int(seed)) for seed in rng.integers(1000, size=20)]
    one, quiet, longest = cede.ucrl2_mc(mdp().task, **told), cede.ucrl2_mc(mdp().task, **told), 0.002
    quiet.learn_from(log, progress=False)
    while one.episode == 1:
        interrupt(0.00005 + float(rng.random()) * longest, one.learn_from, log, progress=False)
        longest *= 1.2
        if one.episode not in (1, 21):
            return Trial("a part of a log was counted", f"{told}: {one.episode - 1} episodes of 20")
        in_another_thread(one.choose, 0, 0, 0)
    quiet.choose(0, 0, 0)  # as the other learner did: its episode has begun
    _ = one.plan, quiet.plan
    return Trial(SURVIVED) if digest(one) == digest(quiet) else Trial("another end after interrupts", str(told))


def by_hand(rng, note):
    """Interrupt a learner that is used by hand, at any moment: an episode is counted as a whole or not at all."""
    note("interrupted calls")
    told = [{}, {"planning": "greedy"}, {"replan": "doubling"}, {"forget": cede.HalfLife(50.0)}][rng.integers(4)]
    one, interrupted = cede.ucrl2_mc(mdp().task, **told), 0
    horizon = mdp().horizon

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(30):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + float(rng.random()) * 0.004)
                while True:
                    state, prev = 0, 0
                    for t in range(horizon):
                        agent = one.choose(t, state, prev)
                        to = (state + 1) % 3
                        one.observe(t, state, prev, agent, 1, to)
                        state, prev = to, agent
                    one.end_episode()
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
                in_another_thread(one.choose, 0, 0, 0)
                one.drop_episode()
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    steps = horizon * (one.episode - 1)
    fades = "forget" in told
    if one.counts.environment.sum() != steps or (not fades and one.counts.agents.sum() != steps):
        return Trial("a part of an episode was counted", f"{told} {one.counts.environment.sum()} of {steps}")
    _ = one.plan, one.beliefs
    return Trial(SURVIVED, f"{interrupted} interrupts")


# ------------------------------------------------------------------------------------------------- disks

SAVE = """
import sys, cede
sys.path.insert(0, {tests!r})
from pathlib import Path
from hunt.catalogue import learner
where = Path({where!r})
one = learner()
one.save(where / "one.cede")
before = (where / "one.cede").read_bytes()
{spoil}
try:
    one.save(where / "one.cede")
    print("saved")
except OSError as error:
    assert "one.cede" in str(error), error
    print("refused")
try:
    (where / "room").unlink()
except OSError:
    pass
assert (where / "one.cede").read_bytes() == before
assert [p.name for p in where.iterdir()] == ["one.cede"] or {kind!r} == "readonly", list(where.iterdir())
cede.load(where / "one.cede")
print("whole")
"""
FULL = """
free = {free}
import os
file = os.open(where / "room", os.O_CREAT | os.O_WRONLY)
try:
    while os.write(file, b"0" * 512):
        pass
except OSError:
    os.close(file)
os.truncate(where / "room", max(0, (where / "room").stat().st_size - free))
"""
READONLY = """
(where / "room").touch()
import subprocess
subprocess.run(["mount", "-o", "remount,ro", str(where)], check=True)
"""


@cache
def can_mount():
    """Whether this machine lets us have a file system of our own."""
    try:
        mount = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def disks(rng, note):
    """Save on a disk that is full, or has room for a part, or may not be written: the file there before is as it was."""
    if not can_mount():
        return Trial(SURVIVED, "no file system of our own can be mounted here")
    where, kind = folder(), ["full", "readonly"][int(rng.random() < 0.3)]
    note(kind)
    spoil = READONLY if kind == "readonly" else FULL.format(free=int(rng.integers(0, 8)) * 1024)
    code = SAVE.format(tests=str(TESTS), where=str(where), spoil=spoil, kind=kind)
    (where.parent / "save.py").write_text(code)
    mount = f"mount -t tmpfs -o size=400k tmpfs {where} && exec {sys.executable} {where.parent / 'save.py'}"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, text=True, timeout=patience(100), check=False)
    if done.returncode or "whole" not in done.stdout:
        return Trial("a full disk broke something", f"{kind} {done.stdout} {done.stderr[-800:]}")
    return Trial(SURVIVED, done.stdout)


# ------------------------------------------------------------------------------------------------- workers and parents

RUN = """
import sys, cede
from pathlib import Path
if __name__ == "__main__":
    mdps = cede.worlds.riverswim_teams(6, seed=1)
    fleet = cede.Fleet([cede.ucrl2_mc(mdp.task, seed=i) for i, mdp in enumerate(mdps)])
    path, engine, episodes = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    point = cede.Checkpoint(path, seconds=0.05, resume=True)
    history = cede.simulate_fleet(mdps, fleet, episodes, engine=engine, jobs=2, checkpoint=point, progress=False)
    print(float(history.regret[-1]).hex(), int(fleet.environment.sum()))
"""
EPISODES = 400


@cache
def undisturbed():
    return run(folder() / "run.npz", "threads")


def run(path, engine):
    """Run a fleet to its end in another process; return what it prints."""
    script = path.parent / "run.py"
    script.write_text(RUN)
    command = [sys.executable, str(script), str(path), engine, str(EPISODES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(300), check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-1500:])
    return done.stdout.strip()


def descendants(pid):
    """The processes below one, from /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents.setdefault(int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
            except OSError:
                continue
    found, todo = [], [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def is_worker(pid, engine):
    """Whether a process is one of the workers that an engine started, not one of Ray's own servers."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"multiprocessing" in text if engine == "processes" else b"ray::ShardServer" in text


def workers(rng, note, engine="processes"):
    """Kill workers of a running fleet: the run ends with the same numbers."""
    note(f"kill a worker ({engine})")
    wanted, path = undisturbed(), folder() / "run.npz"
    script = path.parent / "run.py"
    script.write_text(RUN)
    child = subprocess.Popen(
        [sys.executable, str(script), str(path), engine, str(EPISODES)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    killed, begun = 0, time.monotonic()
    while child.poll() is None and killed < 2 and time.monotonic() - begun < patience(100):
        time.sleep(0.05 + float(rng.random()) * 0.6)
        found = [pid for pid in descendants(child.pid) if is_worker(pid, engine)] if path.exists() else []
        if found:
            try:
                os.kill(found[rng.integers(len(found))], signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                continue
    output, errors = child.communicate(timeout=patience(200))
    last = output.strip().split("\n")[-1]  # before it, Ray tells of the workers
    if child.returncode or last != wanted:
        return Trial("a lost worker changed a run", f"{killed} killed: {last} instead of {wanted}; {errors[-1200:]}")
    return Trial(SURVIVED, f"{killed} killed")


def ray_workers(rng, note):
    return workers(rng, note, "ray")


def parents(rng, note):
    """Kill a whole run, and resume it from its checkpoint, some times: it ends with the same numbers, and no worker is left."""
    note("kill a parent")
    wanted, path = undisturbed(), folder() / "run.npz"
    engine = ["threads", "processes"][rng.integers(2)]
    script = path.parent / "run.py"
    script.write_text(RUN)
    for _ in range(int(rng.integers(1, 4))):
        child = subprocess.Popen(
            [sys.executable, str(script), str(path), engine, str(EPISODES)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(1.0 + float(rng.random()) * 2.5)
        below = descendants(child.pid)
        child.kill()
        child.wait()
        until = time.monotonic() + patience(20)
        while any(Path(f"/proc/{pid}").exists() and not is_zombie(pid) for pid in below):
            if time.monotonic() > until:
                return Trial("workers outlived their run", str(below))
            time.sleep(0.1)
    found = run(path, engine)
    left = [one.name for one in path.parent.iterdir() if one.name.endswith("partial")]
    if found != wanted or left:
        return Trial("a killed run changed", f"{found} instead of {wanted}; left {left}")
    return Trial(SURVIVED)


def is_zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
