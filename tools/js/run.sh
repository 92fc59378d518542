#!/bin/sh
# Runs the JavaScript tools: `run.sh build` writes the bundles, `run.sh check` checks them and edits nothing.
# Without Node or its packages, `check` prints the reason and succeeds, `build` fails.
set -eu
cd "$(dirname "$0")"

skip() {
  echo "JavaScript: skipped: $1"
  [ "$command" = check ] && exit 0
  exit 1
}

install() {
  command -v node >/dev/null || skip "Node is not installed"
  command -v npm >/dev/null || skip "npm is not installed"
  if [ ! -f node_modules/.installed ] || [ package-lock.json -nt node_modules/.installed ]; then
    npm ci --ignore-scripts --no-audit --no-fund --silent || skip "npm cannot install the packages of tools/js/package-lock.json"
    touch node_modules/.installed
  fi
}

command=${1:?"usage: run.sh build|check"}
install
case $command in
  build) node build.mjs ;;
  check) node build.mjs --check ;;
  *) echo "run.sh: unknown command $command" >&2; exit 2 ;;
esac
