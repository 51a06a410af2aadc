#!/usr/bin/env bash
# Fetches the PostgreSQL with pgvector that tests of retrieval use, exactly the packages
# of package-lock.json.
#
# Exit status: 0 it is there; 3 npm is missing or cannot reach its packages now.
set -euo pipefail

cd "$(dirname "$0")"
if [ node_modules -nt package-lock.json ]; then
  exit 0
fi
if ! command -v npm >/dev/null; then
  echo "pgvector: npm is missing; deploy/install-deps.sh test installs it" >&2
  exit 3
fi
if ! npm ci --ignore-scripts --no-audit --no-fund --loglevel=error; then
  echo "pgvector: the packages could not be fetched" >&2
  exit 3
fi
touch node_modules
