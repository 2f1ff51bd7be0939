#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Make sure of what pip cannot bring: gfortran, g++ (for tests), pkg-config, venv, Python.h; and
# ccache where apt-get is, without which all works but compiles again.
# usage: bootstrap.sh PYTHON [further Debian packages]
set -euo pipefail
python=${1:-python3}
shift || true

missing=()
for package in "$@"; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
command -v gfortran >/dev/null || missing+=(gfortran)
command -v gcc >/dev/null || missing+=(gcc)
command -v g++ >/dev/null || missing+=(g++)
command -v pkg-config >/dev/null || missing+=(pkg-config)
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
"$python" -c '
import pathlib, sys, sysconfig
sys.exit(not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").exists())
' || missing+=(python3-dev)
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "gnograd needs Python 3.10 or newer; choose one with: make PYTHON=python3.x" >&2
  exit 1
}

if ! command -v ccache >/dev/null && command -v apt-get >/dev/null; then
  # nobody is asked for a password because of it alone
  [ "$(id -u)" -ne 0 ] && [ ${#missing[@]} -eq 0 ] || missing+=(ccache)
fi

if [ ${#missing[@]} -gt 0 ]; then
  echo "Installing ${missing[*]}"
  sudo=
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  if ! command -v apt-get >/dev/null || { [ -n "$sudo" ] && ! command -v sudo >/dev/null; }; then
    echo "Please install these packages first: ${missing[*]}" >&2
    exit 1
  fi
  $sudo apt-get -qq update
  DEBIAN_FRONTEND=noninteractive $sudo apt-get -qq install -y --no-install-recommends \
    "${missing[@]}" >/dev/null
fi
