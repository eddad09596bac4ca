#!/bin/sh
# Law: when this script ends well, .venv holds what requirements.lock names, hash by hash, and this
# package as an editable install; and nothing was written outside .venv (but pip's own cache).
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
inside=.venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK=1

stop() {
    echo "tidegate: $*" >&2
    exit 1
}

check_python() {
    command -v "$python" >/dev/null 2>&1 ||
        stop "'$python' was not found; install Python 3.10 or newer," \
            "or name one: make PYTHON=python3.11 ..."
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        stop "'$python' is $("$python" -V 2>&1), but tidegate needs 3.10 or newer;" \
            "install one and name it: make PYTHON=python3.11 ..."
    "$python" -c 'import venv' 2>/dev/null ||
        stop "'$python' lacks the module venv; install the complete Python" \
            "(Debian, Ubuntu: apt-get install python3 python3-venv)."
}

# Debian divides ensurepip from Python. Its package with pip's wheel is unpacked inside .venv, which
# serves as well as installing it and leaves the system as it was.
unpack_pip() {
    mkdir -p .venv/pip-wheel
    (
        cd .venv/pip-wheel
        [ "$(id -u)" -ne 0 ] || apt-get -qq -o DPkg::Lock::Timeout=120 update >&2 || true
        apt-get -qq download python3-pip-whl >&2 && dpkg-deb -x python3-pip-whl_*.deb .
    ) || return 1
    wheel=$(ls .venv/pip-wheel/usr/share/python-wheels/pip-*.whl | head -n 1)
    "$inside" "$wheel/pip" install --quiet --no-index "$wheel" && rm -r .venv/pip-wheel
}

create_venv() {
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv --clear .venv
        return
    fi
    no_pip="'$python' lacks the module ensurepip; install it (Debian, Ubuntu: python3-venv)."
    command -v apt-get >/dev/null 2>&1 || stop "$no_pip"
    "$python" -m venv --clear --without-pip .venv
    echo "tidegate: '$python' lacks ensurepip; fetching Debian's pip into .venv."
    unpack_pip || stop "$no_pip"
}

# On a terminal pip shows its progress; in a log only what went wrong.
if [ -t 1 ]; then quiet=; else quiet=--quiet; fi

if ! "$inside" -m pip --version >/dev/null 2>&1; then
    check_python
    create_venv
fi
echo "tidegate: installing requirements.lock into .venv (at first that takes minutes)."
"$inside" -m pip install $quiet --require-hashes -r requirements.lock
"$inside" -m pip install $quiet --no-deps --no-build-isolation --editable .
