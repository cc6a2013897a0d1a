"""Forged files, guided by coverage: atheris looks for inputs that reach new code of the readers.

`python -m hunt.fuzz SECONDS SEED` (in tests/) needs the package atheris, which `make hunt` installs where it can. The bytes that it
makes up decide what is changed in a valid file; the checksum is always right, so the changes reach the checks behind it.
"""

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import FunctionType

import numpy as np

READERS = [
    "cede._base.archive",
    "cede._base.check",
    "cede.fleet.files",
    "cede.fleet.load",
    "cede.learners.files",
    "cede.learners.settings",
    "cede.learners.state",
    "cede.problem.takeover",
    "cede.problem.task",
    "cede.problem.structure",
]


class Bytes:
    """Random numbers that are read from the bytes of the fuzzer."""

    def __init__(self, provider):
        self.provider = provider

    def integers(self, low, high=None):
        low, high = (0, low) if high is None else (low, high)
        return self.provider.ConsumeIntInRange(int(low), int(high) - 1)

    def random(self):
        return self.provider.ConsumeProbability()

    def bytes(self, n):
        return self.provider.ConsumeBytes(n).ljust(n, b"\0")


def functions_of(modules):
    """All functions and methods that some modules define."""
    for name in modules:
        module = import_module(name)
        for thing in list(vars(module).values()):
            inside = vars(thing).values() if isinstance(thing, type) else (thing,)
            for one in inside:
                function = getattr(one, "__func__", getattr(one, "fget", None) or getattr(one, "func", None) or one)
                if isinstance(function, FunctionType) and function.__module__ == name:
                    yield function


def main(seconds, seed):
    import atheris

    import cede
    from hunt import files

    names = list(files.originals())  # kernels are compiled from functions as they are: before any of them is changed
    for function in functions_of(READERS):
        atheris.instrument_func(function)

    def one_input(data):
        rng = Bytes(atheris.FuzzedDataProvider(data))
        name = names[rng.integers(len(names))]
        try:
            made = files.forge(rng, files.originals()[name][0], ("learner", "fleet"), files.SCHEMA)
        except (ValueError, RecursionError, OverflowError, TypeError):
            return
        try:
            found = cede.load(made)
        except (cede.UnreadableFile, MemoryError):
            return
        for one in list(found)[:2] if isinstance(found, cede.Fleet) else [found]:
            if one.task.plan_steps * one.task.n_states * one.task.n_agents <= 10**5:
                try:
                    one.choose(*([] if one.task.horizon is None else [0]), 0, 0)
                    one.end_episode()
                except (ValueError, MemoryError):
                    continue

    folder = Path(tempfile.mkdtemp(prefix="cede-fuzz-"))
    for i in range(100):  # to begin with: enough bytes for several changes
        (folder / f"begin-{i}").write_bytes(np.random.default_rng([seed, i]).bytes(120))
    options = [f"-max_total_time={int(seconds)}", f"-seed={seed + 1}", "-len_control=0", "-max_len=200", "-timeout=100"]
    atheris.Setup([sys.argv[0], *options, "-rss_limit_mb=8000", f"-artifact_prefix={folder}/crash-", str(folder)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
