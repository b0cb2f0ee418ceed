"""This product's six tables, a file each, upstream first: raw, staging, features,
features_as_known, labels, training.

Each file says columns, key, day, inputs, rules, the settings that reach the rows, and the
transform. Not here: the aggregates that features and labels declare (`pipeline.columns`), and what
is computed (`pipeline.transforms`).
"""
