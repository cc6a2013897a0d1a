"""What requests and answers consist of. The models check requests strictly, and are the schemas of the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cede._base import check
from cede.serve.reports import BIG

Whole = Annotated[int, Field(ge=0, lt=BIG)]
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._~:-]{0,127}$")]
AgentGiven = Annotated[str | Whole, Field(description="An agent, by index or by name.")]


class Strict(BaseModel):
    """A request: nothing is converted, nothing is ignored."""

    model_config = ConfigDict(strict=True, extra="forbid")


class EnvironmentIn(Strict):
    """An environment: what its teams have in common."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "task": {
                        "env_cost": [[0.0, 0.1], [1.0, None]],
                        "cost_range": [0.0, 1.0],
                        "agents": ["robot", "operator"],
                        "control_cost": {"operator": 0.2},
                        "switch_cost": 0.1,
                        "horizon": 10,
                    },
                    "learner": {"algorithm": "recommended"},
                    "fallback": "operator",
                }
            ]
        }
    )
    task: dict[str, Any] = Field(description="Arguments of cede.Task by name; null where a cost is not known.")
    learner: dict[str, Any] = Field(default_factory=dict, description="algorithm, and arguments of that function of cede.")
    fallback: AgentGiven | None = Field(None, description="Who acts while there is no plan; by default the start agent.")


class TeamIn(Strict):
    """A team of an environment. Agents and their costs are those of the environment unless they are given."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"environment": "road", "seed": 17}]})
    environment: Name
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    fallback: AgentGiven | None = None
    own: dict[str, Any] = Field(
        default_factory=dict,
        description="agents, control_cost, switch_cost, grab_cost, start_agent, varies_with, takeover_delay, on_takeover as in "
        "cede.Task; known_agents, policies by name.",
    )


class BeginIn(Strict):
    """The beginning of an episode."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"episode": 12}, {}]})
    episode: Whole | None = Field(None, description="The client's number for it; without it the server gives one.")


class DecideIn(Strict):
    """A question: who should act?"""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"t": 0, "state": 3, "prev_agent": 0}, {"state": 3, "prev_agent": 0}]}
    )
    t: Whole | None = Field(None, description="The time step; left out where the task has no horizon.")
    state: Whole
    prev_agent: Whole


class DecideOneIn(DecideIn):
    """The same, of one team among many."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"team": "truck-17", "t": 0, "state": 3, "prev_agent": 0}]})
    team: Name


class DecideManyIn(Strict):
    """Many questions."""

    decisions: Annotated[list[DecideOneIn], Field(max_length=10_000)]


class StepContent(Strict):
    """What happened in a step. Indices count from 0."""

    state: Whole
    prev_agent: Whole
    agent: Whole = Field(description="Who acted.")
    action: Whole
    next_state: Whole
    cost: float | None = Field(None, description="What the environment charged; needed where the task does not say it.")
    enter_cost: float | None = None
    chosen: Whole | None = Field(None, description="Who was asked to act.")
    version: Whole | None = Field(None, description="The version of the plan that chose.")
    reason: Literal["plan", "audition", "fallback"] | None = Field(None, description="Why, as the decision said.")
    at: Whole | None = Field(None, description="When, in milliseconds since 1970.")
    meta: dict[str, Any] | None = Field(None, description="Anything else, at most 4096 characters as JSON.")


STEP: dict[str, Any] = {"episode": 12, "t": 0, "state": 3, "prev_agent": 0, "agent": 1, "action": 0, "next_state": 4}


class StepIn(StepContent):
    """A step, known by its episode and its time; without a horizon by its run, and its number in the run from 0."""

    model_config = ConfigDict(json_schema_extra={"examples": [STEP]})
    episode: Whole
    t: Whole


class TeamStepIn(StepIn):
    """A step of one team among many."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"team": "truck-17", **STEP}]})
    team: Name


class EndIn(Strict):
    """The end of an episode."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"episode": 12, "steps": 1}]})
    episode: Whole
    steps: Annotated[int, Field(ge=1, lt=BIG, description="How many steps the episode, or run, has.")]


class TeamEndIn(EndIn):
    """The end of an episode of one team among many."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"team": "truck-17", "episode": 12, "steps": 1}]})
    team: Name


class EndOneIn(Strict):
    """The end of the episode that the address names."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"steps": 1}]})
    steps: Annotated[int, Field(ge=1, lt=BIG)]


class StepsIn(Strict):
    """Steps of one team, in any order, and ends of its episodes. All is taken, or nothing."""

    steps: list[StepIn] = Field(default_factory=list)
    ends: list[EndIn] = Field(default_factory=list)


class TeamStepsIn(Strict):
    """Steps of many teams, in any order, and ends of episodes. All is taken, or nothing."""

    steps: list[TeamStepIn] = Field(default_factory=list)
    ends: list[TeamEndIn] = Field(default_factory=list)


PolicyGiven = Annotated[
    str | Whole | list[Any],
    Field(description="'plan'; an agent, by index or by name, who has all control; or agents by t, state and previous agent."),
]


class EstimateIn(Strict):
    """A question: what would a policy cost? All but the policies are as in `cede.estimate`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"policy": [[[0, 0], [1, 1]]], "against": "plan"}, {"policy": 1}]})
    policy: PolicyGiven = "plan"
    against: PolicyGiven | None = Field(None, description="Another policy, whose cost is taken off.")
    start: list[float] | None = Field(None, description="Probabilities of the first state; without: as was seen.")
    interval: Literal["draws", "sets"] | None = None
    level: float | None = None
    draws: Whole | None = None
    prior: float | None = None
    seed: Whole | None = None


class EstimateOut(BaseModel):
    """What a policy is expected to cost, or how much more than another one, with an interval: a `cede.Estimate`."""

    episodes: int = Field(description="Of the team, that it rests on.")
    mean: float
    low: float
    high: float
    kind: str = Field(description="Of the interval: 'posterior draws' or 'confidence sets'.")
    level: float = Field(description="The part of the draws that it holds; of sets, the probability with which they hold.")
    policy: str = Field(description="Whose cost it is.")
    against: str | None = Field(description="The policy whose cost is taken off; null: it is the cost itself.")
    per: str = Field(description="What the cost is of, as 'episode'.")
    starts: str = Field(description="Where episodes are taken to start.")
    draws: int | None
    prior: float | None
    warnings: list[str] = Field(description="What the reader should know, in sentences.")


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(examples=["report: steps[3].state is 99, must be an integer from 0 to 5"])


class DecisionOut(BaseModel):
    """Who should act."""

    agent: int
    name: str | None = Field(description="Of the agent; null while the team's plan is not in memory.")
    plan: str = Field(description="fresh: it knows all that was counted of the team; stale: there is more; fallback: no plan.")
    version: int
    reason: str = Field(description="plan: it is best by the plan; audition: a member is tried for an episode; fallback: no plan.")
    age: float | None = Field(description="Seconds since the plan was made.")


class DecisionsOut(BaseModel):
    """Who should act, in the order of the questions."""

    decisions: list[DecisionOut]


class AcceptedOut(BaseModel):
    """What became of a report. It is on disk."""

    new: int = Field(description="Steps that were not known.")
    duplicates: int = Field(description="Steps that were known already, the same.")
    counted: int = Field(description="Episodes that are complete by this report; without a horizon, new steps.")


class BegunOut(BaseModel):
    """An episode that has begun."""

    episode: int
    start_agent: int
    version: int


def checked(owner: str, model: type[Strict], data: Any) -> Any:
    """Check the content of a request by a model, and return the model. Errors are in the grammar of all errors."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".") or "body"
        got = "missing" if first["type"] == "missing" else check.show(first["input"])
        check.fail(owner, place, got, f"right: {first['msg']}")
