"""Processes that begin quickly: most of what starting one takes is loading modules, and these are forked from one that has them."""

import multiprocessing

MODULES = ["cede.serve.http.app", "uvicorn", "cede.client.client", "cede.fleet.workers"]

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(MODULES)
