"""Verbs on a lake that need neither Dagster nor a JVM: status, show, doctor.

Lives here: answers about a lake, as frozen values that every caller prints. Does not live here:
printing them (`cli`), and anything that writes (`lake`, `orchestration`).
"""
