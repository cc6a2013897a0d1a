"""What a learner knows, in a form for people: bounds on costs and estimates of them, explanations of choices, summaries.

bounds, Bounds                           what a policy costs at least and at most, over the confidence sets
estimate, Estimate                       the expected cost of a policy, or its difference to another one, with an interval
explain, Explanation                     why the learner chooses an agent
summarise, Summary                       what was learned, as a table
report, LearnerReport                    the same for those who decide, as a page with pictures
mean_plan                                the best policy under the frequencies seen
check_structure, StructureCheck          whether data contradict a declared structure
suggest_structure, SuggestedStructure    a structure that data suggest, as rules

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cede.insight.bounding import Bounds as Bounds
    from cede.insight.bounding import bounds as bounds
    from cede.insight.estimating import Estimate as Estimate
    from cede.insight.estimating import estimate as estimate
    from cede.insight.explaining import Explanation as Explanation
    from cede.insight.explaining import explain as explain
    from cede.insight.frequencies import mean_plan as mean_plan
    from cede.insight.reporting import LearnerReport as LearnerReport
    from cede.insight.reporting import report as report
    from cede.insight.structure.checking import StructureCheck as StructureCheck
    from cede.insight.structure.checking import check_structure as check_structure
    from cede.insight.structure.suggest import SuggestedStructure as SuggestedStructure
    from cede.insight.structure.suggest import suggest_structure as suggest_structure
    from cede.insight.summary import Summary as Summary
    from cede.insight.summary import summarise as summarise

_NAMES = {  # public names by module
    "bounding": ("Bounds", "bounds"),
    "estimating": ("Estimate", "estimate"),
    "explaining": ("Explanation", "explain"),
    "frequencies": ("mean_plan",),
    "reporting": ("LearnerReport", "report"),
    "structure.checking": ("StructureCheck", "check_structure"),
    "structure.suggest": ("SuggestedStructure", "suggest_structure"),
    "summary": ("Summary", "summarise"),
}
_MODULE = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_MODULE]  # noqa: PLE0604 (names are strings)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used; keep it, so that this happens once."""
    if name not in _MODULE:
        raise AttributeError(f"module 'cede.insight' has no attribute {name!r}")
    value = getattr(import_module(f"cede.insight.{_MODULE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet."""
    return sorted(__all__)
