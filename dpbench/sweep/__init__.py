"""What a sweep asks for: entries, selections, metrics, the plan, and one block of it."""
