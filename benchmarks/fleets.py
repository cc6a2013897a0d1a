"""Fleets: team-episodes per second from 10 to 100,000 teams, what a second worker brings, what a round sends, memory.

Writes a dated table, the same as JSON and a plot into benchmarks/results/. --quick: small, to see that it runs; writes to
out/bench. --memory: also two large fleets of 100 episodes each, in processes of their own; some minutes more.
"""

import argparse
import pickle
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import cede
from cede._base.extras import pyplot
from cede.fleet.engines import ENGINES, Threads
from cede.fleet.grouping import streams_of
from cede.fleet.run import Run
from cede.worlds.lane_driving import lane_driving_teams
from cede.worlds.riverswim import riverswim_teams
from measure import machine, peak_memory, save

Row = dict[str, Any]
SIZES = {"RiverSwim": (10, 100, 1_000, 10_000, 100_000), "lane driving": (10, 100, 1_000)}
QUICK = {"RiverSwim": (10, 100), "lane driving": (4,)}
SECONDS = 4.0  # a measurement of throughput takes about so long
COST = {"RiverSwim": 60e-6, "lane driving": 4e-3}  # seconds of a team-episode, roughly


def make(world: str, n: int, **options: Any) -> tuple[list[cede.TwoLayerMDP], list[cede.Learner]]:
    """Teams and learners as in the paper's figures: printed radii; the authors' schedule with a known machine."""
    if world == "RiverSwim":
        mdps = riverswim_teams(n)
        return mdps, [cede.ucrl2_mc(m.task, **options) for m in mdps]
    mdps = lane_driving_teams(n, control_cost=0.2, switch_cost=0.1)
    scale, known = cede.Scale.authors(5000), {"machine": mdps[0].team.agents[0].policy}
    return mdps, [cede.ucrl2_mc(m.task, scale=scale, known_agents=known, **options) for m in mdps]


class Watch:
    """When which round was done. The first one is not counted: compilation, and empty caches."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def __call__(self, done: int) -> None:
        if not self.seen or done > self.seen[-1][1]:
            self.seen.append((time.perf_counter(), done))

    def seconds(self, n_teams: int) -> float:
        """Of a team-episode."""
        (begin, first), (end, last) = self.seen[0], self.seen[-1]
        return (end - begin) / (last - first) / n_teams


def team_episode(world: str, n: int, episodes: int, **options: Any) -> float:
    mdps, learners = make(world, n)
    watch = Watch()
    cede.simulate_fleet(mdps, cede.Fleet(learners), episodes, progress=watch, **options)
    return watch.seconds(n)


def throughput(sizes: dict[str, tuple[int, ...]], repeats: int) -> list[Row]:
    """One core; repeats of all sizes in turn."""
    rows = []
    for world, counts in sizes.items():
        taken: dict[int, list[float]] = {n: [] for n in counts}
        for _ in range(repeats):
            for n in counts:
                episodes = max(3, int(SECONDS / COST[world] / n))
                taken[n].append(team_episode(world, n, min(episodes, 2000), jobs=1))
        few = median(taken[counts[min(2, len(counts) - 1)]])
        for n in counts:
            each = median(taken[n])
            rows.append({"section": "throughput", "world": world, "teams": n, "us": 1e6 * each, "ratio": each / few})
    return rows


def workers(quick: bool, repeats: int) -> list[Row]:
    """What two workers do in the time of one, on every engine; and the machine's own limit: two unrelated runs side by side."""
    n, episodes = (40, 20) if quick else (2_000, 40)
    rows = []
    for name in ENGINES:
        pairs = [tuple(team_episode("RiverSwim", n, episodes, engine=name, jobs=jobs) for jobs in (1, 2)) for _ in range(repeats)]
        rows.append({"section": "workers", "what": f"{name}: 2 for 1", "speed_up": median(one / two for one, two in pairs)})
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from fleets import team_episode; "
    code += f"print(team_episode('RiverSwim', {n // 2}, {episodes}, jobs=1))"
    ratios = []
    for _ in range(repeats):
        alone = float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        together = [float(process.communicate()[0]) for process in both]
        ratios.append(sum(alone / one for one in together))
    rows.append({"section": "workers", "what": "the machine: two unrelated runs for one", "speed_up": median(ratios)})
    return rows


def messages(quick: bool) -> list[Row]:
    """What goes over the wire in a round, and what is written down of a team."""
    rows = []
    for world, n, episodes in (("RiverSwim", 100, 100), ("lane driving", 20, 10 if quick else 100)):
        mdps, learners = make(world, n)
        cede.simulate_fleet(mdps, cede.Fleet(learners), episodes, progress=False)
        engine = Threads(1)
        run = Run(mdps, learners, 1, streams_of(1, n), engine=engine)
        run.start(None)
        order = run.next_order()
        (report,) = engine.play(order)
        state = engine.states()[0]
        here = {"section": "messages", "world": world, "teams": n, "episodes": episodes}
        out, back = len(pickle.dumps(order, protocol=5)), len(pickle.dumps(report.deltas, protocol=5))
        ledger = len(pickle.dumps(report.ledgers, protocol=5)) / n
        kept = sum(array.nbytes for part in state for array in part.values()) / n
        rows.append({**here, "order_kb": out / 1e3, "delta_kb": back / 1e3, "ledger_bytes": ledger, "state_bytes": kept})
    return rows


def memory(quick: bool) -> list[Row]:
    """Peak memory of large fleets, each in a process of its own, with all that a user holds: problems, learners, history.

    Drivers plan every 25th episode here, which takes less time and more memory: their plans are kept.
    """
    rows = []
    for world, full, options in (("RiverSwim", 100_000, {}), ("lane driving", 10_000, {"replan": 25})):
        n, episodes = (20, 10) if quick else (full, 100)
        code = f"from fleets import make\nimport cede\nmdps, learners = make({world!r}, {n}, **{options})\n"
        code += f"cede.simulate_fleet(mdps, cede.Fleet(learners), {episodes}, evaluate_every={episodes}, progress=False)"
        rows.append({"section": "memory", "world": world, "teams": n, "episodes": episodes, "gib": peak_memory(code), **options})
        print(rows[-1], flush=True)
    return rows


def write(path: Path, date: str, facts: Row, rows: list[Row]) -> Path:
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    lines = [f"# Fleets, {date}", "", f"{facts['processor']}, {facts['cores']} cores; Python {facts['python']}; {packages}.", ""]
    lines += ["Medians of repeats, all sizes in turn. Planning, exact evaluation, playing and counting in every episode.", ""]
    lines += ["| world | teams | team-episodes/s, one core | microseconds each | against 1,000 teams |", "|---|---|---|---|---|"]
    for row in (row for row in rows if row["section"] == "throughput"):
        speed = f"{1e6 / row['us']:,.0f} | {row['us']:,.1f} | {row['ratio']:.2f}"
        lines.append(f"| {row['world']} | {row['teams']:,} | {speed} |")
    lines += ["", "| two workers for one, RiverSwim | speed-up | asked for |", "|---|---|---|"]
    for row in (row for row in rows if row["section"] == "workers"):
        asked = "" if row["what"].startswith("the machine") else ">= 1.6"
        lines.append(f"| {row['what']} | {row['speed_up']:.2f} | {asked} |")
    lines += ["", "| world | teams | episodes | order, kB | delta, kB | ledger per team, bytes | state per team, bytes |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for row in (row for row in rows if row["section"] == "messages"):
        sizes = f"{row['order_kb']:.1f} | {row['delta_kb']:.1f} | {row['ledger_bytes']:.0f} | {row['state_bytes']:.0f}"
        lines.append(f"| {row['world']} | {row['teams']:,} | {row['episodes']} | {sizes} |")
    lines += ["", "| memory of a whole process | teams | episodes each | GiB at most | asked for |", "|---|---|---|---|---|"]
    for row in (row for row in rows if row["section"] == "memory"):
        how = f", a plan every {row['replan']} episodes, kept" if "replan" in row else ""
        lines.append(f"| {row['world']}{how} | {row['teams']:,} | {row['episodes']} | {row['gib']:.2f} | <= 8 GiB |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def draw(path: Path, rows: list[Row], facts: Row) -> Path:
    plt = pyplot()
    picture, axes = plt.subplots(figsize=(5.0, 3.2), layout="constrained")
    for world, colour, line in (("RiverSwim", "#D55E00", "-"), ("lane driving", "#0072B2", "--")):
        here = [row for row in rows if row["section"] == "throughput" and row["world"] == world]
        axes.plot([r["teams"] for r in here], [r["us"] for r in here], color=colour, linestyle=line, marker="o", label=world)
    axes.set(xscale="log", yscale="log", xlabel="teams", ylabel="microseconds per team and episode")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E5E5E5")
    axes.legend(frameon=False)
    picture.text(0.5, -0.03, f"{facts['processor']}, one core.", ha="center", va="top", fontsize=7, color="#555555")
    picture.savefig(path, dpi=200, bbox_inches="tight")
    plt.close(picture)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats, small fleets")
    parser.add_argument("--memory", action="store_true", help="also the memory of two large fleets")
    parser.add_argument("--repeats", type=int, default=3, help="of every measurement")
    given = parser.parse_args()
    facts, repeats = machine(), 1 if given.quick else given.repeats
    rows = []
    for section in (
        lambda: throughput(QUICK if given.quick else SIZES, repeats),
        lambda: workers(given.quick, repeats),
        lambda: messages(given.quick),
        lambda: memory(given.quick) if given.memory else [],
    ):
        rows += section()
        print(*rows[-1:], flush=True)
    out = Path("out/bench") if given.quick else Path(__file__).parent / "results"
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    out.mkdir(parents=True, exist_ok=True)
    stem = out / f"{date}-fleets"
    save(stem.with_suffix(".json"), {"date": date, "quick": given.quick, "repeats": repeats, "machine": facts, "rows": rows})
    print(write(stem.with_suffix(".md"), date, facts, rows).read_text())
    draw(stem.with_suffix(".png"), rows, facts)


if __name__ == "__main__":
    main()
