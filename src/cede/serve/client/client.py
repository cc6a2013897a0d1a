"""The client: a service used like a learner. It decides by a copy of the policy, and tells what happened in the background.

While the service cannot be reached, it goes on with the policy that it has, says how old that is, and keeps what was not told yet:
in memory, or in a file.
"""

import os
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, overload

from cede._base import check
from cede._base.extras import need
from cede.learning.learner import Learner
from cede.serve.client import flows
from cede.serve.client.flows import Flow, Options, Pause, Request, Result, Sender, Unreachable, Work
from cede.serve.client.running import Copy, Running
from cede.serve.client.spool import Spool


class Client:
    """A client of a service (`cede serve`). It may be used in several threads, and after a fork.

    url: the address of the service. token: one that may decide and report for the teams that are used. timeout: seconds for a
    request. refresh: seconds after which a policy that is used is asked for again, in the background.

    spool: the path of a file in which what was not told yet is kept, and the last policy of each team. It outlives the process:
    the next client with the same file tells what this one could not. Several processes may share it. It never has the token.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 5.0, refresh: float = 2.0, spool: Any = None) -> None:
        self._options = Options.checked("Client", url, token, timeout, refresh, spool)
        self._begin()
        if self.unsent.pending:  # somebody else left it
            self.work()

    def _begin(self) -> None:
        """Begin with nothing to tell and no threads, as a new client and one after a fork."""
        self._process, self._closed = os.getpid(), False
        self._more, self._connecting = threading.Condition(), threading.Lock()
        self.unsent = self._options.unsent()
        self._sender = Sender(self.unsent)
        self._teams: dict[str, TeamClient] = {}
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._connection: Any = None

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Return the address of the service."""
        return self._options.url

    def here(self) -> None:
        """Take note of a fork: the child has connections, threads and steps of its own. What the parent has to tell, it tells."""
        if self._process != os.getpid():
            self._begin()

    @property
    def http(self) -> Any:
        """Return the connection."""
        self.here()
        with self._connecting:
            if self._connection is None:
                self._connection = need("httpx2", "client").Client(**self._options.http())
            return self._connection

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Send a request, and return the answer. What the service refuses is raised in its own words."""
        found = self.http.request(method, path, **more)
        if found.status_code >= 400:
            raise ValueError(flows.detail_of(found))
        return found

    def run(self, flow: Flow[Result]) -> Result:
        """Do what a flow asks for, and return its answer."""
        try:
            wanted = next(flow)
            while True:
                try:
                    found = self._do(wanted)
                except Exception as error:
                    wanted = flow.throw(error)
                else:
                    wanted = flow.send(found)
        except StopIteration as end:
            result: Result = end.value
            return result

    def _do(self, wanted: Request | Pause | Work) -> Any:
        """Do one thing that a flow asks for."""
        if isinstance(wanted, Work):
            return wanted.call()
        if isinstance(wanted, Pause):
            return self._stop.wait(wanted.seconds) and check.fail("Client", "it", "closed", "open")
        http = self.http
        timeout = self._options.timeout if wanted.timeout is None else min(wanted.timeout, self._options.timeout)
        more = {"json": wanted.json, "content": wanted.content, "headers": dict(wanted.headers), "timeout": timeout}
        try:
            return http.request(wanted.method, wanted.path, **more)
        except need("httpx2", "client").HTTPError as error:
            return Unreachable(error)

    def put_environment(self, name: str, learner: Learner) -> bool:
        """Make an environment with the task and settings of a learner that has not learned yet; False if it is there already."""
        return bool(self.run(flows.environment_flow(name, learner))["created"])

    def put_team(self, name: str, environment: str, *, seed: int = 0, fallback: Any = None, own: Any = None) -> bool:
        """Make a team; False if it is there already. own: agents, costs and known policies of its own, as JSON can hold them."""
        return bool(self.run(flows.team_flow(name, environment, seed, fallback, own))["created"])

    def team(self, name: str) -> "TeamClient":
        """Return a team, to be used like a learner: choose, observe, end_episode."""
        check.name("Client.team", "name", name)
        self.here()
        with self._more:
            if name not in self._teams:
                self._teams[name] = TeamClient(self, name)
            return self._teams[name]

    def adopt(self, team: "TeamClient") -> None:
        """Take note of a team that is used after a fork."""
        self.here()
        with self._more:
            self._teams[team.name] = team

    # ------------------------------------------------------------------------------------------------- in the background

    def wake(self) -> None:
        """Send what waits, in the background, again and again until the service has it."""
        with self._more:
            self._more.notify_all()
        self.work()

    def work(self) -> None:
        """Start the threads, once."""
        with self._more:
            if self._closed:
                check.fail("Client", "it", "closed", "open")
            if not self._threads:
                works = (("cede-client-sender", self._send), ("cede-client-refresher", self._look))
                self._threads = [threading.Thread(target=work, name=name, daemon=True) for name, work in works]
                for thread in self._threads:
                    thread.start()

    def _send(self) -> None:
        """Tell what waits, until closed."""
        while True:
            with self._more:
                while not self._stop.is_set() and not self._pending():
                    self._more.wait()
            if self._stop.wait(flows.GATHER):
                return
            wait = self.run(self._sender.round())
            with self._more:
                self._more.notify_all()
            self._stop.wait(wait)

    def _pending(self) -> bool:
        """Return whether something waits to be told. If that cannot be read, a round of the sender finds out why."""
        try:
            return self.unsent.pending
        except Exception:
            return True

    def _look(self) -> None:
        """Ask for policies that are used, and look for what others left in the spool, again and again, until closed."""
        looked = time.monotonic()
        while not self._stop.wait(self._options.refresh):
            for team in list(self._teams.values()):
                if team.used:
                    with suppress(Exception):  # refused, as after a token was revoked: the age of the copy tells
                        team.refresh()
            if isinstance(self.unsent, Spool) and time.monotonic() > looked + flows.LOOK:
                looked = time.monotonic()
                with suppress(Exception):
                    self.unsent.adopt()
                with self._more:
                    self._more.notify_all()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all that waits was told. What the service refused is raised as ValueError; too long a wait as TimeoutError."""
        self.here()
        rounds = self._sender.rounds
        until = None if timeout is None else time.monotonic() + check.number("flush", "timeout", timeout, least=0.0)
        with self._more:
            while self.unsent.pending and not self._stop.is_set():
                self._sender.check_problem(rounds)
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"{self.unsent.waiting} steps wait to be told")
                self._more.wait(left)
        self._sender.check_refused()

    def close(self, timeout: float = 5.0) -> None:
        """Tell what waits, for some seconds at most, and stop. What is in a spool then stays there, for the next client."""
        self.here()
        try:
            if not self._closed and self._threads:
                self.flush(timeout)
        except TimeoutError:
            if self._options.spool is None:
                raise
        finally:
            self._closed = True
            self._stop.set()
            with self._more:
                self._more.notify_all()
            for thread in self._threads:
                thread.join()
            if self._connection is not None:
                self._connection.close()
            self.unsent.close()


class TeamClient:
    """A team of a service, used like a `Learner`: `choose`, `observe`, `end_episode`. `Client.team` makes it.

    `choose` decides by a copy of the policy, which is not changed during an episode. What was observed is told when the episode
    ends. Where the task has no horizon, `choose` uses the newest copy, and steps are told as they come, in batches. One thread at a
    time may use it.

    `begin`, `decide` and `report` ask the service itself, for those who do not want to decide by a copy.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name, self.used, self._process = client, name, False, os.getpid()
        self._running = Running(name, client.unsent)

    @property
    def start_agent(self) -> int:
        """Return who is in control before the first step."""
        return int(self._there().about["start_agent"])

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the names of the agents."""
        return tuple(self._there().about["agents"])

    @property
    def version(self) -> int:
        """Return the version of the policy by which it decides, 0: there is none, and the fallback agent acts."""
        return self._there().version

    @property
    def episode(self) -> int | None:
        """Return the number of the running episode, or run; None: none was begun."""
        self._here()
        return self._running.episode

    @property
    def age(self) -> float:
        """Return for how many seconds it is not known whether there is a newer policy. It grows while the service is away."""
        copy = self._running.newest
        return float("inf") if copy is None else time.monotonic() - copy.got

    def refresh(self) -> bool:
        """Ask for the policy; return whether the service answered. A copy stays if it does not."""
        self._here()
        running = self._running
        try:
            running.newest = self.client.run(flows.later_copy(self.name, self.client.unsent, running.newest))
        except need("httpx2", "client").HTTPError:
            return False
        return True

    def _here(self) -> None:
        """Take note of a fork: the running episode is the parent's."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self.client.adopt(self)
            self._running.forked(self.client.unsent)

    def _there(self) -> Copy:
        """Return the copy that decides; the first one must be downloaded, or be in the spool."""
        self._here()
        self.used = True
        if self._running.newest is None:
            self._running.newest = self.client.run(flows.first_copy(self.name, self.client.unsent))
        self.client.work()
        return self._running.copy

    @overload
    def choose(self, t: int, state: int | str, prev_agent: int) -> int: ...
    @overload
    def choose(self, t: int, state: int | str, prev_agent: str) -> str: ...
    @overload
    def choose(self, state: int | str, prev_agent: int) -> int: ...
    @overload
    def choose(self, state: int | str, prev_agent: str) -> str: ...
    def choose(self, *where: Any, **named: Any) -> Any:
        """Return the agent to put in control at time t in a state, if prev_agent was in control before, as `Learner.choose` does.

        Where the task has no horizon there is no t. state, prev_agent: indices or names; the answer is of the kind of prev_agent.
        """
        self._there()
        return self._running.choose(*where, **named)

    def observe(self, *step: Any, **named: Any) -> None:
        """Take note of one step, as `Learner.observe` does: t, state, prev_agent, agent, action, next_state, cost, enter_cost.

        Where the task has no horizon there is no t, and moved=True begins a new run: nothing is learned from the move. All but t
        and costs are indices or names. With a spool, the step outlives this process once this has returned.
        """
        self._there()
        self._running.observe(*step, **named)
        if self._running.tells:
            self.client.wake()

    def end_episode(self) -> None:
        """End the running episode: it is told in the background, and the next one uses the newest policy."""
        self._here()
        self._running.end_episode()
        self.client.wake()

    def drop_episode(self) -> None:
        """Drop the running episode: nobody is told of it. Where there is no horizon, the next step begins a new run."""
        self._here()
        self._running.drop_episode()

    # ------------------------------------------------------------------------------------------------- the service's own answers

    def begin(self, *, patience: float = 30.0) -> int:
        """Begin an episode at the service, which brings its plan into memory; return the number that it gives to the episode.

        What is observed next is told under this number. patience: seconds for which it is asked again if it cannot be reached;
        however often that is, one episode begins.
        """
        self._here()
        self._running.check_between("begin")
        number = int(self.client.run(flows.begin_flow(self.name, patience))["episode"])
        self._running.begun(number)
        return number

    def decide(self, t: int | None, state: int, prev_agent: int) -> dict[str, Any]:
        """Ask the service who should act; return its whole answer: agent, name, plan (fresh, stale or fallback), version and age.

        t: None where the task has no horizon. All are indices. It is asked once.
        """
        self._here()
        found: dict[str, Any] = self.client.run(flows.decide_flow(self.name, t, state, prev_agent))
        return found

    def report(self, steps: Any, ends: Any = (), *, patience: float = 30.0) -> dict[str, int]:
        """Tell the service steps, and ends of episodes, and return its answer: how many were new, duplicates, and counted.

        steps: objects as in the OpenAPI document, with episode and t. ends: objects with episode and steps. patience: seconds for
        which it is told again if it cannot be reached; that is harmless.
        """
        self._here()
        found: dict[str, int] = self.client.run(flows.report_flow(self.name, steps, ends, patience))
        return found
