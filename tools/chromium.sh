#!/bin/sh
# Find a Chromium for the browser tests; else install Debian's, if possible. Never fails: without a browser the tests
# skip with a reason. The headless shell is preferred: it needs half the CPU time of the whole browser.
set -u
is_there() { [ -n "$1" ] && command -v "$1" >/dev/null 2>&1; }
install() {
    echo "Installing $1 with apt-get …"
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$1" fonts-dejavu-core >/dev/null
}
for name in "${CUDALENS_CHROMIUM:-}" chromium-headless-shell; do
    if is_there "$name"; then exit 0; fi
done
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    apt-get update -qq
    if install chromium-headless-shell; then exit 0; fi
fi
for name in chromium chromium-browser google-chrome; do
    if is_there "$name"; then exit 0; fi
done
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && install chromium; then exit 0; fi
echo "No Chromium: install one (Debian: sudo apt-get install chromium) or name it in CUDALENS_CHROMIUM."
exit 0
