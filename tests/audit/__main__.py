"""The audit: compares cede with a slow reference on random problems, for some minutes.

python -m audit --minutes 60 --seed 7        (in tests/; `make audit` does this)
python -m audit --seed 7 --only 4711         one problem again
"""

import argparse
import os
import re
import sys
import time
from collections import Counter, deque
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path

from audit.compare import compared
from audit.coverage import coverages
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

    def add(self, number, told):
        """Add what was compared in one problem, as `compared` returns it."""
        features, counts, largest, found = told
        self.problems += 1
        self.features.update(features)
        self.pairs.update(tuple(sorted(pair)) for pair in combinations(features, 2))
        for mine, more in zip((self.compared, self.refused, self.gave_up), counts, strict=True):
            mine.update(more)
        for kind, size in largest.items():
            if kind not in found:
                self.largest[kind] = max(self.largest.get(kind, 0.0), size)
        for kind, (first, part) in found.items():
            self.found[kind] += 1
            if self.found[kind] <= MOST_OF_A_KIND:
                self.shown.append((number, first, part))
                print(f"FOUND in problem {number}, {kind}: {first.what[:200]}", flush=True)

    def run(self, until, jobs):
        """Compare problems 0, 1, 2, ... until some time, several at once; what is added is added in their order."""
        begun = shown = time.monotonic()
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            waiting, number = deque(), 0
            while waiting or time.monotonic() < until:
                while len(waiting) < 4 * jobs and time.monotonic() < until:
                    waiting.append((number, pool.submit(compared, self.seed, number)))
                    number += 1
                if waiting:
                    first, answer = waiting.popleft()
                    self.add(first, answer.result())
                if time.monotonic() > shown + 60:
                    shown = time.monotonic()
                    minutes, found = (shown - begun) / 60, sum(self.found.values())
                    print(f"{minutes:5.1f} min {self.problems:7,d} problems, {found} found", flush=True)

    def write(self):
        """Shrink what was found, print it and write it to files; return their paths."""
        paths = []
        for number, found, part in self.shown:
            one = problem(self.seed, number)
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
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="problems that are compared at once")
    told = parser.parse_args()
    audit, begun = Audit(told.seed), time.monotonic()
    if told.only is not None:
        audit.add(told.only, compared(told.seed, told.only))
        audit.write()
        print(*sorted(audit.features), sep=", ")
        print(f"{sum(audit.compared.values())} comparisons, {sum(audit.found.values())} found")
        return bool(audit.found)
    print(f"seed {told.seed}", flush=True)
    audit.run(begun + 60 * told.minutes * (1 - SHARE_OF_COVERAGE), told.jobs)
    seldom = coverage(told.seed, 60 * told.minutes * SHARE_OF_COVERAGE)
    audit.report(time.monotonic() - begun)
    paths = audit.write()
    print(f"\nfound: {sum(audit.found.values())} differences, {seldom} coverages" + "".join(f"\n    {path}" for path in paths))
    return bool(audit.found) or bool(seldom)


if __name__ == "__main__":
    sys.exit(main())
