"""What theorems predict: rates, instance families, lower bounds and exact errors."""
