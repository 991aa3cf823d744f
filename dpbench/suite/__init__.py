"""A benchmark that outsiders can enter: frozen problems, and scores over certified lower bounds.

problems (and the places of their laws) → entries (of the catalogue; remote: of files, whose code
runs in worker, confined by the kernel, and is asked through process) → checks (promises, and an
audit) → measure (scores; scoring: of a file's entry, with audits on the same data) → table (stored
scores) → compare (profiles, the best of each). `dpbench.commands.suite` is the command.
"""
