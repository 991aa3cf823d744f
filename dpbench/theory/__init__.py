"""What theorems predict: rates, instance families, lower bounds."""
