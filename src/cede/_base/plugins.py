"""What installed packages add to cede: things that they register as entry points of a group, such as `cede.worlds`.

Listing them imports nothing, so a package that is broken does no harm until what it registered is asked for by name.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from cede._base import check


def registered(group: str) -> dict[str, list[EntryPoint]]:
    """Return what is registered in a group, by name in order; several packages may have used one name."""
    found: dict[str, list[EntryPoint]] = {}
    for one in entry_points(group=group):
        if one not in found.setdefault(one.name, []):  # a package may be found twice, as when it is installed to be edited
            found[one.name].append(one)
    return dict(sorted(found.items()))


def load(owner: str, group: str, name: str) -> Any:
    """Import what is registered in a group under a name, and return it; None if nothing is. owner: who is named in errors."""
    found = registered(group).get(name, [])
    if not found:
        return None
    if len(found) > 1:
        sources = " and ".join(source_of(one) for one in found)
        check.fail(owner, f"the entry point {check.show(name)} of {group}", f"registered by {sources}", "registered once")
    try:
        return found[0].load()
    except (Exception, SystemExit) as error:  # whatever the package does when it is imported
        why = " ".join(check.printable(f"{type(error).__name__}: {error}").split())
        place = f"the entry point {check.show(name)} of {group}, registered by {source_of(found[0])},"
        raise ValueError(f"{owner}: {place} is broken, must be something that can be imported ({why})") from error


def source_of(one: EntryPoint) -> str:
    """Return who registered an entry point, and as what, for an error."""
    package = "a package" if one.dist is None else one.dist.name
    return check.printable(f"{package} as {one.value}")
