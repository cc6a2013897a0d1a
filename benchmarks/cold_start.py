"""What the first use costs on a machine that has compiled nothing yet, beside the code of an earlier commit in the same run.

    python benchmarks/cold_start.py [--against COMMIT] [--repeats N] [--out DIRECTORY]

Every measurement is a new Python on one core, with an empty directory for compiled code (or, for a later start, with the one that
the first start filled). Processor time, start-up and imports included; the two versions take turns, and the least of the repeats
counts: whatever else the machine does can only add. Writes a dated table and the same as JSON.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measure import machine, save

ROOT = Path(__file__).parent.parent
BEFORE = "1e9a756"  # the last commit in which kernels passed their arrays by value

HEAD = "import resource, cede; mdp = cede.worlds.riverswim(); "
WORK = {
    "first plan (solve)": HEAD + "cede.solve(mdp)",
    "first choice of ucrl2_mc": HEAD + "cede.ucrl2_mc(mdp.task).choose(0, 0, 0)",
    "first simulate": HEAD + "cede.simulate(mdp, cede.ucrl2_mc(mdp.task), 5, progress=False)",
    "all golden runs, what they compile": "import resource, sys; sys.path.insert(0, {tests!r}); import golden.runs; "
    "golden.runs.all_runs()",
}
USED = "; used = resource.getrusage(resource.RUSAGE_SELF); print('CPU', used.ru_utime + used.ru_stime)"
ASKED = {"first plan (solve)": 5.0, "first simulate": 15.0}


def seconds(source: Path, code: str, cache: Path) -> float:
    """Return the processor time of a new Python on one core that runs some code of a version of cede."""
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None

    def one_core() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})

    text = code.format(tests=str(ROOT / "tests")) + USED
    run = subprocess.run(
        [sys.executable, "-c", text], check=True, capture_output=True, text=True, env=environment, preexec_fn=one_core
    )
    return float(run.stdout.split("CPU")[1])


def measure(sources: dict[str, Path], what: str, repeats: int) -> dict[str, dict[str, float]]:
    """Return the least processor time of the first start and of a later one, by version."""
    found: dict[str, dict[str, list[float]]] = {version: {"first": [], "later": []} for version in sources}
    for _ in range(repeats):
        for version, source in sources.items():
            cache = Path(tempfile.mkdtemp(prefix="cede-cold-"))
            found[version]["first"].append(seconds(source, WORK[what], cache))
            found[version]["later"].append(seconds(source, WORK[what], cache))
            shutil.rmtree(cache)
    return {version: {start: min(taken) for start, taken in by_start.items()} for version, by_start in found.items()}


def table(facts: dict[str, Any], rows: list[dict[str, Any]], date: str, against: str) -> str:
    lines = [
        f"# Cold start, {date}",
        "",
        f"{facts['processor']}, one core; Python {facts['python']}, numba {facts['packages']['numba']}.",
    ]
    lines += [f"Processor seconds, least of the repeats; before: commit {against}. Made by `python benchmarks/cold_start.py`.", ""]
    lines += ["| what | now | before | ratio | asked for | later start now | before |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        asked = f"{row['asked']:.0f} s" if row["asked"] else ""
        first = f"{row['now']:.1f} | {row['before']:.1f} | {row['ratio']:.2f} | {asked}"
        lines.append(f"| {row['what']} | {first} | {row['later']:.1f} | {row['later_before']:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default=BEFORE, help="commit to compare with")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--only", nargs="*", choices=list(WORK), default=list(WORK))
    chosen = parser.parse_args()
    facts, date = machine(), datetime.now(UTC).date().isoformat()
    with tempfile.TemporaryDirectory(prefix="cede-before-") as folder:
        archive = subprocess.run(["git", "archive", chosen.against, "src"], check=True, capture_output=True, cwd=ROOT).stdout
        subprocess.run(["tar", "-x", "-C", folder], check=True, input=archive)
        sources = {"now": ROOT / "src", "before": Path(folder) / "src"}
        rows = []
        for what in chosen.only:
            found = measure(sources, what, chosen.repeats)
            now, before = found["now"], found["before"]
            compiled = {version: taken["first"] - taken["later"] for version, taken in found.items()}
            first = compiled if "compile" in what else {version: taken["first"] for version, taken in found.items()}
            row = {"what": what, "now": first["now"], "before": first["before"], "ratio": first["now"] / first["before"]}
            rows.append({**row, "asked": ASKED.get(what), "later": now["later"], "later_before": before["later"]})
            print(f"{what}: {row['now']:.1f} s, before {row['before']:.1f} s, ratio {row['ratio']:.2f}", flush=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    save(chosen.out / f"{date}-cold-start.json", {"machine": facts, "against": chosen.against, "rows": rows})
    (chosen.out / f"{date}-cold-start.md").write_text(table(facts, rows, date, chosen.against), encoding="utf-8")


if __name__ == "__main__":
    main()
