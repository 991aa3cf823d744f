"""A benchmark that outsiders can enter: frozen problems, and scores over certified lower bounds.

problems (what is asked) → entries (who answers, `own` are this package's) → checks (are they what
they say) → measure (run them) → table (what is stored) → compare (profiles, the best of each).
`command` is ``python -m dpbench suite``.
"""
