#!/bin/sh
# Find a Chromium for the browser tests; else install Debian's, if possible. Never fails: without a browser the tests
# skip with a reason.
set -u
for name in "${CUDALENS_CHROMIUM:-}" chromium chromium-browser google-chrome; do
    if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "Installing Chromium with apt-get …"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi
command -v chromium >/dev/null 2>&1 || echo "No Chromium: install one (Debian: sudo apt-get install chromium) or name it in CUDALENS_CHROMIUM."
exit 0
