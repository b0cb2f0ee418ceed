"""Orders of a shop: decimal totals, returns, customers and countries. What lands is made by `generator`.

Lives here: the example `orders`. Does not live here: the other examples (`examples`).
"""
