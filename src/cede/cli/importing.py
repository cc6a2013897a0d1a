"""`cede import`: a saved learner learns from the log of another system."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cede.cli.terminal import Command, CommandGroup, clear_errors, flag, print_table, say

commands = typer.Typer(cls=CommandGroup)
MOST_SHOWN = 10  # refused rows


@commands.command("import", cls=Command)
def import_log(
    log: Annotated[Path, typer.Argument(help="A table with a row for each step: .csv, .csv.gz, .jsonl or .parquet.")],
    learner: Annotated[Path, typer.Option(help="The saved learner that learns from it.")],
    columns: Annotated[
        list[str] | None, typer.Option(help="What columns are called in the log, as in agent=model,state=kind,action=answer.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="The column that says which rows belong together.")] = None,
    order: Annotated[str | None, typer.Option(help="The column by which the rows of a session are sorted, such as a time.")] = None,
    end_state: Annotated[str | None, typer.Option(help="The state after the last row of a session, if no column says it.")] = None,
    encoder: Annotated[Path | None, typer.Option(help="A saved encoder, which makes the state from columns of the log.")] = None,
    refused: Annotated[Path | None, typer.Option(help="Write the refused rows with the reasons to this file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the learner to this file, instead of its own.")] = None,
    only_check: Annotated[bool, flag("--only-check", help="Say which rows would be refused; learn nothing.")] = False,
) -> None:
    """Let a saved learner learn from the log of another system, and say which rows were refused, and why.

    Needed columns are state (or --encoder), agent and action; optional are next_state, prev_agent, t, cost, enter_cost, moved.
    """
    with clear_errors():
        import cede
        from cede._base import check
        from cede._base.archive import check_writable
        from cede.steps.importing import import_log as read

        own = check.instance("import", "what --learner holds", cede.load(learner), cede.Learner)
        target = check_writable("import", "--out", str(out or learner))
        named: dict[str, Any] = pairs_of(columns)
        if encoder is not None:
            named["state"] = check.instance("import", "what --encoder holds", cede.load(encoder), cede.encode.Encoder)
        state: Any = int(end_state) if end_state is not None and end_state.isdecimal() and not own.task.state_names else end_state
        options: dict[str, Any] = {"session": session, "order": order, "end_state": state, "structure": own.settings.structure}
        table = read(log, own.task, named, **options)
        say(str(table).partition("\n")[0])
        if table.refused:
            print_table("Refused", ("why", "rows"), [(kind, f"{rows:,}") for kind, rows in table.reasons.items()])
            first = table.refused[:MOST_SHOWN]
            title = "The first refused rows" if len(first) < len(table.refused) else "Refused rows"
            rows = [(f"{row.row:,}", row.session, row.reason) for row in first]
            print_table(f"{title}, numbered from 0", ("row", "session", "why"), rows, left=3)
        if refused is not None:
            say(f"refused rows: {table.save_refused(refused)}")
        if only_check:
            return
        if not len(table):
            check.fail("import", "the number of rows that can be used", 0, "at least 1")
        episodes = own.learn_from(table)
        own.save(target)
        say(f"learned from {len(table):,} steps in {episodes:,} sessions; written: {target}")


def pairs_of(texts: list[str] | None) -> dict[str, str]:
    """Return names by name from texts as in "agent=model,state=kind"."""
    result = {}
    for pair in ",".join(texts or ()).split(",") if texts else ():
        name, equals, where = pair.partition("=")
        if not (name and equals and where):
            raise ValueError(f"import: --columns is {pair!r}, must be pairs of names, as in agent=model,state=kind")
        result[name.strip()] = where.strip()
    return result
