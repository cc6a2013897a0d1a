"""Run trials in a child process, and notice if it crashes or hangs."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent.parent
PATHS = os.pathsep.join(map(str, [TESTS, TESTS.parent / "src", TESTS.parent]))  # where children find the hunt, cede and studies
PATIENCE = 180.0  # seconds without a new trial after which a child hangs, on a machine that has nothing else to do
MEMORY = 12 * 2**30  # bytes of address space of a child: what asks for more gets a MemoryError, and the machine stays usable

REFUSED, SAME, SURVIVED, NO_MEMORY = "refused", "same result", "survived", "no memory"  # what trials may end in


def patience(seconds):
    """So many seconds, and more on a busy machine: as many times as there are processes for each processor."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@dataclass
class Trial:
    """How one trial ended."""

    end: str  # REFUSED, SAME, SURVIVED or NO_MEMORY; or what was found: "crash", "hang", "silently accepted", ...
    what: str = ""  # which call, which file

    @property
    def found(self) -> bool:
        return self.end not in (REFUSED, SAME, SURVIVED, NO_MEMORY)


@dataclass
class Result:
    """What came of many trials of one area."""

    trials: int = 0
    seconds: float = 0.0
    ends: Counter = field(default_factory=Counter)
    findings: list = field(default_factory=list)  # area, number, end, what

    def add(self, area, number, trial):
        self.trials += 1
        self.ends[trial.end] += 1
        if trial.found:
            self.findings.append({"area": area, "number": number, "end": trial.end, "what": trial.what[:2000]})


def rng_of(seed, area, number):
    """The random numbers of one trial."""
    return np.random.default_rng([seed, int.from_bytes(area.encode(), "big") % 2**32, number])


def work(tasks, seed, until, where):
    """In the child: try one area after the other until it is time; leave the results, and the running trial, in files.

    tasks: for each area its name, the number of the first trial, and how many at most.
    """
    from hunt.areas import AREAS

    if not {"workers", "parents", "ray workers"} & {area for area, *_ in tasks}:  # engines need more address space than they use
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    now = os.open(where / "now", os.O_RDWR | os.O_CREAT)
    with (where / "trials").open("a") as out:
        for area, first, most in tasks:
            os.pwrite(now, f"{area:20s}{first:20d}{' ' * 900}".encode(), 0)
            trial = AREAS[area]()
            for number in range(first, first + most):
                if time.time() > until:
                    return
                os.pwrite(now, f"{area:20s}{number:20d}".encode(), 0)
                ended = trial(rng_of(seed, area, number), lambda text: os.pwrite(now, f"{text[:900]:900s}".encode(), 40))
                out.write(json.dumps([area, number, ended.end, ended.what[:2000]]) + "\n")
                out.flush()


def hunt(area, seed, seconds, *, first=0, most=10**9, environment=None):
    """Try one area for some seconds in child processes; return the Result."""
    return hunt_areas({area: most}, seed, seconds, first=first, environment=environment)[area]


def hunt_areas(areas, seed, seconds, *, first=0, environment=None):
    """Try several areas, one after the other, in one child process; return the Results by area. A child that dies is replaced.

    areas: how many trials of each, at most; seconds: for all of them.
    """
    results, begun = {area: Result() for area in areas}, time.monotonic()
    tasks = [[area, first, most] for area, most in areas.items()]
    with tempfile.TemporaryDirectory(prefix="cede-hunt-") as folder:
        while tasks and (left := seconds - (time.monotonic() - begun)) > 0:
            where = Path(tempfile.mkdtemp(dir=folder))
            command = [sys.executable, "-W", "error", "-X", "faulthandler", "-m", "hunt.guard"]
            command.append(json.dumps([tasks, seed, time.time() + left, str(where)]))
            env = {**os.environ, "PYTHONPATH": PATHS, "TMPDIR": str(where), **(environment or {})}
            with (where / "errors").open("w") as errors:
                child = subprocess.Popen(command, cwd=TESTS, env=env, stdout=errors, stderr=errors, start_new_session=True)
                hung = watch(child, where)
            for line in (where / "trials").read_text().splitlines() if (where / "trials").exists() else ():
                area, number, end, what = json.loads(line)
                results[area].add(area, number, Trial(end, what))
                tasks = after(tasks, area, number)
            if not hung and child.returncode == 0:
                break  # all was tried, or there is no time left
            area, number, text = *tasks[0][:2], "before the first trial"
            if (where / "now").exists():
                text = (where / "now").read_text(errors="replace")
                area, number, text = text[:20].strip(), int(text[20:40]), text[40:].strip()
            end = "hang" if hung else f"crash ({child.returncode})"
            results[area].add(area, number, Trial(end, f"{text} ... {shortened((where / 'errors').read_text())}"))
            tasks = after(tasks, area, number)
    for result in results.values():
        result.seconds = time.monotonic() - begun
    return results


def after(tasks, area, number):
    """What is left of tasks once a trial of an area has ended."""
    at = [name for name, *_ in tasks].index(area)
    _, first, most = tasks[at]
    rest = [[area, number + 1, most - (number + 1 - first)]] if number + 1 < first + most else []
    return rest + tasks[at + 1 :]


def shortened(text):
    """The beginning and the end of what a child said."""
    return text if len(text) < 1500 else f"{text[:900]} ... {text[-600:]}"


def watch(child, where):
    """Wait for a child; kill it, and all whom it started, if there is no new trial for a long time. Return whether it hung."""
    last, since = "", time.monotonic()
    while child.poll() is None:
        time.sleep(0.2)
        now = (where / "now").read_text(errors="replace") if (where / "now").exists() else ""
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since > patience(PATIENCE):
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return True
    return False


if __name__ == "__main__":
    tasks, seed, until, where = json.loads(sys.argv[1])
    work(tasks, seed, until, Path(where))
