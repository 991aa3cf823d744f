"""Files with which an author of an estimator begins: the estimator, a sweep and a test."""
