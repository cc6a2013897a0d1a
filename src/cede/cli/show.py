"""`cede show`: the contents of a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cede.cli.terminal import Command, CommandGroup, clear_errors, must_be_used, print_table, say, say_settings

commands = typer.Typer(cls=CommandGroup)
MOST_SHOWN = 50  # values of a feature, and states of an encoder
MOST_NAMED = 100_000  # states of an encoder from which on none are named


@commands.command(cls=Command)
def show(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="A learner, fleet or encoder, as its save or cede learn --save wrote it; or a record of steps.")
    ],
    team: Annotated[int, typer.Option(help="For a fleet: which team, numbered from 0.", min=0)] = 0,
    by: Annotated[str | None, typer.Option(help="Group states by what a regular expression matches in their names.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Write a picture of who is in control where to this file.")] = None,
) -> None:
    """Show a saved learner: who is in control where, steps of each agent, expected costs, uncertain states. Of a record: numbers of
    steps and episodes, shares of control, costs, overrides. Of an encoder: features and states.
    """
    with clear_errors():
        import cede
        from cede.steps.read_record import is_record

        if is_record(file):
            show_record(context, file, picture)
            return
        thing = cede.load(file)
        if isinstance(thing, cede.encode.Encoder):
            must_be_used(context, "show", dict.fromkeys(("team", "by", "picture"), "for an encoder"))
            show_encoder(thing)
            return
        if isinstance(thing, cede.Fleet):
            if team >= len(thing):
                raise ValueError(f"show: --team is {team}, must be from 0 to {len(thing) - 1}: the fleet has {len(thing)} teams")
            say(f"fleet of {len(thing)} teams, {thing.environment_episodes:,} episodes; team {team}:")
            thing = thing.learners[team]
        summary = cede.insight.summarise(thing, by=by)
        say_settings(summary.settings)
        first, *others = summary.tables()
        print_table(*first)
        for line in expected_costs(thing):
            say(line)
        say(f"where episodes start: {summary.starts}")
        for line in summary.endings():
            say(line)
        for table in others:
            print_table(*table)
        for warning in summary.warnings:
            say(f"warning: {warning}")
        if picture is not None:
            say(f"picture: {summary.draw(picture)}")


def show_record(context: typer.Context, file: Path, picture: Path | None) -> None:
    """Print a summary of a record. picture: the file for a picture of it, or None."""
    import cede
    from cede._base.extras import save_picture

    must_be_used(context, "show", dict.fromkeys(("team", "by"), "for a record"))
    record = cede.read_record(file)
    table = record.episodes()
    steps, episodes = len(record), len(record.ended)
    rows = [("steps", f"{steps:,}"), ("runs", f"{len(record.runs):,}")]
    if record.has_horizon:
        rows += [("episodes", f"{episodes:,}"), ("of them never ended", f"{int((~record.ended).sum()):,}")]
        rows.append(("cost per episode", f"{table.cost[record.ended].mean():.4f}" if record.ended.any() else ""))
    rows.append(("cost per step", f"{table.cost.sum() / steps:.4f}" if steps else ""))
    rows += [("hand-overs", f"{int(table.switches.sum()):,}"), ("overrides", f"{int(table.overrides.sum()):,}")]
    print_table(f"Record {file.name}", ("", "value"), rows)
    held = table.control.sum(axis=0)
    shares = [(name, f"{n:,}", f"{n / max(steps, 1):.0%}") for name, n in zip(record.agents, held.tolist(), strict=True)]
    print_table("In control", ("agent", "steps", "share"), shares)
    for what, n in (
        ("steps that are not in it were learned from: gaps", record.gaps),
        ("hand-overs that the task says are not possible, whose cost is left out (grab_cost says it)", int(table.unpriced.sum())),
        ("bytes of a torn last line", record.torn),
    ):
        if n:
            say(f"warning: {what}: {n}")
    if picture is not None:
        say(f"picture: {save_picture(record.plot(), picture)}")


def show_encoder(encoder: Any) -> None:
    """Print the features of an encoder with their values, and its states."""
    say(f"{encoder!r}, digest {encoder.digest[:16]}")
    for line in getattr(encoder, "notes", ()):
        say(line)
    rows = [(name, f"{len(values):,}", "; ".join(values[:MOST_SHOWN])) for name, values in encoder.parts]
    print_table("Features of a state", ("feature", "values", "which"), rows)
    names = encoder.state_names[:MOST_SHOWN] if encoder.n_states <= MOST_NAMED else []
    if names:
        title = "States" if len(names) == encoder.n_states else f"The first {len(names)} of {encoder.n_states:,} states"
        print_table(title, ("state", "name"), [(f"{i:,}", name) for i, name in enumerate(names)])


def expected_costs(learner: Any) -> list[str]:
    """Return lines with the expected costs of the plan and of each member alone, with intervals and their kind; then warnings about
    these numbers.
    """
    import cede
    from cede.insight.figures import interval

    task, parts = learner.task, []
    able = [member for member in range(len(task.members)) if task.can_reach(member)]
    estimates = [cede.estimate(learner, policy, draws=100) for policy in (None, *able)]
    for estimate in estimates:
        mean, low, high = interval(estimate.mean, estimate.low, estimate.high)
        parts.append(f"{estimate.policy} {mean} ({low} to {high})")
    first = estimates[0]
    kind = f"{first.level:.0%} of {first.draws} {first.kind}" if first.draws else f"{first.kind} of {first.level:.0%}"
    doubts = dict.fromkeys(text for estimate in estimates for text in estimate.warnings if text not in learner.warnings)
    return [f"expected cost per {first.per}: {', '.join(parts)}; in brackets: {kind}", *(f"  warning: {text}" for text in doubts)]
