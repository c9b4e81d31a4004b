#!/usr/bin/env bash
# Formats the C++ sources with clang-format 16, or with --check names the files that differ:
# scripts/format.sh [--check] [clang-format]
set -euo pipefail
cd "$(dirname "$0")/.."
mode=-i
if [[ ${1:-} == --check ]]; then
  mode=--check
  shift
fi
tool=${1:-clang-format-16}

shopt -s globstar nullglob
files=({include,policies,kernels,tests,bench,examples}/**/*.{hpp,cpp,cuh,cu})
if [[ $mode == -i ]]; then
  exec "$tool" --style=file -i "${files[@]}"
fi
status=0
for file in "${files[@]}"; do
  if ! "$tool" --style=file --dry-run --Werror "$file" 2>/dev/null; then
    echo "$file: not formatted, run: make format"
    status=1
  fi
done
exit "$status"
