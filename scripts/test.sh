#!/usr/bin/env bash
# Configures, builds and runs the tests of one preset: scripts/test.sh PRESET [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

echo "== $preset: configure and build"
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel 2 -- -k 0
echo "== $preset: test"
report=$PWD/build/$preset/tests.xml
status=0
ctest --preset "$preset" --output-junit "$report" "$@" || status=$?

count() { grep -m1 -o "$1=\"[0-9]*\"" "$report" | tr -dc 0-9; }
total=$(count tests)
failed=$(count failures)
skipped=$(($(count skipped) + $(count disabled)))
echo "$preset: $((total - failed - skipped)) passed, $failed failed, $skipped skipped"
exit "$status"
