"""Card payments, and the truth about them that lands weeks later from another side: labels of a second source.

Lives here: the example `late-truth`. Does not live here: the other examples (`examples`).
"""
