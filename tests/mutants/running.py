"""A copy of the source in which one file is changed, and the tests that belong to it, in a child process.

The copy keeps Numba's cache: kernels carry a digest of what they rest on, so a changed kernel compiles anew what rests on it and
nothing else. The parent has loaded what is large and not ours, and forks: a child begins at once.
"""

import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

TESTS = Path(__file__).parent.parent
ROOT = TESTS.parent
SOURCE = ROOT / "src" / "cede"
WORK = ROOT / "out" / "mutants"

PACKAGES = ("problem", "features", "steps", "rows", "beliefs", "planning", "learners", "insight", "_kernels")
OTHERS = ("fleet/episodes.py", "fleet/teams.py", "serve/served.py", "serve/http/reports.py")
LEFT_OUT = {
    "_kernels/compiling.py",
    "_kernels/bundle.py",
    "_kernels/backend.py",
    "_kernels/numba_plain.py",
    "_kernels/numba_private.py",
}  # how kernels are compiled and get their arrays: wrong, nothing runs at all

# Tests that are tried. Those of the service that start processes or browsers are not.
FOLDERS = ("_kernels", "problem", "features", "beliefs", "planning", "learners", "insight", "fleet", "steps", "rows")
INTERRUPTED = ("learners/test_interrupts.py",)  # interrupts at each line: endless while lines are recorded
EVERYWHERE = "test_errors.py"  # near to every package
MORE = (
    EVERYWHERE,
    "test_golden.py",
    "hunt/test_defects.py",
    "serve/test_counting.py",
    "serve/test_reports.py",
    "serve/test_store.py",
    "serve/test_endless.py",
    "serve/test_estimates.py",
    "serve/test_views.py",
    "serve/test_planning.py",
    "serve/test_memory.py",
    "serve/test_sizes.py",
)

# Which tests run a kernel cannot be seen from Python: the files to try for each, the nearest first. All end with the golden runs.
SMALL_STEPS = "_kernels/test_small_steps.py"
OF_KERNELS = {
    "planning/backup.py": (
        SMALL_STEPS,
        "planning/test_backup.py",
        "planning/test_same_start.py",
        "planning/test_planner.py",
        "planning/test_costs_ends_time.py",
    ),
    "learners/proof.py": ("learners/test_baseline.py",),
    "learners/trials.py": ("learners/test_trials.py",),
    "_kernels/account.py": ("steps/test_step_costs.py", "steps/test_steps.py", "fleet/test_simulate.py"),
    "planning/iteration.py": ("planning/test_iteration.py", "planning/test_newton.py"),
    "rows/cost_sums.py": (
        SMALL_STEPS,
        "learners/test_count_checks.py",
        "learners/test_learned_costs.py",
        "learners/test_known_costs.py",
        "learners/test_greedy_with_costs.py",
        "learners/test_team_costs.py",
    ),
    "planning/fixed_point.py": (SMALL_STEPS, "planning/test_endless.py", "learners/test_endless_learner.py"),
    "fleet/episodes.py": ("fleet/test_simulate.py",),
    "beliefs/intervals.py": ("beliefs/test_bernstein.py",),
    "beliefs/kl.py": (
        SMALL_STEPS,
        "beliefs/test_kl.py",
    ),
    "rows/counting.py": (
        "rows/test_counts.py",
        "learners/test_recommended.py",
        "rows/test_fading.py",
        "problem/test_structure.py",
    ),
    "learners/compiled.py": (
        "learners/test_recommended.py",
        "problem/test_structure.py",
        "learners/test_algorithms.py",
        "learners/test_replanning.py",
    ),
    "_kernels/limits.py": ("steps/test_step_costs.py", "learners/test_limits.py", "planning/test_control_shares.py"),
    "beliefs/l1.py": (SMALL_STEPS, "planning/test_planner.py", "beliefs/test_kl.py"),
    "_kernels/problem.py": ("planning/test_backup.py", "planning/test_planner.py", "learners/test_learned_costs.py"),
    "beliefs/constants.py": (
        "beliefs/test_constants.py",
        "learners/test_radius_sizes.py",
        "beliefs/test_belief.py",
        "learners/test_learned_costs.py",
    ),
    "_kernels/random_streams.py": ("_kernels/test_random_streams.py", "learners/test_posterior_sampling.py"),
    "planning/minima.py": (
        "planning/test_backup.py",
        "planning/test_work.py",
        "beliefs/test_bernstein.py",
        "beliefs/test_kl.py",
        "problem/test_structure.py",
    ),
    "beliefs/posterior.py": ("learners/test_posterior_sampling.py",),
    "_kernels/scratch.py": ("planning/test_planner.py", "learners/test_learned_costs.py"),
    "_kernels/tables.py": ("rows/test_counts.py", "rows/test_fading.py", "fleet/test_fleet.py"),
    "fleet/teams.py": ("fleet/test_fleet.py", "learners/test_replanning.py", "learners/test_endless_learner.py"),
    "_kernels/vectors.py": ("beliefs/test_kl.py", "planning/test_planner.py", "beliefs/test_bernstein.py"),
    "beliefs/appendix.py": ("beliefs/test_constants.py", "beliefs/test_belief.py"),
    "beliefs/bernstein.py": ("beliefs/test_constants.py", "beliefs/test_bernstein.py", "problem/test_structure.py"),
    "beliefs/calibrated.py": ("beliefs/test_constants.py", "learners/test_recommended.py"),
    "beliefs/costs.py": (
        SMALL_STEPS,
        "beliefs/test_constants.py",
        "learners/test_learned_costs.py",
        "learners/test_greedy_with_costs.py",
    ),
    "beliefs/layer.py": (
        "learners/test_recommended.py",
        "rows/test_fading.py",
        "learners/test_functions_of_a_row.py",
        "problem/test_structure.py",
        "learners/test_team_costs.py",
    ),
    "beliefs/printed.py": ("beliefs/test_constants.py", "beliefs/test_belief.py", "problem/test_structure.py"),
    "beliefs/weissman.py": ("beliefs/test_weissman.py",),
    "beliefs/registry.py": ("beliefs/test_registry.py", "beliefs/test_constants.py", "learners/test_settings.py"),
}

SECONDS = 40.0  # of a processor, for the tests that are tried on a mutant, without it
LONG = 15.0  # a test that takes longer is not tried
QUIET, IDLE = 30.0, 0.1  # a child that uses less of a processor in so many seconds waits for something
MEMORY = 8 << 30
HEAVY = (
    "numpy",
    "numba",
    "scipy.sparse",
    "scipy.optimize",
    "scipy.stats",
    "pytest",
    "hypothesis",
    "fastapi",
    "sqlalchemy",
    "pandas",
)
HEAVY += ("alembic", "starlette.testclient", "gymnasium", "scipy.special", "scipy.cluster", "multiprocessing.pool")


def files():
    """The source files that mutants are made of, within src/cede."""
    found = [str(path.relative_to(SOURCE)) for package in PACKAGES for path in sorted((SOURCE / package).rglob("*.py"))]
    return [file for file in (*found, *OTHERS) if file not in LEFT_OUT and not file.endswith("__init__.py")]


def files_of_tests():
    """The test files that are tried, within tests/."""
    found = [str(path.relative_to(TESTS)) for folder in FOLDERS for path in sorted((TESTS / folder).rglob("test_*.py"))]
    return [*(name for name in found if name not in INTERRUPTED), *(name for name in MORE if (TESTS / name).exists())]


def digest(*paths):
    """A digest of the text of some files."""
    told = hashlib.sha256()
    for path in paths:
        told.update(path.read_bytes())
    return told.hexdigest()[:16]


def warm():
    """Load what is large, once, before children are forked."""
    for name in HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)


# ------------------------------------------------------------------------------------------------- a copy of the source


class Tree:
    """A copy of the source, with its own cache of compiled kernels."""

    def __init__(self, number=0):
        self.root = WORK / f"tree{number}"
        self.source = self.root / "src" / "cede"

    def refreshed(self):
        """Bring the copy up to date. Files that have not changed keep their time, by which Numba knows them."""
        theirs = {path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        if self.source.exists():
            for path in [path for path in self.source.rglob("*") if path.is_file() and "__pycache__" not in path.parts]:
                if path.relative_to(self.source) not in theirs:
                    path.unlink()
        for path in theirs:
            copy = self.source / path
            if not copy.exists() or copy.read_bytes() != (SOURCE / path).read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(SOURCE / path, copy)
        for folder in sorted({file.split("/")[0] for file in OF_KERNELS}):
            compiled = self.source / folder / "__pycache__"
            if not compiled.exists():
                caches = (SOURCE / folder / "__pycache__", Tree(0).source / folder / "__pycache__")
                compiled.mkdir()
                for path in [path for cache in caches if cache.exists() for path in cache.glob("*.nb?")]:
                    shutil.copy2(path, compiled)
        return self

    def compiled(self):
        """Compile what most tests use. While lines are recorded that would take far longer."""
        stamp = digest(*(SOURCE / file for file in sorted(OF_KERNELS)))
        note = self.root / "compiled"
        if not note.exists() or note.read_text() != stamp:
            run(self, ["tests/test_golden.py", "tests/learners/test_learned_costs.py"], 3600, WORK / "compiled.txt")
            note.write_text(stamp)
        return self

    def changed(self, file, text):
        """Write another text into a file; what is returned puts the old one back, and removes what was compiled since."""
        path = self.source / file
        old, times, caches = path.read_bytes(), path.stat(), path.parent / "__pycache__"
        kept = {each.name for each in caches.glob("*")} if caches.exists() else set()

        def forget():
            for each in caches.glob(f"{path.stem}.cpython*"):
                each.unlink()

        def back():
            path.write_bytes(old)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            forget()
            for each in caches.glob("*.nb?"):
                if each.name not in kept:
                    each.unlink()

        path.write_text(text)
        forget()
        return back


# ------------------------------------------------------------------------------------------------- a child process


def child(tree, arguments, plugins, out):
    """Run pytest in this process, which was forked, and end it."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    text = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(text, 1)
    os.dup2(text, 2)
    code = 70
    try:
        import pytest

        source = str(tree.root / "src")
        os.environ["PYTHONPATH"] = source
        sys.path[:] = [source, *(path for path in sys.path if path != source)]
        os.chdir(ROOT)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "--hypothesis-seed=1", "--tb=line"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of plugins that are loaded already
        code = int(pytest.main([*options, *arguments], plugins=plugins))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def processor_seconds(session):
    """Seconds that the processes of a session have used of processors, with those that they waited for."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15])) if int(fields[3]) == session else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def run(tree, arguments, limit, out, plugins=()):
    """Run pytest in a child; return its exit code, minus the signal that ended it, or None if it did not end.

    limit: seconds of a processor, so that a busy machine ends nothing; after as many seconds of the clock, a child that does
    nothing is ended, too.
    """
    pid = os.fork()
    if pid == 0:
        child(tree, arguments, list(plugins), out)
    look, used, pause = time.monotonic() + limit, 0.0, 0.02
    try:
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > look:
                before, used = used, processor_seconds(pid)
                if used > limit or used - before < IDLE:
                    return None
                look += QUIET
            time.sleep(pause)
            pause = min(0.2, pause * 1.3)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        if not done:
            os.waitpid(pid, 0)


# ------------------------------------------------------------------------------------------------- which tests belong to a mutant


def reached(tree, name):
    """Which lines the tests of a file run, and how long they take; measured once for each text of the sources and of the file."""
    from mutants.reach import Reach

    path = TESTS / name
    sources = [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] in (*PACKAGES, "_base", "fleet")]
    stamp = digest(path, *sources)
    kept = WORK / "reach" / f"{name.replace('/', '+')}.{stamp}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        for old in kept.parent.glob(f"{name.replace('/', '+')}.*"):
            old.unlink(missing_ok=True)
        begun = time.monotonic()
        options = ["--maxfail=1000", "-m", "not slow", str(path.relative_to(ROOT))]
        code = run(tree, options, 1800, kept.with_suffix(".txt"), [Reach(tree.source, kept)])
        if not kept.exists():
            print(f"{name}: its tests could not be run ({code}): {kept.with_suffix('.txt')}", flush=True)
            return {"tests": {}, "lines": {}}
        told = json.loads(kept.read_text())
        more = f", left out {len(told['left out'])}" if told["left out"] else ""
        print(f"{name}: {len(told['tests'])} tests, {time.monotonic() - begun:.0f} s{more}", flush=True)
    return json.loads(kept.read_text())


def stages_of(mutant):
    """The test files for a mutant: first those of its own package, then all others."""
    folder, stem = mutant.file.split("/")[0], Path(mutant.file).stem
    if mutant.file in OF_KERNELS:
        return list(OF_KERNELS[mutant.file]), ["test_golden.py"]
    near = [name for name in files_of_tests() if name.split("/")[0] in (folder, EVERYWHERE)]
    near = sorted(near, key=lambda name: not Path(name).stem.startswith(f"test_{stem}"))
    return near, [name for name in files_of_tests() if name not in near]


class Map:
    """Which tests belong to a line of the source; measured when it is first asked for."""

    def __init__(self, tree, most=SECONDS):
        self.tree, self.most, self.told = tree, most, {}

    def of(self, name):
        if name not in self.told:
            self.told[name] = reached(self.tree, name)
        return self.told[name]

    def seconds(self, tests):
        return sum(self.of(test_file(test))["tests"].get(test, 0.0) for test in tests)

    def stages(self, mutant):
        """The tests for a mutant: first those of its own package, then all others, each in the order in which they are tried."""
        stem = Path(mutant.file).stem
        for names in stages_of(mutant):
            found = []
            for place, name in enumerate(names):
                nearness = place if mutant.file in OF_KERNELS else not Path(name).stem.startswith(f"test_{stem}")
                found += [(nearness, *each) for each in self.running(mutant, name)]
            yield limited(found, self.most)

    def running(self, mutant, name):
        """The tests of a file that run the mutant's line, with their seconds; for what is run on import, those that run anything of
        its file; for kernels all.
        """
        told = self.of(name)
        if mutant.file in OF_KERNELS:
            return list(told["tests"].items())
        lines, tests = told["lines"].get(mutant.file, {}), list(told["tests"].items())
        numbers = set(lines.get(str(mutant.line), ()) if mutant.lines else ())
        if not numbers:
            first, last = mutant.lines or (0, 10**6)
            numbers = {number for line, each in lines.items() if first <= int(line) <= last for number in each}
        return [tests[number] for number in sorted(numbers)]


def limited(found, most):
    """The nearest and quickest tests, as long as they take no more than `most` seconds together. found: nearness, test, seconds."""
    chosen, total = [], 0.0
    for _, test, spent in sorted(found, key=lambda each: (each[0], each[2])):
        if spent <= LONG and total + spent <= most:
            chosen.append(test)
            total += spent
    return chosen


def test_file(test):
    """The test file of a test, within tests/."""
    return test.split("::")[0].removeprefix("tests/")
