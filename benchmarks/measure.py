"""Measuring: interleaved repeats, wall and CPU time, peak memory of a process of its own, facts of the machine."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Taken:
    """Medians over repeats, in seconds."""

    wall: float
    cpu: float  # of all threads of the process


def times(*functions: Callable[[], Any], repeats: int = 11) -> list[Taken]:
    """Of each function, run in turn so that all see the same machine; one run before that does not count."""
    for function in functions:
        function()
    taken: list[list[tuple[float, float]]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, into in zip(functions, taken, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            function()
            into.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [Taken(median(w for w, _ in pairs), median(c for _, c in pairs)) for pairs in taken]


def peak_memory(code: str) -> float:
    """GiB at most resident while a new Python runs some code; not a number where the system does not tell."""
    if not Path("/proc/self/status").exists():
        return float("nan")
    # Not getrusage: a new process inherits the peak of the one that started it.
    code += "\nprint('PEAK', *(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    here = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": here}
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return int(run.stdout.split("PEAK")[1]) / 2**20


def seconds_of_process(code: str, **environment: str) -> float:
    """What a new Python needs for some code, start-up included."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ, **environment})
    return time.perf_counter() - begin


def machine() -> dict[str, Any]:
    """What a reader must know of where the figures come from; no names, no paths."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "caches": caches(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: installed(name) for name in ("cede", "numpy", "scipy", "numba", "llvmlite", "quantecon")},
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def caches() -> dict[str, str]:
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level = (index / "type").read_text().strip(), (index / "level").read_text().strip()
        if kind != "Instruction":
            found[f"L{level}"] = (index / "size").read_text().strip()
    return found


def save(path: Path, results: dict[str, Any]) -> None:
    """Whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
