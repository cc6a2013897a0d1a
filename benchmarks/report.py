"""The benchmarks as a table to read and a plot to look at."""

from pathlib import Path
from typing import Any

from cede._base.extras import pyplot

Row = dict[str, Any]


def write_table(path: Path, date: str, facts: Row, rows: list[Row]) -> Path:
    lines = [f"# Benchmarks, {date}", ""]
    caches = ", ".join(f"{level} {size}" for level, size in facts["caches"].items())
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    lines += [
        f"{facts['processor']}, {facts['cores']} cores, caches {caches}; {facts['system']}, Python {facts['python']}; {packages}."
    ]
    lines += ["Medians of interleaved repeats. Ratios are of wall time; that of CPU time stands beside. Made by `make bench`.", ""]
    ratios = [row for row in rows if "ratio" in row]
    lines += ["| what | against | | ratio | CPU ratio | asked for | ms |", "|---|---|---|---|---|---|---|"]
    for row in ratios:
        numbers = f"{row['ratio']:.3g} | {row['cpu_ratio']:.3g} | {row['target']} | {row['wall_ms']:.3g}"
        lines.append(f"| {row['what']} | {row['against']} | times {row['better']} | {numbers} |")
    lines += [
        "",
        "## How cost grows",
        "",
        "| states | non-zeros | plain, ns per non-zero | from scratch | again |",
        "|---|---|---|---|---|",
    ]
    for first, again in growth(rows):
        ns = f"{first['plain_ns']:.2f} | {first['ns_per_nonzero']:.2f} | {again['ns_per_nonzero']:.2f}"
        lines.append(f"| {first['states']:,} | {first['nonzeros']:,} | {ns} |")
    lines += ["", "## Episodes per second on one core, everything included", ""]
    lines += ["| world, learner | episodes/s | microseconds | CPU | share in kernels |", "|---|---|---|---|---|"]
    for row in rows:
        if row["section"] == "episodes":
            times = f"{row['per_second']:,.0f} | {row['wall_us']:,.1f} | {row['cpu_us']:,.1f} | {row['kernel_share']:.0%}"
            lines.append(f"| {row['what']} | {times} |")
    lines += ["", "## Peak memory", "", "| what | GiB | asked for |", "|---|---|---|"]
    lines += [f"| {row['what']} | {row['gib']:.2f} | {row['target']} |" for row in rows if row["section"] == "memory"]
    lines += ["", "## Start-up", "", "| what | seconds |", "|---|---|"]
    lines += [f"| {row['what']} | {row['seconds']:.2f} |" for row in rows if row["section"] == "start-up"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def growth(rows: list[Row]) -> list[tuple[Row, Row]]:
    """Pairs (from scratch, planned again) of the random problems, by size."""
    found = [row for row in rows if row["section"] == "planner" and row["what"].startswith("random")]
    return list(zip(found[::2], found[1::2], strict=True))


def draw_growth(path: Path, rows: list[Row], facts: Row) -> Path:
    plt = pyplot()
    picture, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.3), layout="constrained")
    pairs = growth(rows)
    states = [first["states"] for first, _ in pairs]
    curves = {
        "plain compiled backup": ("#555555", ":", [f["plain_ns"] for f, _ in pairs]),
        "optimistic plan, from scratch": ("#D55E00", "-", [f["ns_per_nonzero"] for f, _ in pairs]),
        "optimistic plan, planned again": ("#0072B2", "--", [a["ns_per_nonzero"] for _, a in pairs]),
    }
    for label, (colour, line, ns) in curves.items():
        seconds = [n * f["nonzeros"] * 60 / 1e9 for n, (f, _) in zip(ns, pairs, strict=True)]  # 3 agents, 20 steps
        left.plot(states, seconds, color=colour, linestyle=line, marker="o", markersize=3, label=label)
        right.plot(states, ns, color=colour, linestyle=line, marker="o", markersize=3, label=label)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("states (40 non-zeros each)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#E5E5E5")
    left.set_yscale("log")
    left.set_ylabel("seconds per plan")
    left.legend(frameon=False, fontsize=8)
    right.set_ylabel("ns per non-zero, agent and step")
    right.set_ylim(0, None)
    note = f"4 actions, 3 unknown agents, 10 successors anywhere, horizon 20. {facts['processor']}, one thread. Time grows with the"
    picture.text(
        0.5, -0.06, f"{note} non-zeros;\nwhat is not linear is the caches.", ha="center", va="top", fontsize=7, color="#555555"
    )
    picture.savefig(path, dpi=200, bbox_inches="tight")
    plt.close(picture)
    return path
