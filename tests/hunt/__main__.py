"""The long hunt: all areas for some minutes; what was tried and found goes to a file, and from there into docs/reliability.md.

python -m hunt --minutes 60 --seed 1                 all areas            (in tests/; `make hunt` does this)
python -m hunt --area forged --minutes 5 --seed 1    one area
python -m hunt --area forged --seed 1 --only 4711    one trial again
python -m hunt --page                                bring docs/reliability.md up to date with the file
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from importlib.metadata import version
from pathlib import Path

from hunt.areas import AREAS
from hunt.guard import PATHS, TESTS, Result, Trial, hunt

FILE, PAGE = TESTS / "hunt" / "result.json", TESTS.parent / "docs" / "reliability.md"
BEGIN, END = "<!-- made by `make hunt` from tests/hunt/result.json, not by hand -->", "<!-- end of what the hunt found -->"

# How the time is shared.
SHARES = {
    "calls": 16,
    "forged": 16,
    "damaged": 8,
    "soak": 8,
    "orders": 6,
    "commands": 6,
    "checkpoints": 6,
    "killed saves": 6,
    "workers": 5,
    "parents": 5,
    "threads": 4,
    "interrupts": 4,
    "racing saves": 3,
    "interrupted calls": 3,
    "disks": 3,
    "ray workers": 3,
    "tables": 2,
    "guided": 6,
}
WORDS = {
    "calls": "calls with a wrong argument, or with the right one in another form",
    "orders": "learners called in any order, with wrong calls between",
    "commands": "command lines with wrong options",
    "soak": "learners that run for hundreds of episodes in random problems",
    "damaged": "files with flipped, cut, inserted, repeated or cleared bytes",
    "forged": "files that are wrong inside, with a right checksum, used afterwards",
    "checkpoints": "checkpoints, damaged or forged, resumed",
    "tables": "tables of figures, damaged, made into a report",
    "killed saves": "processes killed while they saved, 5 times each",
    "racing saves": "threads and a process that save to one path while another loads it",
    "threads": "threads that use one learner, or one fleet",
    "interrupts": "runs that are interrupted at any moment, and go on",
    "interrupted calls": "learners used by hand, interrupted 30 times each",
    "disks": "disks that are full, nearly full or read-only",
    "workers": "runs whose workers (processes) were killed",
    "ray workers": "runs whose workers (Ray) were killed",
    "parents": "runs killed and resumed from their checkpoints",
    "guided": "forged files, guided by coverage (atheris)",
}


def guided(seed, seconds):
    """Fuzz the readers, where atheris is installed."""
    result, begun = Result(), time.monotonic()
    try:
        version("atheris")
    except ImportError:
        result.ends["atheris is not installed"] = 0
        return result
    command = [sys.executable, "-m", "hunt.fuzz", str(seconds), str(seed)]
    env = {**os.environ, "PYTHONPATH": PATHS}
    done = subprocess.run(command, cwd=TESTS, env=env, capture_output=True, text=True, timeout=seconds + 300, check=False)
    found = re.findall(r"^#(\d+)\t", done.stderr, re.MULTILINE)
    result.trials = max(map(int, found), default=0)
    result.ends["survived"] = result.trials
    if done.returncode:
        result.add("guided", result.trials, Trial(f"crash ({done.returncode})", done.stderr[-2000:]))
    result.seconds = time.monotonic() - begun
    return result


def one_area(area, seed, seconds):
    result = guided(seed, seconds) if area == "guided" else hunt(area, seed, seconds)
    found = "nothing found" if not result.findings else f"{len(result.findings)} FOUND"
    print(f"{area:18s} {result.trials:9,d} trials in {result.seconds:5.0f} s   {found}", flush=True)
    for finding in result.findings[:5]:
        print(f"    {finding['number']}: {finding['end']}: {finding['what'][:300]}", flush=True)
    return area, result


def all_areas(seed, minutes, jobs):
    """Try all areas, some at the same time, the longest first; return the results by area."""
    total = sum(SHARES.values())
    with ThreadPoolExecutor(jobs) as pool:
        running = [
            pool.submit(one_area, area, seed, max(5.0, 60 * minutes * jobs * share / total)) for area, share in SHARES.items()
        ]
        return dict(future.result() for future in running)


def written(results, seed, minutes, path):
    """Write what was tried and found to a file."""
    packages = {name: version(name) for name in ("cede", "numpy", "scipy", "numba")}
    about = {"date": date.today().isoformat(), "minutes": minutes, "seed": seed, "python": platform.python_version(), **packages}
    areas = {
        area: {"trials": result.trials, "seconds": round(result.seconds), "ends": dict(sorted(result.ends.items()))}
        for area, result in sorted(results.items(), key=lambda item: list(SHARES).index(item[0]))
    }
    findings = [finding for result in results.values() for finding in result.findings]
    text = json.dumps({**about, "processors": os.cpu_count(), "areas": areas, "findings": findings}, indent=1)
    path.write_text(text.replace(str(TESTS.parent), "") + "\n")  # no path of this machine


def table(told):
    """The result file as Markdown."""
    found = {}
    for finding in told["findings"]:
        found[finding["area"]] = found.get(finding["area"], 0) + 1
    lines = ["| what was tried | trials | refused | accepted, and right | found |", "|---|---:|---:|---:|---:|"]
    for area, result in told["areas"].items():
        ends = result["ends"]
        refused = ends.get("refused", 0) + ends.get("no memory", 0)
        fine = ends.get("survived", 0) + ends.get("same result", 0)
        lines.append(f"| {WORDS[area]} | {result['trials']:,} | {refused:,} | {fine:,} | **{found.get(area, 0)}** |")
    total = sum(result["trials"] for result in told["areas"].values())
    lines.append(f"| **all** | **{total:,}** | | | **{len(told['findings'])}** |")
    about = f"{told['minutes']:g} minutes on {told['processors']} processors, seed {told['seed']}, {told['date']}; "
    about += f"cede {told['cede']}, Python {told['python']}, NumPy {told['numpy']}, Numba {told['numba']}."
    return "\n".join([*lines, "", f"*{about}*"])


def with_table(text, told):
    """The page with its table brought up to date."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{table(told)}\n{END}{rest.split(END)[1]}"


def main():
    parser = argparse.ArgumentParser(prog="hunt", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6)
    parser.add_argument("--area", choices=list(SHARES))
    parser.add_argument("--only", type=int, help="the number of one trial of an area")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path, default=TESTS.parent / "out" / "hunt.json")
    parser.add_argument("--page", action="store_true", help="write the table of the result file into docs/reliability.md")
    told = parser.parse_args()
    if told.page:
        PAGE.write_text(with_table(PAGE.read_text(), json.loads(FILE.read_text())))
        return 0
    if told.only is not None:
        result = hunt(told.area, told.seed, 600, first=told.only, most=1)
        print(*result.findings or [dict(result.ends)], sep="\n")
        return bool(result.findings)
    assert set(SHARES) == {*AREAS, "guided"} == set(WORDS)
    print(f"seed {told.seed}", flush=True)
    results = (
        dict([one_area(told.area, told.seed, 60 * told.minutes)]) if told.area else all_areas(told.seed, told.minutes, told.jobs)
    )
    told.out.parent.mkdir(parents=True, exist_ok=True)
    written(results, told.seed, told.minutes, told.out)
    print(f"written: {told.out}")
    return any(result.findings for result in results.values())


if __name__ == "__main__":
    sys.exit(main())
