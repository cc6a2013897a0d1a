"""`cede learn`: compare a learner with each agent alone. `cede compare`: compare learners with one another."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cede.cli.terminal import (
    Command,
    CommandGroup,
    LearnMachine,
    ListsSets,
    Method,
    Seed,
    Structured,
    Ways,
    clear_errors,
    flag,
    must_be_used,
    print_table,
    say,
    say_settings,
    unused_options,
)

commands = typer.Typer(cls=CommandGroup)


@commands.command(cls=ListsSets)
def learn(
    context: typer.Context,
    world: Annotated[
        str, typer.Argument(help="support-desk, lane-driving, riverswim, relay, or a world that an installed package registers.")
    ],
    method: Annotated[Method, typer.Option(help="The learner.")] = Method.recommended,
    radii: Annotated[str, typer.Option(help="Confidence sets: a name of the list below.")] = "printed",
    episodes: Annotated[int, typer.Option(help="Number of episodes.", min=1)] = 2000,
    agents: Annotated[
        str | None,
        typer.Option(help="RiverSwim: the probability of swimming right, for each agent, with commas between; else 0.3,0.7."),
    ] = None,
    control_cost: Annotated[
        float | None, typer.Option(help="Cost of a step of control, where the world has that option; else the world's own.")
    ] = None,
    switch_cost: Annotated[
        float | None, typer.Option(help="Cost of a hand-over, where the world has that option; else the world's own.")
    ] = None,
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
    evaluate_every: Annotated[int, typer.Option(help="Compute the exact cost in one of every n episodes only.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Number of threads for one plan; more than one pays for large problems.", min=1)] = 1,
    save: Annotated[str | None, typer.Option(help="Write the learner to this file, for `cede show` and `cede.load`.")] = None,
    seed: Seed = 0,
) -> None:
    """Run a learner in a problem, and compare it with each agent alone and with the best possible."""
    import cede

    with clear_errors():
        from cede._base.archive import check_writable
        from cede.worlds.by_name import world_function

        unused = unused_options(world, world_function("learn", "world", world), method)
        unused |= {"alpha": "without --baseline"} if baseline is None else {}
        must_be_used(context, "learn", unused)
        where = None if save is None else check_writable("learn", "--save", save)  # now, not after an hour of learning
        problem = make_world(world, agents, control_cost, switch_cost)
        if structured and problem.structure is None:
            raise ValueError(f"learn: --structured is given, must be left out in {world}, which declares no structure")
        mdp = slowed_down(problem, numbers_by_name("takeover-delay", takeover_delay))
        from cede.cli.methods import make_learner
        from cede.planning.passes import set_threads

        ways: dict[str, Any] = {"planning": planning.value, "replan": int(replan) if replan.isdecimal() else replan}
        ways |= {"known": ["machine"] if world == "lane-driving" and not learn_machine else [], "structured": structured}
        ways |= {"at_most": numbers_by_name("at-most", at_most), "at_least": numbers_by_name("at-least", at_least)}
        ways |= {} if baseline is None else {"baseline": baseline, "alpha": alpha, "start": mdp.environment.start}
        learner = make_learner(mdp, method.value, delta, radii, episodes, seed, **ways)
        set_threads(threads)
        history = cede.simulate(mdp, learner, episodes, seed=seed, evaluate_every=evaluate_every)
        rows = [row_of(learner.about["learner"], history)]
        for name in mdp.task.members:
            rows.append(row_of(f"{name} alone", cede.simulate(mdp, cede.fixed(mdp.task, name), episodes, seed=seed)))
        within = " within limits" if at_most or at_least else ""
        rows.append((f"best possible{within}", f"{history.optimum:.4f}", "0.0", "", ""))
    print_table(
        f"{world}, {episodes:,} episodes; all but regret: of the last tenth",
        ("learner", "cost per episode", "total regret", "control", "hand-overs"),
        rows,
    )
    say_settings(history.settings)
    if where is not None:
        with clear_errors():
            learner.save(where)
        say(f"written: {where}")


@commands.command(cls=Command)
def compare(
    study: Annotated[Path, typer.Argument(help="A file such as examples/study.toml: worlds, learners, episodes, repeats, seed.")],
    out: Annotated[Path, typer.Option(help="Directory for results; an interrupted study continues there.")] = Path("out/study"),
    jobs: Annotated[int | None, typer.Option(help="Number of workers; by default one for each processor.", min=1)] = None,
    overwrite: Annotated[
        bool, flag("--overwrite", help="Replace the results of another study in the directory; its runs are kept.")
    ] = False,
) -> None:
    """Compare learners on worlds with paired seeds: a table with intervals and a test, a figure, and all numbers."""
    with clear_errors():
        from cede.comparison.compare import run_study

        result, files = run_study(study, out, jobs=jobs, overwrite=overwrite)
        for line in str(result.table()).splitlines():
            say(line)
        for path in files:
            say(f"written: {path}")


def make_world(world: str, agents: str | None, control_cost: float | None, switch_cost: float | None) -> Any:
    """Return the TwoLayerMDP of a problem by its name. None stands for the world's default.

    agents: for RiverSwim, probabilities of swimming right, as in "0.3,0.7".
    """
    from cede.worlds.by_name import made_world

    costs = {"control_cost": control_cost, "switch_cost": switch_cost}
    options: dict[str, Any] = {name: cost for name, cost in costs.items() if cost is not None}
    if agents is not None:
        try:
            options["agents"] = [float(part) for part in agents.split(",")]
        except ValueError:
            raise ValueError(f"learn: --agents is {agents!r}, must be numbers with commas between, as in 0.3,0.7") from None
    mdp = made_world("learn", world, options)
    if mdp.horizon is None:
        raise ValueError(f"learn: the horizon of {world} is None, must be a number of steps: episodes are played")
    return mdp


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
    """Return the problem with agents that need some steps to take over. delays: steps by name; None: the problem as it is."""
    if delays is None:
        return mdp
    import cede

    for name in delays:
        mdp.task.agent_index("learn", "an agent of --takeover-delay", name)
    agents = [replace(agent, takeover_delay=delays.get(agent.name, 0)) for agent in mdp.team.agents]
    team = cede.Team(agents, mdp.team.switch_cost, mdp.team.grab_cost)
    return cede.TwoLayerMDP(mdp.environment, team, mdp.horizon, mdp.start_agent, mdp.structure)


def row_of(name: str, history: Any) -> tuple[str, ...]:
    """Return a row of the table of results: name, mean cost, total regret, shares of control, hand-overs per episode.

    Cost, shares and hand-overs are those of the last tenth of the episodes.
    """
    tail = slice(-max(1, len(history.cost) // 10), None)
    shares = history.control[tail].sum(axis=0) / history.control[tail].sum()
    control = ", ".join(f"{agent} {share:.0%}" for agent, share in zip(history.agents, shares, strict=True) if share)
    cost, switches = history.expected_cost[tail].mean(), history.switches[tail].mean()
    return name, f"{cost:.4f}", f"{history.regret[-1]:,.1f}", control, f"{switches:.1f}"
