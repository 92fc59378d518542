#!/bin/sh
# Runs the JavaScript tools: `run.sh build` writes the bundles, `run.sh fix` lets biome repair and format the sources,
# `run.sh check` runs biome, tsc and a comparison of the bundles, and edits nothing.
# Without Node or its packages, `build` fails; the others print the reason and succeed.
set -eu
cd "$(dirname "$0")"

SOURCES="../../cudalens/views/js build.mjs"

skip() {
  echo "JavaScript: skipped: $1"
  [ "$command" != build ]
  exit $?
}

install() {
  command -v node >/dev/null || skip "Node is not installed"
  command -v npm >/dev/null || skip "npm is not installed"
  if [ ! -f node_modules/.installed ] || [ package-lock.json -nt node_modules/.installed ]; then
    npm ci --ignore-scripts --no-audit --no-fund --silent || skip "npm cannot install the packages of tools/js/package-lock.json"
    touch node_modules/.installed
  fi
}

command=${1:?"usage: run.sh build|fix|check"}
install
case $command in
  build) node build.mjs ;;
  check)
    node_modules/.bin/biome check --log-level=warn $SOURCES
    node_modules/.bin/tsc -p .
    node build.mjs --check
    ;;
  fix) node_modules/.bin/biome check --write $SOURCES ;;
  *) echo "run.sh: unknown command $command" >&2; exit 2 ;;
esac
