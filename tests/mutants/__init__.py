"""Mutants: one small change of the source at a time, and a test must fail. What survives shows what no test would notice.

sites      where a source file can be changed, and how
reach      which tests run which lines (a plugin of pytest)
running    a copy of the source in which one file is changed, and the tests that belong to it
__main__   the command, and the table in docs/reliability.md

`make mutants` tries some hundreds. `equivalent.json` lists those that change nothing that can be seen, each with its reason.
"""
