"""Change the source in one place at a time, and see whether a test fails; what came out goes into docs/reliability.md.

python -m mutants --count 300 --seed 1        (in tests/; `make mutants` does this; goes on where it was stopped)
python -m mutants --files 'learners/*'        mutants of some files only
python -m mutants --only 0123abcd             one again
python -m mutants --page                      bring docs/reliability.md up to date with the result file
"""

import argparse
import fnmatch
import hashlib
import json
import os
import re
import sys
import time
import traceback
from collections import Counter
from datetime import date
from pathlib import Path

from mutants.running import ROOT, SECONDS, SOURCE, TESTS, WORK, Map, Tree, files, run, stages_of, warm
from mutants.sites import is_kernel, mutants_of, sampled

HERE = TESTS / "mutants"
FILE, REASONS, PAGE = HERE / "result.json", HERE / "equivalent.json", ROOT / "docs" / "reliability.md"
BEGIN, END = (
    "<!-- made by `make mutants` from tests/mutants/result.json, not by hand -->",
    "<!-- end of what the mutants showed -->",
)
KILLED, SURVIVED, EQUIVALENT = "killed", "survived", "equivalent"


def number_of(mutant):
    """A short name of a mutant."""
    return hashlib.sha256(mutant.key.encode()).hexdigest()[:8]


def tried(tree, tests, mutant, near=False):
    """Try one mutant; return what became of it, and by what. near: only with the tests of its own package."""
    text, passed = (SOURCE / mutant.file).read_text(), 0
    for stage in tests.stages(mutant):
        if stage:
            end, by = tried_on(tree, stage, tests.seconds(stage), mutant, text)
            if end == KILLED:
                return end, by
            passed += len(stage)
        if near:
            break
    return SURVIVED, f"{passed} tests passed" if passed else "no test runs this line"


def tried_on(tree, stage, seconds, mutant, text):
    """Try one mutant with some tests."""
    out = WORK / f"{tree.root.name}.txt"
    back = tree.changed(mutant.file, mutant.applied(text))
    try:
        code = run(tree, stage, 2.0 * seconds + (200.0 if is_kernel(mutant.file) else 30.0), out)
    finally:
        back()
    if code == 0:
        return SURVIVED, ""
    told = out.read_text(errors="replace")
    failed = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(.+?)(?: - .*)?$", told, re.MULTILINE)
    if failed or code is None or code < 0:
        return KILLED, failed[1] if failed else "endless" if code is None else f"crash ({-code})"
    if "while loading conftest" in told:
        return KILLED, "nothing could be imported"
    raise RuntimeError(f"pytest ended with {code}: {told[-2000:]}")


class Book:
    """What became of mutants so far, on disk: a mutant whose file has not changed since it was killed is not tried again."""

    def __init__(self, path):
        self.path = path
        self.told = json.loads(path.read_text()) if path.exists() else {}

    def line(self, mutant, text):
        return f"{number_of(mutant)} {hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def write(self, line, what):
        self.told[line] = what
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.told, indent=0))
        new.replace(self.path)


def reasons():
    """Why mutants that survive change nothing that can be seen, by the key of the mutant."""
    return json.loads(REASONS.read_text()) if REASONS.exists() else {}


def worker(number, mutants, texts, told):
    """Try some mutants in a tree of one's own."""
    warm()
    tree = Tree(number).refreshed()
    book, before, tests = Book(WORK / f"book{number}.json"), all_ends(), None
    why = reasons()
    for i, mutant in enumerate(mutants):
        line = book.line(mutant, texts[mutant.file])
        kept = before.get(line)
        if mutant.key in why and not told.only:
            continue
        if kept and (kept["end"] == KILLED or told.keep) and not told.only:
            continue
        tests = tests or Map(tree.compiled(), told.seconds)
        begun = time.monotonic()
        end, by = tried(tree, tests, mutant, told.near)
        spent = time.monotonic() - begun
        book.write(line, {"end": end, "by": by, "seconds": round(spent, 1)})
        place = f"{mutant.file}:{mutant.line} {mutant.change}"
        print(f"{i + 1}/{len(mutants)} {number_of(mutant)} {end:8s} {spent:5.1f} s  {place}   {by}", flush=True)
        if end == SURVIVED:
            print(f"    {mutant.where}: {mutant.code}", flush=True)


def all_ends():
    """What became of all mutants, from the books of all workers; what one of them saw killed is killed."""
    told = [item for path in sorted(WORK.glob("book*.json")) for item in Book(path).told.items()]
    return dict(sorted(told, key=lambda item: item[1]["end"] == KILLED))


def result_of(mutants, texts, told):
    """What goes into the result file."""
    book, ends, why = Book(WORK / "none.json"), all_ends(), reasons()
    lines = []
    for mutant in mutants:
        kept = ends.get(book.line(mutant, texts[mutant.file]))
        if kept is None and mutant.key not in why:
            continue
        line = {"number": number_of(mutant), "file": mutant.file, "line": mutant.line, "in": mutant.where, "code": mutant.code}
        line["change"] = mutant.change
        line |= {"end": EQUIVALENT, "by": why[mutant.key]} if mutant.key in why else {"end": kept["end"], "by": kept["by"]}
        lines.append(line)
    about = {"date": date.today().isoformat(), "seed": told.seed, "count": len(mutants), "near": told.near}
    return {**about, "mutants": lines}


def is_complete(told):
    """Whether a result file holds all mutants of its sample, each tried with all tests that belong to it."""
    return len(told["mutants"]) == told["count"] and not told["near"]


def table(told):
    """The result file as Markdown."""
    lines = ["| package | mutants | killed | equivalent | survived | score |", "|---|---:|---:|---:|---:|---:|"]
    counts = {}
    for mutant in told["mutants"]:
        counts.setdefault(mutant["file"].split("/")[0], Counter())[mutant["end"]] += 1
    counts["**all**"] = sum(counts.values(), Counter())
    for package, ends in counts.items():
        total = sum(ends.values())
        score = ends[KILLED] / max(1, total - ends[EQUIVALENT])
        name = package if "*" in package else f"`{package}`"
        lines.append(f"| {name} | {total} | {ends[KILLED]} | {ends[EQUIVALENT]} | {ends[SURVIVED]} | {score:.1%} |")
    part = "" if is_complete(told) else f"Unfinished: {len(told['mutants'])} of {told['count']}, with the nearest tests only. "
    lines += ["", f"*{part}Seed {told['seed']}, {told['date']}. Score: killed, of those that are not equivalent.*"]
    for end, title in ((SURVIVED, "Survived"), (EQUIVALENT, "Equivalent: what changes cannot be seen")):
        found = [mutant for mutant in told["mutants"] if mutant["end"] == end]
        if found:
            lines += ["", f"{title}:", ""]
        for mutant in found:
            lines.append(f"- `{mutant['file']}`, `{mutant['in'] or 'on import'}`: {shown(mutant)}. {mutant['by']}")
    return "\n".join(lines)


def shown(mutant):
    code = mutant["code"].split("  #")[0]
    return f"`{mutant['change']}` in `{code}`" if "`" not in code + mutant["change"] else mutant["change"]


def with_table(text, told):
    """The page with its table brought up to date."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{table(told)}\n{END}{rest.split(END)[1]}"


def main():
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first worker, so that two runs do not share a copy of the source"
    )
    parser.add_argument("--files", default="*", help="a pattern of files within src/cede")
    parser.add_argument("--only", help="the number of one mutant, of all that there are")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests that are tried on a mutant, twice: near, and far")
    parser.add_argument("--near", action="store_true", help="only with the tests of the mutant's own package")
    parser.add_argument("--keep", action="store_true", help="do not try again what survived before")
    parser.add_argument("--out", type=Path, default=WORK / "result.json")
    parser.add_argument("--page", action="store_true", help="write the table of the result file into docs/reliability.md")
    told = parser.parse_args()
    if told.page:
        PAGE.write_text(with_table(PAGE.read_text(), json.loads(FILE.read_text())))
        return 0
    WORK.mkdir(parents=True, exist_ok=True)
    texts = {file: (SOURCE / file).read_text() for file in files()}
    chosen = sampled(texts, told.count, told.seed)
    mutants = [mutant for mutant in chosen if fnmatch.fnmatch(mutant.file, told.files)]
    if told.only:
        mutants = [m for file, text in texts.items() for m in mutants_of(file, text) if number_of(m) == told.only]
    work(mutants, texts, told)
    result = result_of(mutants, texts, told)
    told.out.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result).split("\n\nSurvived")[0])
    ends = Counter(mutant["end"] for mutant in result["mutants"])
    return ends[KILLED] < 0.95 * (ends[KILLED] + ends[SURVIVED])


def work(mutants, texts, told):
    """Share the mutants among workers, each each a process with a tree of its own. What is tried first is a sample, too."""
    order = sorted(mutants, key=number_of)
    if told.workers == 1:
        worker(told.first, order, texts, told)
        return
    warm()
    names = sorted({name for mutant in order for names in stages_of(mutant)[: 1 if told.near else 2] for name in names})
    side_by_side(told.workers, lambda number: measure(number, names[number :: told.workers]))
    side_by_side(told.workers, lambda number: worker(number, order[number :: told.workers], texts, told))


def measure(number, names):
    """Find out which lines the tests of some files run."""
    tests = Map(Tree(number).refreshed().compiled())
    for name in names:
        tests.of(name)


def side_by_side(workers, job):
    """Do a job in so many processes at once. job: a function of the number of the process."""
    pids = []
    for number in range(workers):
        pid = os.fork()
        if pid == 0:
            try:
                job(number)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main())
