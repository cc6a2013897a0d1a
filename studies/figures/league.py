"""Figure `league`: the learners in ten worlds that differ in what is hard, told nothing, beside PPO and DQN of Stable-Baselines3.

The rivals' runs come from a table beside the figure's own, `rivals.csv`, which `python -m studies.rivals_table` makes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from studies import style
from studies.drawing import finish
from studies.figure import Figure, Options, Part, Row
from studies.files import write_whole
from studies.runs.league import LEARNERS
from studies.runs.league_worlds import WORLDS
from studies.statistics import half_width
from studies.tables import all_rows, load_table, select, values

STEPS, QUICK_STEPS = 20_000, 600
REPEATS = {"recommended": 10}  # of the others so many:
OTHER_REPEATS = 5
QUICK_WORLDS = ("FrozenLake 4x4", "RiverSwim", "support desk")
RIVALS_FILE = "rivals.csv"
OURS = "recommended"  # the one that is emphasised
NEAR = 0.05  # so near to the best possible is near enough
STUCK = 0.25  # a policy that costs this part more than the best one at the end is stuck
LOOKS: dict[str, tuple[str, Any]] = {  # colour and line of each
    "recommended": (style.RED, "-"),
    "posterior sampling": (style.BLUE, (0, (4, 1.5))),
    "UCRL2-MC, scaled 0.1, 0.01": (style.PINK, (0, (5, 1, 1, 1))),
    "UCRL2-MC, KL": (style.ORANGE, "-"),
    "PPO": (style.GREEN, (0, (1, 1))),
    "PPO, sees the time": (style.SKY, "-"),
    "DQN": ("#333333", (0, (1, 1))),
}


def parts(options: Options) -> list[Part]:
    steps, result = options.choose("episodes", STEPS, QUICK_STEPS), []
    for world in QUICK_WORLDS if options.quick else WORLDS:
        for name in LEARNERS:
            for seed in options.seeds(REPEATS.get(name, OTHER_REPEATS), 2):
                arguments = {"world": world, "learner": name, "steps": steps, "seed": seed}
                result.append(Part("runs.league:one_run", arguments, steps, f"{world}, {name}"))
    return result


def steps_until(run: Sequence[Row], part: float) -> float:
    """Return after how many steps the policy cost at most that part more than the best one, and stayed so; infinity if never.

    run: the looks at one run, in order. A part of a negative cost is one of its size.
    """
    limit = run[0]["optimum"] + part * abs(run[0]["optimum"])
    bad = [i for i, row in enumerate(run) if row["cost"] > limit]
    after = bad[-1] + 1 if bad else 0
    return float(run[after]["steps"]) if after < len(run) else np.inf


def runs_of(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the looks of each seed."""
    return [select(rows, seed=seed) for seed in values(rows, "seed")]


def with_rivals(rows: Sequence[Row], path: Path) -> list[Row]:
    """Return the rows of the table and those of the rivals in the same worlds, if there is a table of theirs."""
    best = {row["world"]: row["optimum"] for row in rows}
    rivals = load_table(path) if path.exists() else []
    return [*rows, *({**row, "learner": row["rival"], "optimum": best[row["world"]]} for row in rivals if row["world"] in best)]


def standing(rows: Sequence[Row]) -> Row:
    """Return what one learner did in one world: regret, end, steps to within 10% and 5%, runs that were stuck, processor time."""
    runs = runs_of(rows)
    ends = [run[-1] for run in runs]
    gaps = np.array([(end["cost"] - end["optimum"]) / abs(end["optimum"]) for end in ends])
    regret = np.array([[end.get("regret", np.nan) for end in ends]])
    return {
        "learner": rows[0]["learner"],
        "runs": len(runs),
        "regret": float(regret.mean()),
        "half_width": float(half_width(regret)[0]),
        "gap": float(gaps.mean()),
        "stuck": int((gaps > STUCK).sum()),
        "within 10%": float(np.median([steps_until(run, 0.1) for run in runs])),
        "within 5%": float(np.median([steps_until(run, 0.05) for run in runs])),
        "latest 5%": max(steps_until(run, 0.05) for run in runs),
        "first look": max(run[0]["steps"] for run in runs),
        "seconds": float(np.mean([end["seconds"] for end in ends])),
    }


def standings(rows: Sequence[Row], world: str) -> list[Row]:
    """Return what each learner did in a world."""
    here = select(rows, world=world)
    return [standing(select(here, learner=name)) for name in values(here, "learner")]


def shown(steps: float, first_look: float) -> str:
    """Return a number of steps as text; what was so at the first look may have been so before."""
    return "never" if np.isinf(steps) else f"{'at most ' if steps <= first_look else ''}{steps:,.0f}"


def as_markdown(rows: Sequence[Row], steps: int) -> str:
    """Return all standings as one table of Markdown."""
    head = "| world | learner | regret | end | stuck | to 10% | to 5% | latest 5% | seconds |"
    lines = [head, "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for world in values(rows, "world"):
        for one in standings(rows, world):
            regret = "" if np.isnan(one["regret"]) else f"{one['regret']:,.1f} ± {one['half_width']:,.1f}"
            cells = [regret, f"{one['gap']:+.1%}", f"{one['stuck']} of {one['runs']}"]
            cells += [shown(one[name], one["first look"]) for name in ("within 10%", "within 5%", "latest 5%")]
            lines.append(f"| {world} | {one['learner']} | {' | '.join(cells)} | {one['seconds']:.1f} |")
    note = (
        f"{steps:,} steps in each world. Regret: of all that was done, with its 95% interval. End: how much more than the best "
        "possible the policy to deploy costs, at the end. Stuck: runs in which that is more than 25%. To 10%, to 5%: steps until "
        "it costs at most so much more than the best, and stays so (median over runs; of the slowest run). Seconds: processor."
    )
    return "\n".join([*lines, "", note, ""])


def overall(rows: Sequence[Row]) -> str:
    """Return a short table of Markdown: steps until the policy to deploy is within 5% of the best, and stays so, by world; of the
    rivals that of the better one. Medians over runs.
    """
    ours = [name for name in values(rows, "learner") if name in LEARNERS]
    head = ["| world |", *(f" {name} |" for name in ours), " the better of PPO and DQN |"]
    lines = ["".join(head), "|---|" + "---:|" * (len(ours) + 1)]
    for world in values(rows, "world"):
        found = {one["learner"]: (one["within 5%"], one["first look"]) for one in standings(rows, world)}
        rivals = min((one for name, one in found.items() if name not in ours), default=(np.inf, 0.0))
        lines.append(f"| {world} | {' | '.join(shown(*found[name]) for name in ours)} | {shown(*rivals)} |")
    return "\n".join(lines) + "\n"


def draw_world(axes: Any, rows: Sequence[Row], world: str) -> None:
    """Draw what the policy to deploy costs, over steps: for each learner the mean over runs; of ours, also the range of all runs.

    The scale is linear up to the mark of 5% and logarithmic above.
    """
    best = rows[0]["optimum"]
    for name in reversed(values(rows, "learner")):
        colour, line = LOOKS[name]
        runs = runs_of(select(rows, learner=name))
        n = min(len(run) for run in runs)
        x = np.mean([[row["steps"] for row in run[:n]] for run in runs], axis=0)
        y = np.array([[(row["cost"] - best) / abs(best) for row in run[:n]] for run in runs])
        axes.plot(x, y.mean(axis=0), color=colour, linestyle=line, linewidth=2.0 if name == OURS else 1.1, label=name)
        if name == OURS:
            axes.fill_between(x, y.min(axis=0), y.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    axes.axhline(NEAR, color="#666666", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=NEAR, linscale=0.6)
    axes.set_ylim(-0.002, 5)
    axes.set_yticks((0, NEAR, 0.2, 1, 5), ("0%", f"{NEAR:.0%}", "20%", "100%", "500%"))
    axes.minorticks_off()
    axes.set_title(world, loc="left")


def draw(rows: list[Row], path: Path) -> list[Path]:
    everybody = with_rivals(rows, path.with_name(RIVALS_FILE))
    worlds = values(everybody, "world")
    columns = min(len(worlds), 3)
    lines = -(-len(worlds) // columns)
    picture, panels = style.figure(
        columns, rows=lines, width=style.WIDTH, height=1.75 * lines + 0.5, squeeze=False, sharex=True, sharey=True
    )
    for axes in panels.flat[len(worlds) :]:
        axes.set_visible(False)
    for i, (axes, world) in enumerate(zip(panels.flat, worlds, strict=False)):
        draw_world(axes, select(everybody, world=world), world)
        if i >= len(worlds) - columns:
            axes.set_xlabel("steps")
            axes.tick_params(labelbottom=True)
    for axes in panels[:, 0]:
        axes.set_ylabel("cost above the best")
    handles = {label: handle for axes in panels.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    shown_names = [name for name in LOOKS if name in handles]
    picture.legend([handles[name] for name in shown_names], shown_names, loc="outside upper center", ncols=4)
    write_whole(path.with_suffix(".md"), overall(everybody) + "\n" + as_markdown(everybody, rows[0]["episodes"]))
    note = "What the policy to deploy costs above the best possible: means over runs; shade: all runs of recommended. Linear up "
    note += f"to the line at {NEAR:.0%}, logarithmic above. All learners know sizes, costs and ends only."
    if len(everybody) > len(rows):
        note += " PPO and DQN are those of Stable-Baselines3."
    return finish(picture, [{**row, "delta": ""} for row in rows], note, path, repeats=runs_text(everybody))


def runs_text(rows: Sequence[Row]) -> str:
    """Say how many runs each learner had in a world."""
    counts = {}
    for name in values(rows, "learner"):
        mine = select(rows, learner=name)
        found = sorted({len(values(select(mine, world=world), "seed")) for world in values(mine, "world")})
        counts[name] = " or ".join(str(n) for n in found)
    same = {text: [name for name in counts if counts[name] == text] for text in dict.fromkeys(counts.values())}
    return "runs in a world: " + ", ".join(f"{text} of {' / '.join(names)}" for text, names in same.items())


FIGURE = Figure(
    "league",
    "Ten worlds without declared knowledge",
    "Which learner is a good first choice if only sizes, costs and terminal states are known? The curves show the cost of the "
    "policy to deploy over steps, for cede's learners and for PPO and DQN as switching policies.",
    parts,
    all_rows,
    draw,
)
