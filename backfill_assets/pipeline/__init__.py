"""The tenant: the tables of this product. Contracts, pure transforms and their binding to settings live here.

Does not live here: how tables are written, checked and scheduled; that core serves any other pipeline as well.
"""
