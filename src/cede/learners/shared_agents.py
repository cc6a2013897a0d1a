"""Agents that several teams share by name: their rows, and what must be the same in all teams."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cede._base import check
from cede.learners.settings import Settings
from cede.problem.structure import Structure
from cede.problem.task import Task
from cede.rows.places import Places
from cede.rows.working import AgentSpan

if TYPE_CHECKING:
    from cede.learners.learner import Learner


def spans_of(owner: str, names: Any, learners: "Sequence[Learner]") -> dict[str, AgentSpan]:
    """Return the rows of shared agents, one below the other: of each policy by which a member of one of these names acts."""
    spans: dict[str, AgentSpan] = {}
    end = 0
    sharing = [learner for learner in learners if learner.settings.can_share]
    for name in check.items(owner, "shared_agents", names, "names of agents") if names != () else ():
        first = next((learner for learner in sharing if name in learner.task.members), None)
        if first is None:
            everybody = tuple(dict.fromkeys(one for learner in sharing for one in learner.task.members))
            check.fail(owner, "an agent of shared_agents", check.show(name), check.one_of(everybody, name))
        rows = dict(zip(first.task.tables, Places(first.task, structure=first.settings.structure).agent_rows, strict=True))
        for table in (name, f"{name} (taking over)"):
            if table in rows and table not in spans:
                spans[table] = replace(span_of(first.task, first.settings, table), first=end)
                end += rows[table]
    return spans


def span_of(task: Task, settings: Settings, table: str) -> AgentSpan:
    """Return the rows of a policy of a task, and what must be the same where it is shared."""
    number = task.tables.index(table)
    declared = {} if settings.structure is None else settings.structure.agents
    digest = Structure(agents={table: declared[table]}).digest if table in declared else None
    return AgentSpan(0, Places(task, structure=settings.structure).agent_rows[number], task.table_varies[number], digest)


def check_agents(owner: str, who: str, spans: Mapping[str, AgentSpan], task: Task, settings: Settings) -> None:
    """Check that a learner can share the agents of its team that a fleet shares. who: named in errors."""
    for name, span in spans.items():
        if name not in task.tables:
            continue
        mine, shown = span_of(task, settings, name), repr(check.printable(name))
        if mine.varies_with == "prev_agent":
            expected = "None or 'time' for a shared agent: other teams have other agents before it"
            check.fail(owner, f"varies_with of {shown} of {who}", "'prev_agent'", expected)
        if mine.varies_with != span.varies_with:
            expected = f"{span.varies_with!r}, as in the first team that has this shared agent"
            check.fail(owner, f"varies_with of {shown} of {who}", repr(mine.varies_with), expected)
        if mine.structure != span.structure:
            expected = "that of the first team that has this shared agent"
            check.fail(owner, f"the structure of {shown} of {who}", "another", expected)
        if name in settings.forgetting.agents:
            expected = "left out for a shared agent: its counts do not fade"
            check.fail(owner, f"forget[{shown}] of {who}", check.show(settings.forgetting.agents[name]), expected)
