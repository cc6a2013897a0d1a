"""The command line: each command is a few lines over the library. Heavy imports happen inside commands, so that --help is quick."""

from importlib import import_module
from typing import Annotated, Any

import typer

from cede.cli.terminal import CommandGroup, flag

# The module in which each command is defined; it is imported when the command is first used.
COMMANDS = {
    "demo": "demo",
    "learn": "learn",
    "import": "importing",
    "show": "show",
    "report": "reporting",
    "compare": "learn",
    "serve": "service",
    "planner": "service",
    "token": "service",
    "db": "service",
}

FIRST = """cede learns who should be in control.

Try first:
  cede demo                          run the recommended learner, and write a page about it: half a minute
  cede learn support-desk            compare a learner with each agent alone
  cede learn lane-driving --save driver.cede, then cede show driver.cede
  cede serve                         start a service that tells other systems who should act

All commands: cede --help"""


class CommandTable(CommandGroup):
    """The commands of cede by name."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = dict.fromkeys(COMMANDS)  # for lists and suggestions of names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command and return it; None if there is none with this name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"cede.cli.{COMMANDS[cmd_name]}")
        return typer.main.get_group(module.commands).commands[cmd_name]


ABOUT = "cede learns who should be in control."
app = typer.Typer(cls=CommandTable, help=ABOUT, add_completion=False, pretty_exceptions_enable=False)


def show_version(wanted: bool) -> None:
    """Print the version and exit, if `wanted`."""
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
