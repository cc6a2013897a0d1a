"""Lets `python -m cede.cli` run the command line."""

from cede.cli import app

app()
