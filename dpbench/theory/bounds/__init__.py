"""Lower bounds on the error of every private estimator."""
