"""All areas by name. Each value is called once in a child process and returns what tries: a function (rng, note) -> Trial."""


def area(module, name):
    def load():
        from importlib import import_module

        return getattr(import_module(f"hunt.{module}"), name)

    return load


AREAS = {
    "calls": area("calls", "one_call"),
    "orders": area("calls", "any_order"),
    "commands": area("calls", "command"),
    "soak": area("calls", "soak"),
    "damaged": area("files", "damaged"),
    "forged": area("files", "forged"),
    "checkpoints": area("files", "checkpoint"),
    "tables": area("files", "table"),
    "killed saves": area("kills", "killed_save"),
    "racing saves": area("kills", "threads_that_save"),
    "threads": area("kills", "threads"),
    "interrupts": area("kills", "interrupts"),
    "interrupted calls": area("kills", "interrupted_calls"),
    "disks": area("kills", "disks"),
    "workers": area("kills", "workers"),
    "parents": area("kills", "parents"),
    "ray workers": area("kills", "ray_workers"),
}
