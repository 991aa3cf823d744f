"""What theorems predict: rates, instance families, exact lower bounds."""
