"""Results become text here: functions that take values and return strings, and print nothing.

`terminal` makes foreign text safe and lays out tables; one module a subject stands above it.
"""
