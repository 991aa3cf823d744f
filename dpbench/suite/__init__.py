"""A benchmark that outsiders can enter: frozen problems, and scores over certified lower bounds.

problems (what is asked) → entries (who answers: the catalogue's, and files of others) → checks (are
they what they say) → measure (run them) → table (what is stored) → compare (profiles, the best of
each). `dpbench.commands.suite` is ``python -m dpbench suite``.
"""
