"""The client for programs with asyncio. `client.py` runs it in a thread for all others."""

import asyncio
import io
import secrets
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote

from cede._base import check
from cede._base.archive import write_arrays
from cede.client.connection import ClientOptions, Connection, Denied, error_of, team_path, unreachable
from cede.client.episode import RunningEpisode
from cede.client.policy import PolicyCopy, newest_copy
from cede.client.sender import Sender
from cede.client.spool import Spool

if TYPE_CHECKING:
    from cede.learners.learner import Learner

GATHER_TIME = 0.02  # seconds in which steps are gathered into one request
ADOPT_INTERVAL = 10.0  # seconds between two searches for rows that other clients left in the spool
QUICK_TIMEOUT = 1.0  # seconds for the first policy, where the spool has an older one


class AsyncClient:
    """A client of a service (`cede serve`) for asyncio. Arguments and methods are those of `Client`.

    It is used in one event loop, and not after a fork. Writes to a spool run in a thread, so that they do not block the loop.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 5.0, refresh: float = 2.0, spool: Any = None) -> None:
        self._options = ClientOptions.checked("AsyncClient", url, token, timeout, refresh, spool)
        self.unsent = Spool(self._options.spool, self._options.url)
        self.connection = Connection(self._options)
        self._sender = Sender(self.connection, self.unsent)
        self._teams: dict[str, AsyncTeamClient] = {}
        self._background: asyncio.Future[Any] | None = None
        self._closed = False
        self.more = asyncio.Event()  # there may be rows to send

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def __aenter__(self) -> "AsyncClient":
        self.work()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """Return the address of the service."""
        return self._options.url

    async def ask(self, /, method: str, path: str, **more: Any) -> Any:
        """Send a request; return the response. more: arguments of httpx2 such as json. Raises ValueError if the service refuses."""
        answer = await self.connection.request(method, path, **more)
        if answer.status_code >= 400:
            raise error_of(answer)
        return answer

    async def put_environment(self, name: str, learner: "Learner") -> bool:
        """Create an environment with the task and settings of a learner that has not learned yet; False if it exists already."""
        from cede.learners import files
        from cede.learners.learner import Learner

        check.instance("put_environment", "learner", learner, Learner)
        path = f"/v1/environments/{quote(check.name('put_environment', 'name', name), safe='')}"
        header, arrays = learner.packed()
        file = io.BytesIO()
        write_arrays(file, "learner", files.SCHEMA, header, arrays)
        headers = {"content-type": "application/octet-stream"}
        return bool((await self.connection.ask("PUT", path, content=file.getvalue(), headers=headers))["created"])

    async def put_team(self, name: str, environment: str, *, seed: int = 0, fallback: Any = None, own: Any = None) -> bool:
        """Create a team; False if it exists already. own: its own agents, costs and known policies, as JSON."""
        path = team_path(check.name("put_team", "name", name))
        body = {"environment": environment, "seed": seed, "fallback": fallback, "own": own or {}}
        return bool((await self.connection.ask("PUT", path, json=body))["created"])

    async def team(self, name: str) -> "AsyncTeamClient":
        """Return a team, used like a learner, with its policy; without a policy if the token does not allow decisions."""
        team = self._team(check.name("AsyncClient.team", "name", name))
        with suppress(Denied):
            await team.ready()
        return team

    def _team(self, name: str) -> "AsyncTeamClient":
        """Return a team, without asking the service."""
        return self._teams.setdefault(name, AsyncTeamClient(self, name))

    # ------------------------------------------------------------------------------------------------- in the background

    def wake(self) -> None:
        """Send unsent steps in the background, with retries until the service has them."""
        self.more.set()
        self.work()

    def work(self) -> None:
        """Start the background tasks, once."""
        if self._closed:
            check.fail("AsyncClient", "it", "closed", "open")
        if self._background is None:
            self._background = asyncio.gather(self._send(), self._refresh(), return_exceptions=True)

    async def _send(self) -> None:
        """Send unsent steps, until cancelled."""
        while True:
            self.more.clear()
            wait = await self._sender.round()
            if wait is None:
                await self.more.wait()
                wait = GATHER_TIME
            await asyncio.sleep(wait)

    async def _refresh(self) -> None:
        """Refresh policies that are used, and adopt rows that other clients left in the spool, until cancelled."""
        adopted = time.monotonic()
        while True:
            await asyncio.sleep(self._options.refresh)
            for team in list(self._teams.values()):
                if team.used:
                    with suppress(Exception):  # such as a revoked token; the age of the policy shows it
                        await team.refresh()
            if time.monotonic() > adopted + ADOPT_INTERVAL:
                adopted = time.monotonic()
                with suppress(Exception):
                    await self.unsent.unblocked(self.unsent.adopt)
                self.more.set()

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all steps are sent. Raises ValueError for refused steps, TimeoutError after timeout seconds."""
        rounds = self._sender.rounds
        until = None if timeout is None else time.monotonic() + check.number("flush", "timeout", timeout, least=0.0)
        self.work()
        while await self.unsent.unblocked(lambda: self.unsent.pending):
            self.work()  # raises an error if the client was closed meanwhile
            self._sender.check_problem(rounds)
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{await self.unsent.unblocked(lambda: self.unsent.waiting)} steps are not sent yet")
            await asyncio.sleep(GATHER_TIME)
        self._sender.check_refused()

    async def close(self, timeout: float = 5.0) -> None:
        """Send unsent steps, for timeout seconds at most, and stop. Steps in a spool stay there for the next client.

        If this is cancelled while steps are sent, the client stays open.
        """
        failure: Exception | None = None
        try:
            if not self._closed and self._background is not None:
                await self.flush(timeout)
        except TimeoutError as error:
            failure = error if self._options.spool is None else None
        except Exception as error:
            failure = error
        await self._stop()
        if failure is not None:
            raise failure

    async def _stop(self) -> None:
        """Stop the background tasks, and close connection and spool."""
        self._closed = True
        if self._background is not None:
            self._background.cancel()
            await asyncio.gather(self._background, return_exceptions=True)
        await self.connection.close()
        self.unsent.close()


class TeamProperties:
    """Properties that a team has in both clients."""

    def _here(self) -> "AsyncTeamClient":
        """Return the asynchronous team of this process."""
        raise NotImplementedError

    def _policy(self) -> PolicyCopy:
        """Return the copy of the policy that decides."""
        team = self._here()
        if team._running.newest is None:
            check.fail("AsyncTeamClient", "policy", "missing", "downloaded first (await team.refresh()): the token must allow it")
        return team._running.copy

    @property
    def start_agent(self) -> int:
        """Return the agent in control before the first step."""
        return int(self._policy().about["start_agent"])

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the names of the agents."""
        return tuple(self._policy().about["agents"])

    @property
    def version(self) -> int:
        """Return the version of the policy that decides; 0: there is none, and the fallback agent acts."""
        return self._policy().version

    @property
    def episode(self) -> int | None:
        """Return the number of the running episode, or run; None: none has begun."""
        return self._here()._running.number

    @property
    def age(self) -> float:
        """Return the seconds since the service confirmed that the policy is the newest. It grows during an outage."""
        copy = self._here()._running.newest
        return float("inf") if copy is None else time.monotonic() - copy.confirmed


class AsyncTeamClient(TeamProperties):
    """A team of a service, used like a `Learner`, with `await`. `AsyncClient.team` makes it. See `TeamClient`.

    Only one task at a time may use it.
    """

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.client, self.name, self.used = client, name, False
        self._running = RunningEpisode(name, client.unsent)

    def _here(self) -> "AsyncTeamClient":
        return self

    async def ready(self) -> None:
        """Load the first policy: from the service; if it does not answer quickly, from the spool."""
        self.used = True
        if self._running.newest is None:
            unsent = self.client.unsent
            stored = await unsent.unblocked(unsent.policy, self.name)
            timeout = None if stored is None else min(QUICK_TIMEOUT, self.client._options.timeout)
            try:
                await self._download(stored, timeout)
            except unreachable():
                if stored is None:
                    raise
                self._running.newest = stored
        self.client.work()

    async def _download(self, old: PolicyCopy | None, timeout: float | None = None) -> None:
        """Download the newest policy, and store it in the spool. old: the last known copy."""
        newest = await newest_copy(self.client.connection, self.name, old, timeout)
        self._running.newest = newest
        unsent = self.client.unsent
        if newest is not old and unsent.path is not None:
            time_only = old is not None and old.policy is newest.policy
            await unsent.unblocked(unsent.store_policy, self.name, newest, time_only=time_only)

    async def refresh(self) -> bool:
        """Ask for the newest policy; return whether the service answered. If not, the current policy stays."""
        try:
            await self._download(self._running.newest)
        except unreachable():
            return False
        return True

    @overload
    async def choose(self, t: int, state: int | str, prev_agent: int) -> int: ...
    @overload
    async def choose(self, t: int, state: int | str, prev_agent: str) -> str: ...
    @overload
    async def choose(self, state: int | str, prev_agent: int) -> int: ...
    @overload
    async def choose(self, state: int | str, prev_agent: str) -> str: ...
    async def choose(self, *where: Any, **named: Any) -> Any:
        """Return the agent to put in control; see `TeamClient.choose`."""
        await self.ready()
        return self._running.choose(*where, **named)

    async def observe(self, *step: Any, **named: Any) -> None:
        """Record one step; see `TeamClient.observe`."""
        await self.ready()
        await self.client.unsent.unblocked(self._running.observe, *step, **named)
        if self._running.is_endless:
            self.client.wake()

    async def end_episode(self) -> None:
        """End the running episode: it is sent in the background, and the next one uses the newest policy."""
        await self.client.unsent.unblocked(self._running.end_episode)
        self.client.wake()

    async def drop_episode(self) -> None:
        """Drop the running episode: its steps are not sent. Without a horizon, the next step begins a new run."""
        await self.client.unsent.unblocked(self._running.drop_episode)

    async def begin(self, *, patience: float = 30.0) -> int:
        """Begin an episode at the service, which loads its plan into memory; return the number of the episode.

        The next steps are sent under this number. patience: seconds of retries if the service cannot be reached; one episode
        begins, whatever the number of retries.
        """
        self._running.check_ended("begin")
        seconds = check.number("begin", "patience", patience, least=0.0)
        headers = {"idempotency-key": secrets.token_hex(16)}
        path = f"{team_path(self.name)}/episodes"
        number = int((await self.client.connection.ask_again(seconds, "POST", path, json={}, headers=headers))["episode"])
        self._running.begin(number)
        return number

    async def decide(self, t: int | None, state: int, prev_agent: int) -> dict[str, Any]:
        """Ask the service for a decision; return its whole answer: agent, name, plan (fresh, stale or fallback), version and age.

        t: None without a horizon. All arguments are indices. There are no retries.
        """
        place = {"state": state, "prev_agent": prev_agent} if t is None else {"t": t, "state": state, "prev_agent": prev_agent}
        body = {name: check.integer("decide", name, value, 0) for name, value in place.items()}
        answer: dict[str, Any] = await self.client.connection.ask("POST", f"{team_path(self.name)}/decide", json=body)
        return answer

    async def report(self, steps: Any, ends: Any = (), *, patience: float = 30.0) -> dict[str, int]:
        """Report steps and ends of episodes to the service; return its answer: the numbers of new, duplicate and counted steps.

        steps: objects as in the OpenAPI document, with episode and t. ends: objects with episode and steps. patience: seconds of
        retries if the service cannot be reached; reporting a step twice is harmless.
        """
        seconds = check.number("report", "patience", patience, least=0.0)
        body = {"steps": list(check.items("report", "steps", steps, "a list of steps")), "ends": list(ends)}
        path = f"{team_path(self.name)}/steps"
        answer: dict[str, int] = await self.client.connection.ask_again(seconds, "POST", path, json=body)
        return answer
