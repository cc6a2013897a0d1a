"""The command line: each command a few lines over the library. Heavy imports happen inside, so that --help is quick."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="cede learns who should be in control.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Out = Annotated[Path, typer.Option(help="Directory for pictures and tables.")]
Jobs = Annotated[int, typer.Option(help="Runs side by side.", min=1)]
Seed = Annotated[int, typer.Option(help="Same seed, same numbers.", min=0)]
LearnMachine = Annotated[
    bool, typer.Option("--learn-machine", help="Lane driving: learn the machine too; it is known otherwise, as in the paper.")
]
Structured = Annotated[bool, typer.Option("--structured", help="Tell the learner which situations are alike.")]


class World(StrEnum):
    riverswim = "riverswim"
    lane_driving = "lane-driving"


class Method(StrEnum):
    ucrl2_mc = "ucrl2-mc"
    posterior_sampling = "posterior-sampling"
    ucrl2 = "ucrl2"
    ucrl2_same_form = "ucrl2-same-form"
    greedy = "greedy"


class Radii(StrEnum):
    printed = "printed"
    bernstein = "bernstein"
    authors = "authors"
    small = "small"


class Engines(StrEnum):
    threads = "threads"
    processes = "processes"
    ray = "ray"


class Ways(StrEnum):
    full = "full"
    greedy = "greedy"


def show_version(wanted: bool) -> None:
    if wanted:
        from cede import __version__

        typer.echo(f"cede {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """cede learns who should be in control."""


@app.command()
def demo(
    seed: Seed = 0,
    jobs: Jobs = 2,
    out: Out = Path("out/demo"),
) -> None:
    """Quick runs of one team and of many teams in the obstacle task, then a page that shows them. About a minute."""
    run_figures(
        ["overview", "single-team", "many-teams"], {"quick": True, "seed": seed, "jobs": jobs, "out": out, "overwrite": True}
    )


@app.command()
def figure(
    names: Annotated[list[str], typer.Argument(help="Names of figures, or all.", metavar="NAME...|all")],
    quick: Annotated[bool, typer.Option("--quick", help="Few episodes, in seconds; says so in the picture.")] = False,
    episodes: Annotated[int | None, typer.Option(help="Episodes of each run, instead of the paper's.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Repeats with other seeds, instead of the paper's.")] = None,
    seed: Seed = 0,
    jobs: Jobs = 2,
    out: Annotated[Path | None, typer.Option(help="Directory; out/figures, or out/quick with --quick.")] = None,
    radii: Annotated[str | None, typer.Option(help="many-teams: printed, schedule (default) or constant.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace tables of other runs in the directory.")] = False,
) -> None:
    """Run experiments of the paper and draw their figures; an interrupted run goes on where it stopped."""
    where = out or Path("out/quick" if quick else "out/figures")
    chosen = {"quick": quick, "episodes": episodes, "repeats": repeats, "seed": seed, "jobs": jobs, "out": where}
    run_figures(names, {**chosen, "radii": radii, "overwrite": overwrite})


@app.command()
def claims(
    out: Annotated[Path, typer.Option(help="Directory with the tables of figures.")] = Path("out/figures"),
    readme: Annotated[Path | None, typer.Option(help="A document whose table of verdicts is made anew.")] = None,
) -> None:
    """List what the paper claims, with what was measured and a verdict, from the tables of a directory."""
    with clear_errors():
        from cede._base.archive import write_whole
        from cede.experiments import claims as experiment
        from cede.experiments.report import write_report
        from cede.experiments.tables import load_table

        report = write_report(out)
        found = experiment.all_findings(out)
        columns = ("claim", "measured", "uncertainty", "verdict", "figure")
        print_table("Claims of the paper", columns, [tuple(getattr(f, name) for name in columns) for f in found])
        missing = experiment.missing_figures(out)
        if missing:
            say(f"not run: {', '.join(missing)} (cede figure NAME --out {out})")
        if readme is not None:
            rows = load_table(out / "claims.csv", as_text=True)
            write_whole(readme, experiment.with_verdicts(readme.read_text(encoding="utf-8"), rows))
            say(f"verdicts written to {readme}")
        say(f"report: {report}")


def run_figures(names: list[str], chosen: dict[str, Any]) -> None:
    """Run, draw, report."""
    with clear_errors():
        from cede.experiments.catalogue import chosen as by_name
        from cede.experiments.figure import Options
        from cede.experiments.report import write_report
        from cede.experiments.run import run

        if chosen.get("radii") is not None and names != ["many-teams"]:
            raise ValueError("figure: radii is given, must be left out: only many-teams has a choice")
        options = Options(**chosen)
        for path in run(by_name(names), options, say):
            if path.suffix == ".png":
                say(f"picture: {path}")
        say(f"report: {write_report(options.out)}")


@app.command()
def fleet(
    world: Annotated[World, typer.Argument(help="Which problem.")],
    teams: Annotated[int, typer.Option(help="Teams, each with agents of its own, drawn as in the paper.", min=1)] = 10,
    episodes: Annotated[int, typer.Option(help="Episodes of every team.", min=1)] = 500,
    method: Annotated[Method, typer.Option(help="Which learner.")] = Method.ucrl2_mc,
    radii: Annotated[
        Radii | None, typer.Option(help="As `learn`; by default printed in RiverSwim, the authors' in lane driving.")
    ] = None,
    control_cost: Annotated[float, typer.Option(help="Lane driving: cost of a step of human control.")] = 0.0,
    switch_cost: Annotated[float, typer.Option(help="Cost of a hand-over.")] = 0.0,
    learn_machine: LearnMachine = False,
    structured: Structured = False,
    delta: Annotated[float, typer.Option(help="How likely the confidence sets may fail.")] = 0.1,
    planning: Annotated[Ways, typer.Option(help="Whole plans, or only of what is visited.")] = Ways.full,
    replan: Annotated[str, typer.Option(help="A new plan for every episode, by doubling, or every so many episodes.")] = "every",
    engine: Annotated[Engines, typer.Option(help="Where teams run; the results are the same.")] = Engines.threads,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster: auto, or host:port; else one is started here.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Workers; by default one for each processor.", min=1)] = None,
    sync_every: Annotated[int, typer.Option(help="Episodes between two exchanges of what teams have seen.", min=1)] = 1,
    evaluate_every: Annotated[int, typer.Option(help="Compute the exact cost of every n-th episode's policies.", min=1)] = 1,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between two checkpoints.", min=0)] = 60.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the directory.")] = False,
    out: Out = Path("out/fleet"),
    seed: Seed = 0,
) -> None:
    """Let a fleet of teams learn: each has a policy of its own, all share what they see of the environment."""
    with clear_errors():
        from cede.experiments import fleet_command

        settings = fleet_command.Settings(
            world=world.value,
            teams=teams,
            episodes=episodes,
            method=method.value,
            radii=radii.value if radii else ("printed" if world is World.riverswim else "authors"),
            control_cost=control_cost,
            switch_cost=switch_cost,
            learn_machine=learn_machine,
            structured=structured,
            delta=delta,
            ways={"planning": planning.value, "replan": int(replan) if replan.isdecimal() else replan},
            seed=seed,
        )
        where = {"engine": engine.value, "address": address, "jobs": jobs}
        pace = {"sync_every": sync_every, "evaluate_every": evaluate_every}
        result = fleet_command.run(settings, out, where, pace, seconds=checkpoint_every, resume=resume, say=say)
    print_table(f"{world.value}, {teams:,} teams, {episodes:,} episodes each", ("", "value"), result.summary)
    say(", ".join(f"{key}: {value}" for key, value in result.settings.items()))
    for path in result.files:
        say(f"written: {path}")


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A learner or a fleet, as learner.save or cede learn --save wrote it.")],
    team: Annotated[int, typer.Option(help="Of a fleet: which team, from 0.", min=0)] = 0,
    by: Annotated[str | None, typer.Option(help="Group states by a regular expression on their names.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Write a picture of who is in control where.")] = None,
) -> None:
    """Show what a saved learner knows: who is in control where, how often each agent was, what it costs, where belief is wide."""
    with clear_errors():
        import cede

        thing = cede.load(file)
        if isinstance(thing, cede.Fleet):
            if team >= len(thing):
                raise ValueError(f"show: --team is {team}, must be from 0 to {len(thing) - 1}: the fleet has {len(thing)} teams")
            say(f"fleet of {len(thing)} teams, {thing.environment_episodes:,} episodes; team {team}:")
            thing = thing.learners[team]
        found = cede.summarise(thing, by=by)
        say(", ".join(f"{key}: {value}" for key, value in found.settings.items()))
        total = max(sum(found.control), 1e-300)
        held = zip(found.agents, found.control, strict=True)
        rows: list[tuple[str, ...]] = [(name, f"{steps:,.0f}", f"{steps / total:.0%}") for name, steps in held]
        print_table(f"In control in {found.episodes:,} episodes", ("agent", "steps", "share"), rows)
        rows = []
        for group in found.groups:
            cost = "" if group.cost is None else f"{group.cost[0]:.2f} to {group.cost[1]:.2f}"
            rows.append((group.name, f"{group.states:,}", *(f"{share:.0%}" for share in group.shares), cost))
        print_table("Who is in control where", ("states", "number", *found.agents, "cost of an episode from here"), rows)
        if found.widest:
            rows = [(row.layer, row.place, f"{row.visits:,.0f}", f"{row.width:.2f}") for row in found.widest]
            print_table("Where belief is still wide, most visited first", ("belief", "where", "visits", "width"), rows)
        if picture is not None:
            say(f"picture: {found.draw(picture)}")


@app.command()
def learn(
    world: Annotated[World, typer.Argument(help="Which problem.")],
    method: Annotated[Method, typer.Option(help="Which learner.")] = Method.ucrl2_mc,
    radii: Annotated[
        Radii, typer.Option(help="As printed, Bernstein's, the authors' schedule, or small constants (0.1, 0.01).")
    ] = Radii.printed,
    episodes: Annotated[int, typer.Option(help="Episodes to learn for.", min=1)] = 2000,
    agents: Annotated[str, typer.Option(help="RiverSwim: each agent's probability of swimming right.")] = "0.3,0.7",
    control_cost: Annotated[float, typer.Option(help="Lane driving: cost of a step of human control.")] = 0.0,
    switch_cost: Annotated[float, typer.Option(help="Cost of a hand-over.")] = 0.0,
    learn_machine: LearnMachine = False,
    structured: Structured = False,
    at_most: Annotated[list[str] | None, typer.Option(help="Limit of an agent's share of the steps, as in human=0.05.")] = None,
    at_least: Annotated[list[str] | None, typer.Option(help="Likewise, the least share.")] = None,
    baseline: Annotated[str | None, typer.Option(help="The agent than whom alone the learner must never be much worse.")] = None,
    alpha: Annotated[float, typer.Option(help="The part of the baseline's cost that may be lost.")] = 0.1,
    takeover_delay: Annotated[list[str] | None, typer.Option(help="Steps that an agent needs to take over, as in human=2.")] = None,
    delta: Annotated[float, typer.Option(help="How likely the confidence sets may fail.")] = 0.1,
    planning: Annotated[Ways, typer.Option(help="Whole plans, or only of what is visited.")] = Ways.full,
    replan: Annotated[str, typer.Option(help="A new plan for every episode, by doubling, or every so many episodes.")] = "every",
    evaluate_every: Annotated[int, typer.Option(help="Compute the exact cost of every n-th episode's policy.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Threads for one plan; pays for large problems.", min=1)] = 1,
    save: Annotated[Path | None, typer.Option(help="Write the learner to a file, for `cede show` and `cede.load`.")] = None,
    seed: Seed = 0,
) -> None:
    """Let a learner run in one of the two worlds and show what it learned, beside each agent alone."""
    import cede

    with clear_errors():
        mdp = slowed_down(make_world(world, agents, control_cost, switch_cost), numbers_by_name("takeover-delay", takeover_delay))
        from cede.experiments.runs.methods import make_learner

        ways: dict[str, Any] = {"planning": planning.value, "replan": int(replan) if replan.isdecimal() else replan}
        ways |= {"known": ["machine"] if world is World.lane_driving and not learn_machine else [], "structured": structured}
        ways |= {"at_most": numbers_by_name("at-most", at_most), "at_least": numbers_by_name("at-least", at_least)}
        ways |= {} if baseline is None else {"baseline": baseline, "alpha": alpha, "start": mdp.environment.start}
        learner = make_learner(mdp, method.value, delta, radii.value, episodes, seed, **ways)
        cede.set_threads(threads)
        history = cede.simulate(mdp, learner, episodes, seed=seed, evaluate_every=evaluate_every)
        rows = [row_of(learner.settings["learner"], history)]
        for name in mdp.task.members:
            rows.append(row_of(f"{name} alone", cede.simulate(mdp, cede.fixed(mdp.task, name), episodes, seed=seed)))
        within = " within limits" if at_most or at_least else ""
        rows.append((f"best possible{within}", f"{history.optimum:.4f}", "0.0", "", ""))
        if save is not None:
            learner.save(save)
    print_table(
        f"{world.value}, {episodes:,} episodes", ("learner", "cost per episode", "total regret", "control", "hand-overs"), rows
    )
    say(", ".join(f"{key}: {value}" for key, value in history.settings.items()))
    if save is not None:
        say(f"written: {save}")


def make_world(world: World, agents: str, control_cost: float, switch_cost: float) -> Any:
    import cede

    if world is World.lane_driving:
        return cede.worlds.lane_driving(control_cost=control_cost, switch_cost=switch_cost)
    try:
        chances = [float(part) for part in agents.split(",")]
    except ValueError:
        raise ValueError(f"learn: --agents is {agents!r}, must be numbers with commas between, as in 0.3,0.7") from None
    return cede.worlds.riverswim(agents=chances, switch_cost=switch_cost)


def numbers_by_name(option: str, given: list[str] | None) -> dict[str, float] | None:
    """From what was typed as in human=0.3."""
    result = {}
    for text in given or ():
        name, _, number = text.rpartition("=")
        try:
            result[name] = int(number) if number.isdecimal() else float(number)
        except ValueError:
            raise ValueError(f"learn: --{option} is {text!r}, must be a name and a number, as in human=0.3") from None
    return result or None


def slowed_down(mdp: Any, delays: dict[str, float] | None) -> Any:
    """The same problem with agents who need so many steps to take over."""
    if delays is None:
        return mdp
    import cede

    for name in delays:
        mdp.task.agent_index("learn", "an agent of --takeover-delay", name)
    agents = [replace(agent, takeover_delay=delays.get(agent.name, 0)) for agent in mdp.team.agents]
    return cede.TwoLayerMDP(mdp.environment, cede.Team(agents, mdp.team.switch_cost), mdp.horizon, mdp.start_agent, mdp.structure)


def row_of(name: str, history: Any) -> tuple[str, ...]:
    """Cost of the last tenth, total regret, who controlled in the last tenth."""
    tail = slice(-max(1, len(history.cost) // 10), None)
    shares = history.control[tail].sum(axis=0) / history.control[tail].sum()
    control = ", ".join(f"{agent} {share:.0%}" for agent, share in zip(history.agents, shares, strict=True))
    cost, switches = history.expected_cost[tail].mean(), history.switches[tail].mean()
    return name, f"{cost:.4f}", f"{history.regret[-1]:,.1f}", control, f"{switches:.1f}"


class clear_errors:
    """A user's mistake ends in one line, not in a traceback."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ValueError | ImportError | OSError | MemoryError):
            typer.echo(f"error: {error or 'out of memory'}", err=True)
            raise typer.Exit(2)


def say(text: str) -> None:
    typer.echo(text)


def print_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    app()
