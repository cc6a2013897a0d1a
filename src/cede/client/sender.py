"""Sends unsent steps to the service, in batches."""

from collections.abc import Sequence
from typing import Any

from cede.client.connection import RETRY_STATUSES, Backoff, Connection, detail_of, retry_after, unreachable
from cede.client.spool import Spool, UnsentRow

BATCH = 2000  # rows in a request
WRONG_STATUSES = (400, 409, 413, 422)  # the steps are wrong; any other refusal concerns the token, the address or the server


class Sender:
    """Sends unsent rows, and remembers failures.

    refused: reasons of refused rows, until `check_refused` raises them. postponed: the reason why rows were postponed, likewise.
    problem: why nothing can be sent, where waiting does not help; None: no such problem. rounds: number of tries.
    """

    def __init__(self, connection: Connection, unsent: Spool) -> None:
        self._connection, self._unsent = connection, unsent
        self.refused: list[str] = []
        self.postponed: str | None = None
        self.problem: Exception | None = None
        self.rounds = 0
        self._backoff = Backoff()

    async def round(self) -> float | None:
        """Send one batch; return the seconds to wait before the next, None if there was nothing to send.

        Errors are remembered, not raised.
        """
        least: float | None
        try:
            rows = await self._unsent.unblocked(self._unsent.batch, BATCH)
            if not rows:
                return None
            least = await self._send(rows)
        except Exception as error:  # for example of the spool
            self.problem, least = error, 0.0
        self.rounds += 1
        if least is not None:
            return self._backoff.after(least)
        self._backoff.reset()
        return 0.0

    async def _send(self, rows: Sequence[UnsentRow]) -> float | None:
        """Send rows; return None if the service has answered for all of them, else the least number of seconds to wait."""
        try:
            answer = await self._connection.request("POST", "/v1/steps", json=body_of(rows))
        except unreachable():
            return 0.0
        if answer.status_code in RETRY_STATUSES:
            return retry_after(answer)
        if is_accepted(answer, rows):
            self.problem = None
            await self._unsent.unblocked(self._unsent.delete, rows)
            return None
        if not is_refused(answer):
            where = f"service: its response is of status {answer.status_code} and from elsewhere"
            self.problem = ValueError(f"{where}, must be from the service: does a proxy answer instead?")
            return 0.0
        if answer.status_code == 401:  # steps were not read; a token can be renewed
            self.problem = ValueError(detail_of(answer))
            return 0.0
        self.problem = None
        parts = split(rows)
        if len(parts) > 1:  # send the right ones without the wrong one
            waits = [await self._send(part) for part in parts]
            return max((wait for wait in waits if wait is not None), default=None)
        detail = detail_of(answer)
        if answer.status_code in WRONG_STATUSES:
            await self._unsent.unblocked(self._unsent.refuse, rows, detail)
            self.refused.append(detail)
            return None
        await self._unsent.unblocked(self._unsent.postpone, rows)
        self.postponed, self.problem = detail, ValueError(detail)
        return 0.0

    def check_problem(self, since: int) -> None:
        """Raise the current problem, if a round has ended since. since: earlier value of `rounds`."""
        if self.problem is not None and self.rounds > since:
            raise self.problem

    def check_refused(self) -> None:
        """Raise ValueError with the reasons for refused and postponed rows, and clear them."""
        reasons = [*self.refused, *([] if self.postponed is None else [self.postponed])]
        self.refused, self.postponed = [], None
        if reasons:
            raise ValueError(reasons[0] if len(reasons) == 1 else f"{reasons[0]} (and {len(reasons) - 1} more)")


def is_refused(answer: Any) -> bool:
    """Return whether the service itself refuses a request. A proxy's refusal has another content type."""
    kind = str(answer.headers.get("content-type", ""))
    return 400 <= int(answer.status_code) < 500 and kind.startswith("application/problem+json")


def is_accepted(answer: Any, rows: Sequence[UnsentRow]) -> bool:
    """Return whether the service says that it has all steps of some rows."""
    try:
        content = answer.json()
        n = int(content["new"]) + int(content["duplicates"])
    except (ValueError, KeyError, TypeError):
        return False
    return int(answer.status_code) == 200 and n == sum(row.steps is None for row in rows)


def body_of(rows: Sequence[UnsentRow]) -> dict[str, Any]:
    """Return rows as the body of a request."""
    steps = [{"team": row.team, **row.body} for row in rows if row.steps is None]
    ends = [{"team": row.team, "episode": row.episode, "steps": row.steps} for row in rows if row.steps is not None]
    return {"steps": steps, "ends": ends}


def split(rows: Sequence[UnsentRow]) -> list[Sequence[UnsentRow]]:
    """Return rows in parts that can be accepted separately: one for each episode; two halves of one episode without an end.

    An episode with an end is counted as a whole or not at all. Steps of a run without a horizon are counted one by one.
    """
    episodes: dict[tuple[str, int], list[UnsentRow]] = {}
    for row in rows:
        episodes.setdefault((row.team, row.episode), []).append(row)
    if len(episodes) == 1 and len(rows) > 1 and all(row.steps is None for row in rows):
        return [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    return list(episodes.values())
