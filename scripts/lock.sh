#!/bin/sh
# Law: requirements.lock holds names, versions and hashes of every file of a release, for every
# Python and platform that pyproject.toml admits, and no address: pip's own settings say where from.
#
# Pins that still fit are kept. `make lock LOCK_FLAGS=--upgrade` takes the newest of all, and
# `make lock LOCK_FLAGS="--upgrade-package numba"` the newest of one.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet uv==0.13.7
[ ! -f requirements.lock ] || cp requirements.lock "$scratch/requirements.lock"
# shellcheck disable=SC2086 # LOCK_FLAGS may hold several words
"$scratch/venv/bin/uv" pip compile pyproject.toml --extra spark --extra charts --extra dev \
    --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-annotate \
    --no-config --no-python-downloads --custom-compile-command "make lock" --quiet \
    ${LOCK_FLAGS:-} -o "$scratch/requirements.lock"
if grep -q '://' "$scratch/requirements.lock"; then
    echo "tidegate: the new lock holds an address, so requirements.lock is left as it was." >&2
    exit 1
fi
cp "$scratch/requirements.lock" requirements.lock
echo "tidegate: requirements.lock pins $(grep -c '==' requirements.lock) releases."
