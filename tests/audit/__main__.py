"""The audit: compares cede with a slow reference on random problems, for some minutes.

python -m audit --minutes 60 --seed 7        (in tests/; `make audit` does this)
python -m audit --seed 7 --only 4711         one problem again
"""

import argparse
import re
import sys
import time
from collections import Counter
from itertools import combinations
from pathlib import Path

from audit.compare import compare
from audit.features import EXCLUDED, FEATURES, PAIRS
from audit.generate import problem
from audit.shrink import shrink

OUT = Path(__file__).parent.parent.parent / "out" / "audit"
SHARE_OF_COVERAGE = 0.15  # of the time, for coverages by repetition
MOST_OF_A_KIND = 3  # findings of one kind that are shrunk and written
SHRINKING = 15.0  # seconds for each, after the comparisons


class Audit:
    """What was compared so far."""

    def __init__(self, seed):
        self.seed, self.problems = seed, 0
        self.features, self.pairs, self.compared = Counter(), Counter(), Counter()
        self.refused, self.gave_up, self.found = Counter(), Counter(), Counter()
        self.largest, self.shown = {}, []

    def add(self, number):
        """Compare one problem."""
        one = problem(self.seed, number)
        session = compare(one)
        self.problems += 1
        self.features.update(one.features)
        self.pairs.update(tuple(sorted(pair)) for pair in combinations(one.features, 2))
        self.compared.update(session.compared)
        self.refused.update(session.refused)
        self.gave_up.update(session.gave_up)
        beyond = {found.kind for found in session.found}
        for kind, size in session.largest.items():
            if kind not in beyond:
                self.largest[kind] = max(self.largest.get(kind, 0.0), size)
        for kind in dict.fromkeys(found.kind for found in session.found):
            self.found[kind] += 1
            if self.found[kind] <= MOST_OF_A_KIND:
                first = next(found for found in session.found if found.kind == kind)
                self.shown.append((one, first, session.part_of[id(first)]))
                print(f"FOUND in problem {number}, {kind}: {first.what[:200]}", flush=True)

    def write(self):
        """Shrink what was found, print it and write it to files; return their paths."""
        paths = []
        for one, found, part in self.shown:
            _, smaller = shrink(one, found.kind, part, SHRINKING)
            shown = smaller or found
            OUT.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"\W+", "-", found.kind)
            path = OUT / f"{name}-{self.seed}-{one.number}.py"
            head = f"# {shown.kind}: {shown.what}\n# seed {self.seed}, problem {one.number}: {', '.join(sorted(one.features))}\n"
            path.write_text(head + shown.snippet)
            paths.append(path)
            print(f"\n{path}:\n{head}{shown.snippet}", flush=True)
        return paths

    def report(self, seconds):
        """Print what was compared and found."""
        print(f"\n{self.problems:,} problems in {seconds:.0f} s, seed {self.seed}; {sum(self.compared.values()):,} comparisons\n")
        print(f"{'compared':44s} {'times':>9s} {'largest':>9s} {'found':>6s}")
        for kind in sorted({*self.compared, *self.found}):
            print(f"{kind:44s} {self.compared[kind]:9,d} {self.largest.get(kind, 0.0):9.1e} {self.found[kind]:6,d}")
        for title, counts in (("documented refusals that were met", self.refused), ("the reference gave no answer", self.gave_up)):
            for what, times in counts.items():
                print(f"{title}: {what}: {times:,}")
        print("\nfeatures, and how often each came with each other one (a dot: not together)")
        matrix(self.features, self.pairs)
        rare = sorted(PAIRS, key=lambda pair: self.pairs[tuple(sorted(pair))])
        print(f"\nleast frequent pair: {self.pairs[tuple(sorted(rare[0]))]:,} times; the rarest of {len(PAIRS)}:")
        for pair in rare[:5]:
            print(f"    {self.pairs[tuple(sorted(pair))]:6,d}  {pair[0]}, {pair[1]}")
        print("\nnot together, as documented:")
        for pair, why in EXCLUDED.items():
            print(f"    {pair[0]}, {pair[1]}: {why}")


def matrix(features, pairs):
    """Print how often each feature occurred, and each with those before it."""
    for i, name in enumerate(FEATURES):
        cells = [pairs[tuple(sorted((name, other)))] for other in FEATURES[:i]]
        print(f"{i + 1:2d} {name:26s} {features[name]:6,d} |" + "".join(f"{cell:5d}" if cell else "    ." for cell in cells))


def coverage(seed, seconds):
    """Print by repetition how often intervals hold; return how many hold less often than promised."""
    try:
        from audit.coverage import coverages
    except ImportError:
        return 0
    rows = coverages(seed, seconds)
    print(f"\n{'interval':50s} {'promised':>9s} {'held':>12s}")
    for row in rows:
        print(f"{row.name:50s} {row.promised:9.0%} {row.held:6,d}/{row.tried:,d} {'' if row.ok else 'TOO SELDOM'}")
    return sum(not row.ok for row in rows)


def main():
    parser = argparse.ArgumentParser(prog="audit", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6)
    parser.add_argument("--only", type=int, help="the number of one problem")
    told = parser.parse_args()
    audit, begun = Audit(told.seed), time.monotonic()
    if told.only is not None:
        audit.add(told.only)
        audit.write()
        print(*sorted(problem(told.seed, told.only).features), sep=", ")
        print(f"{sum(audit.compared.values())} comparisons, {sum(audit.found.values())} found")
        return bool(audit.found)
    print(f"seed {told.seed}", flush=True)
    until, shown = begun + 60 * told.minutes * (1 - SHARE_OF_COVERAGE), begun
    while time.monotonic() < until:
        audit.add(audit.problems)
        if time.monotonic() > shown + 60:
            shown = time.monotonic()
            print(f"{(shown - begun) / 60:5.1f} min {audit.problems:7,d} problems, {sum(audit.found.values())} found", flush=True)
    seldom = coverage(told.seed, 60 * told.minutes * SHARE_OF_COVERAGE)
    audit.report(time.monotonic() - begun)
    paths = audit.write()
    print(f"\nfound: {sum(audit.found.values())} differences, {seldom} coverages" + "".join(f"\n    {path}" for path in paths))
    return bool(audit.found) or bool(seldom)


if __name__ == "__main__":
    sys.exit(main())
