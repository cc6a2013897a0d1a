"""The command line: each command is a few lines over the library. Heavy imports happen inside commands, so that --help is quick."""

from typing import Annotated

import typer

from cede.cli import demo, learn, service, show
from cede.cli.terminal import Command, CommandGroup, ListsSets, flag

FIRST = """cede learns who should be in control.

Try first:
  cede demo                          a page with the recommended learner at work, in half a minute
  cede learn support-desk            a learner beside each agent alone
  cede learn lane-driving --save driver.cede, then cede show driver.cede
  cede serve                         a service that other systems ask who should act

All commands: cede --help"""

ABOUT = "cede learns who should be in control."
app = typer.Typer(cls=CommandGroup, help=ABOUT, add_completion=False, pretty_exceptions_enable=False)


def show_version(wanted: bool) -> None:
    """Print the version and exit, if that is wanted."""
    if wanted:
        from cede import __version__

        typer.echo(f"cede {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[bool, flag("--version", callback=show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """cede learns who should be in control."""
    if context.invoked_subcommand is None:
        typer.echo(FIRST)


for command in (demo.demo, learn.learn, show.show, learn.compare):
    app.command(cls=ListsSets if command is learn.learn else Command)(command)
service.add_commands(app)
