"""The service under load, killed, and asked nonsense, over SQLite and over PostgreSQL: a dated table in benchmarks/results/.

    python benchmarks/service.py [--quick | --middle] [--rows durable,decides,...] [--stores sqlite,postgresql] [--out DIRECTORY]

Without an option it has the sizes that were asked for, which take hours; --middle takes about half an hour, --quick two minutes
and writes to out/bench. Times are ratios to a bare FastAPI server in the same run; whatever else the machine does is in them.
PostgreSQL is started from the system's binaries, in a directory of its own, and syncs its commits. Rows that were measured on the
same day with the same size stay in the table if others are measured again.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measure import installed, machine, save
from service_hosts import Files, Postgres
from service_safety import in_any_order, killed, made_up_requests
from service_speed import Row, decides, durable, many_teams, rebuilt

MILLION = 1_000_000
PACKAGES = ("fastapi", "uvicorn", "sqlalchemy", "psycopg", "schemathesis")
Sizes = dict[str, Any]
ROWS: dict[str, tuple[Callable[..., Row], Sizes, Sizes, Sizes]] = {  # quick, middle, full
    "durable": (durable, {"seconds": 5, "turns": 1}, {"seconds": 15, "turns": 3}, {"seconds": 600, "turns": 1, "bare": 0.1}),
    "decides": (decides, {"seconds": 2, "turns": 2}, {"seconds": 5, "turns": 5}, {"seconds": 20, "turns": 5}),
    "order": (in_any_order, {"steps": 40_000}, {"steps": 400_000}, {"steps": 10 * MILLION}),
    "server": (killed, {"kills": 5}, {"kills": 100}, {"kills": 1000}),
    "planner": (killed, {"kills": 5}, {"kills": 50}, {"kills": 200}),
    "PostgreSQL": (killed, {"kills": 2}, {"kills": 20}, {"kills": 100}),
    "made up": (
        made_up_requests,
        {"requests": 3000, "cases": 3},
        {"requests": 30_000, "cases": 30},
        {"requests": 180_000, "cases": 1100},
    ),
    "teams": (
        many_teams,
        {"registered": 2000, "active": 500},
        {"registered": 200_000, "active": 20_000},
        {"registered": MILLION, "active": 100_000},
    ),
    "rebuilt": (rebuilt, {"steps": 100_000}, {"steps": 2 * MILLION}, {"steps": 100 * MILLION}),
}
KILLED = ("server", "planner", "PostgreSQL")
STORES: dict[str, Callable[[], Files | Postgres]] = {"sqlite": Files, "postgresql": Postgres}


def measure(store: str, names: list[str], size: int) -> list[Row]:
    """Measure rows over one store."""
    host, rows = STORES[store](), []
    try:
        for name in names:
            if name == "PostgreSQL" and store != "postgresql":
                continue
            function, more = ROWS[name][0], {"what": name} if name in KILLED else {}
            begin = time.perf_counter()
            with tempfile.TemporaryDirectory() as place:
                row = function(host, Path(place), **ROWS[name][1 + size], **more)
            rows.append({"name": name, "store": store, **row, "took": round(time.perf_counter() - begin, 1)})
            print(json.dumps(rows[-1]), flush=True)
    finally:
        host.remove()
    return rows


# ------------------------------------------------------------------------------------------------- the table


def told(row: Row) -> tuple[str, str, str]:
    """Of a row: what was run, what was found, what was asked for."""
    if row["row"] == "durable":
        ours, bare = row["cede"], row["bare"]
        what = f"durable steps in batches of 1,000, {row['asked_rate']:,.0f} a second offered, 500 decides a second beside them"
        found = f"{ours['steps']:,.0f} steps/s; {ours['decides']:.0f} decides/s, p50 {ours['p50']:.1f} ms, p99 {ours['p99']:.0f} ms"
        found += f" (bare: {bare['steps']:,.0f} steps/s, p50 {bare['p50']:.1f}, p99 {bare['p99']:.0f} ms); "
        found += f"CPU per step {ours['us']:.1f} µs, {row['ratio']:.2f} of bare"
        return f"{what}; {row['seconds']:.0f} s", found, "20,000/s for 600 s, p99 < 50 ms, at most 3 of bare"
    if row["row"] == "decides":
        ours, bare = row["cede"], row["bare"]
        found = f"{ours['rate']:,.0f}/s, p50 {ours['p50']:.1f} ms, p99 {ours['p99']:.0f} ms, {ours['us']:.0f} µs of CPU; "
        found += f"bare {bare['rate']:,.0f}/s, p99 {bare['p99']:.0f} ms, {bare['us']:.0f} µs; "
        found += f"rate {row['ratio']:.2f}, CPU {row['cpu_ratio']:.2f} of bare"
        return (
            f"decides, one process, 32 connections; {row['seconds']:.0f} s",
            found,
            "2,500/s, p99 < 25 ms, rate at least 0.7 of bare",
        )
    if row["row"] == "order":
        what = f"{row['steps']:,} steps, a fifth of them twice, shuffled, 8 clients"
        found = f"{row['differences']} differences, verify: {row['verify']}; {row['rate']:,.0f} steps/s"
        return what, found, "10 million steps: 0 differences"
    if row["row"] == "killed":
        asked = {"server": 1000, "planner": 200, "PostgreSQL": 100}[row["what"]]
        found = f"{row['missing']} acknowledged steps missing of {row['acknowledged_steps']:,}, {row['unknown']} too many, "
        found += f"{row['lost']} of {row['again']} repeats taken as new, {row['wrong_plans']} teams with wrong plans, "
        found += f"verify: {row['verify']}; {row['broken']:,} connections broken"
        return f"{row['what']} killed under load, {row['kills']} times", found, f"{asked:,} times: nothing lost, nothing twice"
    if row["row"] == "made up":
        found = f"{row['bad'] + len(row['schemathesis_bad'])} answers of 5xx, {row['hung']} hangs, verify: {row['verify']}; "
        found += f"memory {row['growth']:+.1%} from a fifth of the fuzzer's requests to their end, {row['mib']:.0f} MiB"
        what = f"{row['requests']:,} bodies by a fuzzer in {row['seconds']:.0f} s, {row['schemathesis']:,} requests by schemathesis"
        return what, found, "200,000: no 5xx, no hang, at most 5% in an hour"
    if row["row"] == "teams":
        found = f"{row['known_mib']:.0f} MiB when all are known, {row['full_mib']:.0f} MiB with the plans of the active; "
        found += f"a decide of a sleeping team p50 {row['sleeping_p50']:.1f} ms, p99 {row['sleeping_ms']:.1f} ms, "
        found += f"its own plan after {row['awake_ms']:.0f} ms (p99)"
        what = f"{row['registered']:,} teams registered, {row['active']:,} active"
        return what, found, "a million, 100,000 active: < 4 GiB; decide < 20 ms"
    found = f"{row['rate']:,.0f} steps/s, {row['seconds']:.1f} s; CPU {row['cpu_us']:.2f} µs a step"
    return f"{row['steps']:,} steps counted again", found, "100 million in 300 s: 333,000 steps/s"


def write(path: Path, date: str, facts: Row, size: str, rows: list[Row]) -> Path:
    """Write the table."""
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    load = f"load average before each row {min(r['load'] for r in rows):.1f} to {max(r['load'] for r in rows):.1f}"
    lines = [f"# The service, {date}", ""]
    lines += [
        f"{facts['processor']}, {facts['cores']} cores, shared by server, load and database; Python {facts['python']}; {packages}."
    ]
    lines += [f"Sizes: {size}. What else the machine did is in the times ({load}); ratios are within one run."]
    lines += ["Bare: FastAPI with models, one INSERT for each batch, one commit."]
    lines += ["Processor time of durable steps includes PostgreSQL's, others do not.", ""]
    lines += ["| what | store | found | asked for |", "|---|---|---|---|"]
    for row in rows:
        what, found, asked = told(row)
        lines.append(f"| {what} | {row['store']} | {found} | {asked} |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="to see that it runs")
    size.add_argument("--middle", action="store_true", help="about half an hour")
    parser.add_argument("--rows", default=",".join(ROWS), help="which, with commas between")
    parser.add_argument("--stores", default=",".join(STORES), help="which, with commas between")
    parser.add_argument("--out", type=Path, help="where to; by default benchmarks/results, or out/bench if quick")
    given = parser.parse_args()
    out = given.out or (Path("out/bench") if given.quick else Path(__file__).parent / "results")
    out.mkdir(parents=True, exist_ok=True)
    date, number = f"{datetime.now(UTC):%Y-%m-%d}", 0 if given.quick else 1 if given.middle else 2
    facts = machine()
    facts["packages"] = {"cede": facts["packages"]["cede"]} | {name: installed(name) for name in PACKAGES}
    stem, word = out / f"{date}-service", ("quick", "middle", "full")[number]
    path = stem.with_suffix(".json")
    kept = json.loads(path.read_text()) if path.exists() else {}
    rows = kept["rows"] if kept.get("size") == word else []
    for name in given.rows.split(","):
        for store in given.stores.split(","):
            load = machine()["load_before"]
            try:
                found = measure(store, [name], number)
            except FileNotFoundError as error:
                print(error)
                continue
            new = [{**row, "load": load} for row in found]
            rows = [row for row in rows if (row["name"], row["store"]) not in {(n["name"], n["store"]) for n in new}] + new
            rows.sort(key=lambda row: (list(ROWS).index(row["name"]), row["store"] != "sqlite"))
            save(path, {"date": date, "size": word, "machine": facts, "rows": rows})
            write(stem.with_suffix(".md"), date, facts, word, rows)
    print(stem.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
