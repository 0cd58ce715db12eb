# What a developer types; `just` lists it.

bin := ".venv/bin"

_list:
    @just --justfile {{justfile()}} --list --unsorted

# A fresh environment for development
setup:
    python3 -m venv .venv && {{bin}}/pip install -e '.[test]'

# The tests, or some of them
test *words:
    {{bin}}/pytest {{words}}

# Format, lint, types, layers
check:
    {{bin}}/ruff format . && {{bin}}/ruff check . && {{bin}}/mypy && {{bin}}/lint-imports

# Write the commands' help and what its console blocks print into the README
help:
    {{bin}}/python tests/readme.py

# How long commands take to start, as multiples of `python -c pass`
start-up:
    {{bin}}/python -m tests.benchmarks start-up --all

# What the commands cost on large and hard logs, as the README shows it; names run only those cases
bench *words:
    {{bin}}/python -m tests.benchmarks {{words}}

# Mutated logs against the commands, ten minutes of them
fuzz *words:
    {{bin}}/python tests/fuzz.py --seconds 600 {{words}}

# Four hundred processes killed at any moment while they append and compact
crash:
    DSHC_KILLS=400 {{bin}}/pytest -s -k killed tests/test_processes.py

# All that must hold before a change lands, on a copy
ci:
    .ci/run
