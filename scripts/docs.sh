#!/usr/bin/env bash
# Makes the API reference: scripts/docs.sh FOLDER [DOXYGEN]. A warning is an error.
set -euo pipefail
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
"${2:-doxygen}" - < <(cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $out")
