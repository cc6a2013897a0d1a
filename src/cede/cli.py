"""The command line: each command is a few lines over the library. Heavy imports happen inside commands, so that --help is quick."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cede._base.terminal import clear_errors, print_table, say
from cede.serve.commands import add_commands

app = typer.Typer(
    help="cede learns who should be in control.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Out = Annotated[Path, typer.Option(help="Directory for pictures and tables.")]
Jobs = Annotated[int, typer.Option(help="How many runs to compute at the same time.", min=1)]
Seed = Annotated[int, typer.Option(help="Random seed: the same seed gives the same numbers.", min=0)]
LearnMachine = Annotated[
    bool,
    typer.Option(
        "--learn-machine", help="Lane driving: learn the machine's policy, too; without this it is known, as in the paper."
    ),
]
Structured = Annotated[
    bool, typer.Option("--structured", help="Tell the learner which states, and which pairs of state and action, behave alike.")
]


class World(StrEnum):
    """The problems that come with cede."""

    riverswim = "riverswim"
    lane_driving = "lane-driving"


class Method(StrEnum):
    """The learners, as in cede.ucrl2_mc, ...; ucrl2-same-form is ucrl2 with radius="same-form"."""

    recommended = "recommended"
    ucrl2_mc = "ucrl2-mc"
    posterior_sampling = "posterior-sampling"
    ucrl2 = "ucrl2"
    ucrl2_same_form = "ucrl2-same-form"
    greedy = "greedy"


class Radii(StrEnum):
    """The radii of confidence sets: as printed, balls of relative entropy, Bernstein's intervals, the authors' schedule, or small
    constant scales.
    """

    printed = "printed"
    kl = "kl"
    bernstein = "bernstein"
    authors = "authors"
    small = "small"


class Engines(StrEnum):
    """Where the teams of a fleet run."""

    threads = "threads"
    processes = "processes"
    ray = "ray"


class Ways(StrEnum):
    """How learners plan."""

    full = "full"
    greedy = "greedy"


def show_version(wanted: bool) -> None:
    """Print the version and exit, if that is wanted."""
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
    """Let the recommended learner share a car, run a support desk and welcome a new driver; write a page. Takes half a minute."""
    with clear_errors():
        from cede.experiments.demo import make_demo
        from cede.experiments.figure import Options

        page = make_demo(Options(seed=seed, jobs=jobs, out=out, overwrite=True), say)
    say(f"page: {page}")


@app.command()
def figure(
    names: Annotated[list[str], typer.Argument(help="Names of figures, or all.", metavar="NAME...|all")],
    quick: Annotated[bool, typer.Option("--quick", help="Run few episodes, in seconds; the picture says so.")] = False,
    episodes: Annotated[int | None, typer.Option(help="Number of episodes of each run, instead of the paper's.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Number of repeats with different seeds, instead of the paper's.")] = None,
    seed: Seed = 0,
    jobs: Jobs = 2,
    out: Annotated[
        Path | None, typer.Option(help="Directory for pictures and tables; by default out/figures, with --quick out/quick.")
    ] = None,
    radii: Annotated[str | None, typer.Option(help="For many-teams only: radii printed, schedule (default) or constant.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace tables in the directory that are of runs with other options.")
    ] = False,
) -> None:
    """Run experiments of the paper and draw their figures. An interrupted run continues where it stopped."""
    where = out or Path("out/quick" if quick else "out/figures")
    chosen = {"quick": quick, "episodes": episodes, "repeats": repeats, "seed": seed, "jobs": jobs, "out": where}
    run_figures(names, {**chosen, "radii": radii, "overwrite": overwrite})


@app.command()
def claims(
    out: Annotated[Path, typer.Option(help="Directory with the tables of figures.")] = Path("out/figures"),
    page: Annotated[Path | None, typer.Option(help="A Markdown page whose table of verdicts is brought up to date.")] = None,
) -> None:
    """List the claims of the paper, each with what was measured and a verdict, from the tables in a directory."""
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
        if page is not None:
            rows = load_table(out / "claims.csv", as_text=True)
            write_whole(page, experiment.with_verdicts(page.read_text(encoding="utf-8"), rows))
            say(f"verdicts written to {page}")
        say(f"report: {report}")


def run_figures(names: list[str], chosen: dict[str, Any]) -> None:
    """Run figures by name, draw them, and write the report. chosen: the fields of `experiments.figure.Options`."""
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
    context: typer.Context,
    world: Annotated[World, typer.Argument(help="The problem.")],
    teams: Annotated[
        int, typer.Option(help="Number of teams; each has its own agents, drawn at random as in the paper.", min=1)
    ] = 10,
    episodes: Annotated[int, typer.Option(help="Number of episodes of every team.", min=1)] = 500,
    method: Annotated[Method, typer.Option(help="The learner.")] = Method.ucrl2_mc,
    radii: Annotated[
        Radii | None,
        typer.Option(help="Radii, as for `cede learn`; by default printed in RiverSwim, the authors' in lane driving."),
    ] = None,
    control_cost: Annotated[float, typer.Option(help="Lane driving: cost of a step of human control.")] = 0.0,
    switch_cost: Annotated[float, typer.Option(help="Cost of a hand-over.")] = 0.0,
    learn_machine: LearnMachine = False,
    structured: Structured = False,
    delta: Annotated[float, typer.Option(help="Probability with which the confidence sets may fail.")] = 0.1,
    planning: Annotated[
        Ways, typer.Option(help="Make whole plans, or plan only for the states that are visited (greedy).")
    ] = Ways.full,
    replan: Annotated[
        str, typer.Option(help="When to make a new plan: every (episode), doubling (a count has doubled), or a number of episodes.")
    ] = "every",
    engine: Annotated[Engines, typer.Option(help="Where teams run; the results are the same for all.")] = Engines.threads,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster, auto or host:port; without it one is started here.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of workers; by default one for each processor.", min=1)] = None,
    sync_every: Annotated[int, typer.Option(help="Teams exchange what they have seen after so many episodes.", min=1)] = 1,
    evaluate_every: Annotated[int, typer.Option(help="Compute exact costs in every n-th episode only.", min=1)] = 1,
    checkpoint_every: Annotated[float, typer.Option(help="Least number of seconds between two checkpoints.", min=0)] = 60.0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint in the directory.")] = False,
    out: Out = Path("out/fleet"),
    seed: Seed = 0,
) -> None:
    """Let a fleet of teams learn: each team has its own policy, and all share what they see of the environment."""
    with clear_errors():
        from cede.experiments import fleet_command

        must_be_used(context, "fleet", unused_options(world, method))
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
    team: Annotated[int, typer.Option(help="For a fleet: which team, numbered from 0.", min=0)] = 0,
    by: Annotated[str | None, typer.Option(help="Group states by what a regular expression matches in their names.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Write a picture of who is in control where to this file.")] = None,
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
        print_table(f"In control in {found.episodes:,} {found.unit}", ("agent", "steps", "share"), rows)
        rows = []
        for group in found.groups:
            cost = "" if group.cost is None else f"{group.cost[0]:.2f} to {group.cost[1]:.2f}"
            rows.append((group.name, f"{group.states:,}", *(f"{share:.0%}" for share in group.shares), cost))
        print_table("Who is in control where", ("states", "number", *found.agents, found.cost_of), rows)
        if found.widest:
            rows = [(row.layer, row.place, f"{row.visits:,.0f}", f"{row.width:.2f}") for row in found.widest]
            print_table("Where belief is still wide, most visited first", ("belief", "where", "visits", "width"), rows)
        for warning in found.warnings:
            say(f"warning: {warning}")
        if picture is not None:
            say(f"picture: {found.draw(picture)}")


@app.command()
def learn(
    context: typer.Context,
    world: Annotated[World, typer.Argument(help="The problem.")],
    method: Annotated[Method, typer.Option(help="The learner.")] = Method.ucrl2_mc,
    radii: Annotated[
        Radii,
        typer.Option(
            help="Radii: as printed, of relative entropy (kl), Bernstein's, the authors' schedule, or scaled by small constants."
        ),
    ] = Radii.printed,
    episodes: Annotated[int, typer.Option(help="Number of episodes.", min=1)] = 2000,
    agents: Annotated[
        str, typer.Option(help="RiverSwim: the probability of swimming right, for each agent, with commas between.")
    ] = "0.3,0.7",
    control_cost: Annotated[float, typer.Option(help="Lane driving: cost of a step of human control.")] = 0.0,
    switch_cost: Annotated[float, typer.Option(help="Cost of a hand-over.")] = 0.0,
    learn_machine: LearnMachine = False,
    structured: Structured = False,
    at_most: Annotated[
        list[str] | None, typer.Option(help="The most that an agent's share of the steps may be, as in human=0.05.")
    ] = None,
    at_least: Annotated[
        list[str] | None, typer.Option(help="The least that an agent's share of the steps may be, as in human=0.05.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="An agent; the learner must never be much worse than this agent alone.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="With --baseline: the part of the baseline's cost that the learner may lose.")] = 0.1,
    takeover_delay: Annotated[
        list[str] | None, typer.Option(help="Number of steps that an agent needs to take over, as in human=2.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability with which the confidence sets may fail.")] = 0.1,
    planning: Annotated[
        Ways, typer.Option(help="Make whole plans, or plan only for the states that are visited (greedy).")
    ] = Ways.full,
    replan: Annotated[
        str, typer.Option(help="When to make a new plan: every (episode), doubling (a count has doubled), or a number of episodes.")
    ] = "every",
    evaluate_every: Annotated[int, typer.Option(help="Compute the exact cost in every n-th episode only.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Number of threads for one plan; more than one pays for large problems.", min=1)] = 1,
    save: Annotated[str | None, typer.Option(help="Write the learner to this file, for `cede show` and `cede.load`.")] = None,
    seed: Seed = 0,
) -> None:
    """Let a learner run in one of the two problems, and compare it with each agent alone and with the best possible."""
    import cede

    with clear_errors():
        from cede._base.archive import check_writable

        unused = unused_options(world, method) | ({"alpha": "without --baseline"} if baseline is None else {})
        must_be_used(context, "learn", unused)
        where = None if save is None else check_writable("learn", "--save", save)  # now, not after an hour of learning
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
    print_table(
        f"{world.value}, {episodes:,} episodes", ("learner", "cost per episode", "total regret", "control", "hand-overs"), rows
    )
    say(", ".join(f"{key}: {value}" for key, value in history.settings.items()))
    if where is not None:
        with clear_errors():
            learner.save(where)
        say(f"written: {where}")


def unused_options(world: World, method: Method) -> dict[str, str]:
    """Return the options that have no effect in a problem or with a learner, each with the words why."""
    unused: dict[str, str] = {}
    if world is World.riverswim:
        unused |= {"control_cost": "in RiverSwim, where there is no human", "learn_machine": "in RiverSwim, which has no machine"}
    else:
        unused |= {"agents": "in lane driving, where they are a machine and a human"}
    if method in (Method.greedy, Method.posterior_sampling):
        unused |= dict.fromkeys(("delta", "radii"), f"with {method.value}, which has no confidence sets")
    if method is Method.recommended:
        unused |= dict.fromkeys(("delta", "radii"), "with recommended, whose sets are calibrated from the data")
    return unused


def must_be_used(context: typer.Context, command: str, unused: Mapping[str, str]) -> None:
    """Refuse options that were given and would have no effect. unused: such options, each with the words why."""
    for name, why in unused.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{command}: {option} is given, must be left out {why}: it would have no effect")


def make_world(world: World, agents: str, control_cost: float, switch_cost: float) -> Any:
    """Return the TwoLayerMDP of a problem by its name. agents: for RiverSwim, probabilities of swimming right, as in "0.3,0.7"."""
    import cede

    if world is World.lane_driving:
        return cede.worlds.lane_driving(control_cost=control_cost, switch_cost=switch_cost)
    try:
        chances = [float(part) for part in agents.split(",")]
    except ValueError:
        raise ValueError(f"learn: --agents is {agents!r}, must be numbers with commas between, as in 0.3,0.7") from None
    return cede.worlds.riverswim(agents=chances, switch_cost=switch_cost)


def numbers_by_name(option: str, given: list[str] | None) -> dict[str, float] | None:
    """Return numbers by name from texts as in "human=0.3"; None if there are none. option: named in errors."""
    result = {}
    for text in given or ():
        name, _, number = text.rpartition("=")
        try:
            result[name] = int(number) if number.isdecimal() else float(number)
        except ValueError:
            raise ValueError(f"learn: --{option} is {text!r}, must be a name and a number, as in human=0.3") from None
    return result or None


def slowed_down(mdp: Any, delays: dict[str, float] | None) -> Any:
    """Return the same problem with agents that need some steps to take over. delays: steps by name; None: the problem itself."""
    if delays is None:
        return mdp
    import cede

    for name in delays:
        mdp.task.agent_index("learn", "an agent of --takeover-delay", name)
    agents = [replace(agent, takeover_delay=delays.get(agent.name, 0)) for agent in mdp.team.agents]
    return cede.TwoLayerMDP(mdp.environment, cede.Team(agents, mdp.team.switch_cost), mdp.horizon, mdp.start_agent, mdp.structure)


def row_of(name: str, history: Any) -> tuple[str, ...]:
    """Return a row of the table of results: name, mean cost, total regret, shares of control, hand-overs per episode.

    Cost, shares and hand-overs are those of the last tenth of the episodes.
    """
    tail = slice(-max(1, len(history.cost) // 10), None)
    shares = history.control[tail].sum(axis=0) / history.control[tail].sum()
    control = ", ".join(f"{agent} {share:.0%}" for agent, share in zip(history.agents, shares, strict=True))
    cost, switches = history.expected_cost[tail].mean(), history.switches[tail].mean()
    return name, f"{cost:.4f}", f"{history.regret[-1]:,.1f}", control, f"{switches:.1f}"


add_commands(app)

if __name__ == "__main__":
    app()
