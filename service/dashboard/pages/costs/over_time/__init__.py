"""Costs over time: the chart, the matrix of groups and buckets, and the form of the question."""
