"""Loads what servers and planners need, kernels included, before they are forked: one that is killed soon was at work by then."""

from importlib import import_module

import cede
from service_traffic import play, river

log = {name: column for name, column in play(1, 2, 0).items() if name not in ("team", "t")}
learner = cede.recommended(river().task)
learner.learn_from(log, progress=False)
import_module("cede.serve.http.app")
