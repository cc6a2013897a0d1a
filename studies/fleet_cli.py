"""`python -m studies fleet`: many teams that share one environment."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cede.cli.terminal import (
    LearnMachine,
    Method,
    Out,
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


class Engines(StrEnum):
    """Where the teams of a fleet run."""

    threads = "threads"
    processes = "processes"
    ray = "ray"


def fleet(
    context: typer.Context,
    world: Annotated[str, typer.Argument(help="The problem: riverswim or lane-driving.")],
    teams: Annotated[
        int, typer.Option(help="Number of teams; each has its own agents, drawn at random as in the paper.", min=1)
    ] = 10,
    episodes: Annotated[int, typer.Option(help="Number of episodes of every team.", min=1)] = 500,
    method: Annotated[Method, typer.Option(help="The learner.")] = Method.ucrl2_mc,
    radii: Annotated[
        str | None,
        typer.Option(help="Confidence sets, by a name of the list below; by default printed, in lane driving the authors'."),
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
    evaluate_every: Annotated[int, typer.Option(help="Compute exact costs in one of every n episodes only.", min=1)] = 1,
    checkpoint_every: Annotated[float, typer.Option(help="Least number of seconds between two checkpoints.", min=0)] = 60.0,
    resume: Annotated[bool, flag("--resume", help="Continue from the checkpoint in the directory.")] = False,
    out: Out = Path("out/fleet"),
    seed: Seed = 0,
) -> None:
    """Let a fleet of teams learn: each team has its own policy, and all share what they see of the environment."""
    with clear_errors():
        from studies import fleet_run

        if world not in fleet_run.WORLDS:
            raise ValueError(f"fleet: world is {world!r}, must be one of {', '.join(map(repr, fleet_run.WORLDS))}")
        must_be_used(context, "fleet", unused_options(world, fleet_run.WORLDS[world], method))
        settings = fleet_run.FleetSettings(
            world=world,
            teams=teams,
            episodes=episodes,
            method=method.value,
            radii=radii or ("printed" if world == "riverswim" else "authors"),
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
        result = fleet_run.run(settings, out, where, pace, seconds=checkpoint_every, resume=resume, say=say)
    print_table(f"{world}, {teams:,} teams, {episodes:,} episodes each", ("", "value"), result.summary)
    say_settings(result.settings)
    for path in result.files:
        say(f"written: {path}")
