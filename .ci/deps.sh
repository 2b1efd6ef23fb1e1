#!/usr/bin/env bash
# deps.sh - installs what the build, the tests and the reports need and says what it does.
#   .ci/deps.sh          what building and `make quickstart` need
#   .ci/deps.sh test     also what tests and lint use
# Debian and its relatives only; elsewhere it prints the list and fails with what is missing.
set -eu
packages="gcc make libc6-dev pkg-config libsqlite3-dev libjansson-dev libcurl4-openssl-dev libgsl-dev
libpcre2-dev libarchive-dev libutf8proc-dev zlib1g-dev python3 python3-pip gnuplot-nox ca-certificates"
[ "${1:-}" = test ] && packages="$packages libcmocka-dev git sqlite3 libxml2-utils jq man-db python3-jsonschema chromium slurm-wlm munge python3-yaml strace openssl"
missing=""
for p in $packages; do
  if command -v dpkg-query >/dev/null 2>&1; then
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' && continue
    case $p in # another package may provide the program
      gnuplot-nox) command -v gnuplot >/dev/null 2>&1 && continue ;;
      python3-pip) python3 -m pip --version >/dev/null 2>&1 && continue ;;
    esac
  fi
  missing="$missing $p"
done
if [ -z "$missing" ]; then
  echo "deps: everything is installed"
  exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
  echo "deps: no apt-get here. Install with your package manager:$missing" >&2
  exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "deps: not root and no sudo. As root: apt-get install -y$missing" >&2
    exit 1
  fi
  as_root=sudo
fi
echo "deps: installing$missing"
$as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq ||
  echo "deps: the package lists could not be refreshed; trying with the ones that are here" >&2
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo "deps: done"
