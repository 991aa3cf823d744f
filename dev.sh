#!/usr/bin/env bash
# Sets up this checkout's own environment in .venv, or in the folder DPBENCH_VENV, and runs something
# in it, from any folder:
#   bash dev.sh bench [OVERRIDE ...]   dpbench, with results below the current folder
#   bash dev.sh test [OPTION ...]      formatter, linter, types, then pytest with these options;
#                                      --slow runs the tests marked as slow, too
#   bash dev.sh libraries [NAME ...]   other libraries of private means, each into an environment of
#                                      its own below .libraries, for sweep=libraries
#   bash dev.sh docs                   the documentation, in docs/_build, and its examples
#   bash dev.sh python [ARGUMENT ...]  the environment's Python
#   bash dev.sh vega VEGA INTERPRETER  these versions of the library that draws interactive figures,
#                                      by npm, into dpbench/report/interactive
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${DPBENCH_VENV:-$here/.venv}
[[ $venv == /* ]] || venv=$PWD/$venv

find_python() {
    local name
    for name in ${PYTHON:-} python3.13 python3.12 python3.11 python3.14 python3 python; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    echo "dev.sh: Python 3.11 or later is needed and none was found; set PYTHON=/path/to/one" >&2
    exit 2
}

set_up() { # $1: the extras, each of which has those before it: dask; dev; dev,docs
    local wanted found
    wanted=$(cat "$here/pyproject.toml" "$here/constraints.txt" | cksum)
    found=$(cat "$venv/.stamp" 2>/dev/null || true)
    case "$found for $1" in
    "$wanted $1 for $1" | "$wanted dev for dask" | "$wanted dev,docs for "*) return ;;
    "$wanted "*) echo "dev.sh: adding $1 to $venv" >&2 ;;
    *)
        if ! { mkdir -p "$venv" && [ -w "$venv" ]; } 2>/dev/null; then
            echo "dev.sh: $venv: cannot be written; set DPBENCH_VENV=DIR, or copy the checkout" >&2
            exit 2
        fi
        echo "dev.sh: setting up $venv" >&2
        "$(find_python)" -m venv --clear "$venv"
        ;;
    esac
    # the pip of older Pythons reads the lists of a package index in twice the time
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --upgrade pip >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
        --constraint "$here/constraints.txt" --editable "$here[$1]" >&2
    # pip compiles on one core, and all; what is left out here is hardly ever loaded, or compiled
    # when it is; some files are of other Pythons
    local seldom='dask|fontTools|fsspec|mypyc?|pip|pkg_resources|pygments|selenium|setuptools|tests?|trio'
    "$venv/bin/python" -m compileall -qq -j 0 -x "/($seldom)/" "$venv/lib" >&2 || true
    echo "$wanted $1" >"$venv/.stamp"
}

command=${1:-}
shift || true
case "$command" in
bench)
    case "${1:-}" in site) set_up dev,docs ;; *) set_up dask ;; esac
    DPBENCH_COMMAND="bash $0 bench" exec "$venv/bin/python" -m dpbench "$@"
    ;;
test)
    case " $* " in *" --slow "*) set_up dev,docs ;; *) set_up dev ;; esac
    cd "$here"
    unset PYTHONDONTWRITEBYTECODE # else every process that a test starts compiles all again
    "$venv/bin/ruff" format --check
    "$venv/bin/ruff" check
    "$venv/bin/python" -m compileall -qq -j 0 dpbench tests # once, and not in every worker
    # on one core; to look for garbage takes it a fifth of its time
    "$venv/bin/python" -c 'import gc; gc.disable(); import mypy.__main__ as m; m.console_entry()' &
    tests=0
    # One worker more than cores, because some tests wait for processes; each on one thread.
    workers=$(($(getconf _NPROCESSORS_ONLN) + 1))
    export OPENBLAS_NUM_THREADS=1
    # The C library keeps freed arrays: to get pages from the system again takes a tenth of the time.
    export MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=268435456
    # to rewrite asserts takes every worker seconds: what fails is run again, for what they compare
    "$venv/bin/python" -m pytest -n "$workers" --dist worksteal --assert=plain --durations=10 "$@" || tests=$?
    [ "$tests" != 1 ] || "$venv/bin/python" -m pytest -n 0 --last-failed "$@" || true
    wait $! || exit 1
    exit "$tests"
    ;;
libraries)
    set_up dask
    cd "$here"
    DPBENCH_COMMAND="bash $0 bench" exec "$venv/bin/python" -m dpbench libraries "$@"
    ;;
docs)
    set_up dev,docs
    cd "$here"
    "$venv/bin/python" -m dpbench site out=docs/_build
    exec "$venv/bin/python" -m pytest --doctest-modules dpbench # the examples of docstrings
    ;;
python)
    set_up dev
    DPBENCH_COMMAND="bash $0 bench" exec "$venv/bin/python" "$@"
    ;;
vega)
    packages=$(mktemp -d)
    trap 'rm -r "$packages"' EXIT
    npm install --silent --no-save --prefix "$packages" "vega@$1" "vega-interpreter@$2"
    cd "$packages/node_modules"
    target=$here/dpbench/report/interactive
    { # one classic script: the interpreter is published as a module only, which pages on disk cannot load
        echo "/* vega $1 and vega-interpreter $2, see vega-LICENSE.txt; updated by: bash dev.sh vega $1 $2 */"
        cat vega/build/vega.min.js
        sed -e "s/^import \(.*\) from 'vega-util';/{ const \1 = vega;/" -e '/^\/\/# source/d' \
            -e 's/^export { expression as \(.*\) };/vega.\1 = expression; }/' \
            vega-interpreter/build/vega-interpreter.js
    } >"$target/vega.js"
    for package in vega vega-interpreter d3-* delaunator internmap robust-predicates topojson-client; do
        printf '%s\n\n' "$package $(sed -n 's/^  "version": "\(.*\)",/\1/p' "$package/package.json")"
        cat "$package"/LICENSE*
        printf '\n\n'
    done >"$target/vega-LICENSE.txt"
    ;;
*)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
esac
