#!/usr/bin/env bash
# Installs what building and testing B10 needs on Debian 12, and only what is missing.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config python3
  libucx-dev libssl-dev libboost1.81-dev nlohmann-json3-dev
  libzmq3-dev cppzmq-dev
  catch2 libbenchmark-dev
  clang-16 libclang-rt-16-dev clang-format-16 clang-tidy-16
  doxygen
)

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not a Debian system; please install yourself: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  if [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) != "install ok installed" ]]; then
    missing+=("$package")
  fi
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: packages are missing, and this user is neither root nor has sudo. As root, run:" >&2
    echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
install=(apt-get install -y -q --no-install-recommends)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q
"${as_root[@]}" "${install[@]}" "${missing[@]}"
