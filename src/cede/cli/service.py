"""The commands of the service: serve, planner, token, db. Heavy imports happen inside, so that --help is quick."""

import gc
import ipaddress
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cede.cli.terminal import Command, CommandGroup, clear_errors, flag, print_table, say

if TYPE_CHECKING:
    from cede.serve.planner.workers import PlanWorkers
    from cede.serve.store.database import Database

Db = Annotated[
    str | None,
    typer.Option(help="The database: sqlite:///FILE or postgresql+psycopg://...; by default cede.db in the data directory."),
]
MOST_SHOWN = 20  # differences that `db verify` lists
MOST_CONNECTIONS = 2000

commands = typer.Typer(cls=CommandGroup)
token_commands = typer.Typer(cls=CommandGroup, help="Tokens: what each client may do.", no_args_is_help=True)
db_commands = typer.Typer(cls=CommandGroup, help="The database of the service.", no_args_is_help=True)
commands.add_typer(token_commands, name="token")
commands.add_typer(db_commands, name="db")


def default_url() -> str:
    """Return the URL of the database in the data directory: $CEDE_DATA, or `cede` in the user's data directory."""
    usual = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "cede"
    place = Path(os.environ.get("CEDE_DATA") or usual)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{place.absolute() / 'cede.db'}"


@contextmanager
def opened(url: str | None, *, used: bool = False) -> "Iterator[Database]":
    """Open the database; an error is shown in one line. used: it must exist with the newest schema."""
    with clear_errors():
        from cede._base.extras import need

        need("fastapi", "serve")
        errors: Any = need("sqlalchemy.exc", "serve")
        from cede.serve.store.database import Database

        try:
            with closing(Database(url or default_url(), used=used)) as database:
                yield database
        except errors.SQLAlchemyError as error:
            reason = str(getattr(error, "orig", error)).strip().split("\n")[0]
            raise ValueError(f"database: it is not usable ({reason}), must be reachable and writable") from error


def is_loopback(host: str) -> bool:
    """Return whether a host is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@commands.command(cls=Command)
def serve(
    db: Db = None,
    host: Annotated[str, typer.Option(help="Address to listen on; by default only this machine can connect.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0: any free port.", min=0, max=65535)] = 8000,
    allow_host: Annotated[list[str] | None, typer.Option(help="An allowed Host header; repeatable.")] = None,
    root_path: Annotated[str, typer.Option(help="Prefix of its addresses behind a proxy, as in /control.")] = "",
    plans: Annotated[bool, flag("--plan/--no-plan", help="Plan in the server, or leave planning to `cede planner`.")] = True,
    max_batch: Annotated[int, typer.Option(help="Most bytes of a batch of steps.", min=1024)] = 16 << 20,
) -> None:
    """Serve decisions over HTTP, take reports of steps, and learn in the background. Ctrl-C stops it."""
    with opened(db) as database:
        import uvicorn

        from cede.serve.http.app import create_app
        from cede.serve.service import ServiceOptions
        from cede.serve.store import tokens

        known = tokens.TokenCache(database)
        known.refresh()
        if not len(known) and not is_loopback(host):
            raise ValueError(f"serve: --host is {host!r}, must be 127.0.0.1 until there is a token (`cede token create`)")
        if root_path and (not root_path.startswith("/") or root_path.endswith("/")):
            raise ValueError(f"serve: --root-path is {root_path!r}, must begin with / and not end with it")
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048)
        if not len(known):
            token = database.write(lambda c: tokens.create(c, "made by cede serve", ["admin"], None, None))
            say(f"token (shown once): {token}")
        name = f"[{host}]" if ":" in host else host
        hosts = dict.fromkeys([*ServiceOptions().hosts, name, *(allow_host or ())])
        options = ServiceOptions(hosts=tuple(hosts), root_path=root_path, most_batch=max_batch, plans=plans)
        log_as_json()
        reduce_latency()
        config = uvicorn.Config(
            create_app(database, options),
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=10,
        )
        say(f"address: http://{name}:{listening.getsockname()[1]}{root_path}")
        uvicorn.Server(config).run(sockets=[listening])


def reduce_latency() -> None:
    """Reduce the latency of answers: a short switch interval of threads, and rare garbage collections.

    Reports are large lists of small objects, which trigger full collections of tens of milliseconds. Objects that exist before the
    first request are never collected.
    """
    sys.setswitchinterval(0.001)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def log_as_json() -> None:
    """Write logs to stderr, one JSON object per line."""
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


class PlanEngines(StrEnum):
    """Kinds of plan workers."""

    processes = "processes"
    ray = "ray"


def plan_workers(engine: str, jobs: int | None, address: str | None) -> "AbstractContextManager[PlanWorkers | None]":
    """Start plan workers; return them as a context. None: the planner plans itself."""
    if engine == "processes" and jobs in (None, 1) and address is None:
        return nullcontext()
    from cede.serve.planner.workers import PlanWorkers

    return closing(PlanWorkers(engine, jobs, address))


@commands.command(cls=Command)
def planner(
    db: Db = None,
    once: Annotated[bool, flag("--once", help="Plan for all teams that are due, and stop.")] = False,
    engine: Annotated[PlanEngines, typer.Option(help="Kind of plan workers; plans do not depend on it.")] = PlanEngines.processes,
    jobs: Annotated[
        int | None, typer.Option(help="Number of plan workers; by default 1, on Ray one for each processor.", min=1)
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster, auto or host:port; by default one is started on this machine.")
    ] = None,
) -> None:
    """Plan for teams that are due, for all servers that share the database. Ctrl-C stops it."""
    with opened(db) as database, plan_workers(engine.value, jobs, address) as workers:
        import structlog

        from cede.serve.planner.plans import Planner
        from cede.serve.store.store import Store

        log_as_json()
        log: Any = structlog.get_logger("cede")

        def failed(error: Exception) -> None:
            log.error("planning failed", detail=str(error)[:500])

        work = Planner(Store(database), failed=failed, workers=workers)
        if once:
            while work.once():
                pass
        else:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: work.stop())
            say(f"planner: {work.name}")
            work.run()
        say(f"plans made: {work.made}")


@token_commands.command("create", cls=Command)
def create_token(
    scope: Annotated[list[str], typer.Option(help="admin, report, decide or read; repeatable.")],
    team: Annotated[list[str] | None, typer.Option(help="A team; repeatable. By default all teams.")] = None,
    days: Annotated[float | None, typer.Option(help="Days until it expires; by default never.")] = None,
    label: Annotated[str, typer.Option(help="Label of the token.")] = "made by cede token create",
    db: Db = None,
) -> None:
    """Make a token, and print it. It cannot be shown again."""
    with opened(db) as database:
        from cede.serve.store import tokens

        say(database.write(lambda c: tokens.create(c, label, scope, team or None, days)))


@token_commands.command("list", cls=Command)
def list_tokens(db: Db = None) -> None:
    """List tokens, without their secrets."""
    from datetime import UTC, datetime

    def day(ms: int) -> str:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")

    with opened(db, used=True) as database:
        from cede.serve.store import tokens

        with database.read() as connection:
            listed = tokens.listed(connection)
        rows = []
        for token in listed:
            teams = "all teams" if token["teams"] is None else ", ".join(json.loads(token["teams"]))
            until = f"until {day(token['expires'])}" if token["expires"] else "no expiry"
            valid = f"revoked {day(token['revoked'])}" if token["revoked"] else until
            rows.append((token["id"], f"{token['scopes']}: {teams}", valid, token["label"]))
        print_table("Tokens", ("id", "scopes", "valid", "label"), rows)


@token_commands.command("revoke", cls=Command)
def revoke_token(token: Annotated[str, typer.Argument(help="Its id, from `cede token list`.")], db: Db = None) -> None:
    """Revoke a token. Servers refuse it within seconds."""
    with opened(db, used=True) as database:
        from cede.serve.store import tokens

        database.write(lambda c: tokens.revoke(c, token))
        say(f"revoked: {token}")


@db_commands.command("verify", cls=Command)
def verify_db(db: Db = None) -> None:
    """Recompute all counts from the log, and compare them with the stored ones. Exit code 1 if any differ."""
    with opened(db, used=True) as database:
        from cede.serve.store.audit import verify
        from cede.serve.store.store import Store

        with database.read() as connection:
            wrong = verify(connection, Store(database), progress=True)
        for line in wrong[:MOST_SHOWN]:
            say(line)
        say(f"{len(wrong)} differences: `cede db rebuild` counts the log again" if wrong else "all counts equal the log")
    if wrong:
        raise typer.Exit(1)


@db_commands.command("rebuild", cls=Command)
def rebuild_db(db: Db = None) -> None:
    """Delete all counts, and count the log again."""
    with opened(db, used=True) as database:
        from cede.serve.store.audit import rebuild
        from cede.serve.store.store import Store

        database.write(lambda c: rebuild(c, Store(database), progress=True))
        say("all counts were rebuilt from the log")


@db_commands.command("upgrade", cls=Command)
def upgrade_db(db: Db = None) -> None:
    """Upgrade the tables to the newest schema. Servers do so when they start."""
    with opened(db):
        say("the schema is the newest")
