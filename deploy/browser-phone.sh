#!/usr/bin/env bash
# Builds the telephone for browsers, examples/browser-phone/phone.bundle.js, with
# exactly the packages of its package-lock.json.
#
# Exit status: 0 it is there; 3 npm is missing or cannot reach its packages now.
set -euo pipefail

cd "$(dirname "$0")/../examples/browser-phone"
if [ phone.bundle.js -nt phone.js ] && [ phone.bundle.js -nt package-lock.json ]; then
  exit 0
fi
if ! command -v npm >/dev/null; then
  echo "browser-phone: npm is missing; deploy/install-deps.sh test installs it" >&2
  exit 3
fi
# No install scripts are run: the bundler needs none where its binary is a package.
if ! npm ci --ignore-scripts --no-audit --no-fund --loglevel=error; then
  echo "browser-phone: the packages could not be fetched" >&2
  exit 3
fi
npm run --silent build -- --log-level=warning
