"""The tables of this product and of users: contracts, pure transforms and their binding to
settings.

Not here: writing, checking and scheduling tables, which serve any pipeline.
"""
