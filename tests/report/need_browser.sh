#!/bin/sh
# A browser for `make test-report`: where there is none, Debian's Chromium is installed, if this user may.
set -eu
for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do
  command -v "$name" >/dev/null && exit 0
done
as_root=
if [ "$(id -u)" != 0 ]; then
  as_root="sudo -n"
  if ! $as_root true 2>/dev/null; then
    echo "test-report: no Chromium or Chrome found, and this user may not install one. Install chromium first." >&2
    exit 1
  fi
fi
if ! command -v apt-get >/dev/null; then
  echo "test-report: no Chromium or Chrome found, and no apt-get to install one with. Install chromium first." >&2
  exit 1
fi
$as_root apt-get -q -o Acquire::Retries=3 update
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 install --no-install-recommends chromium fonts-dejavu-core
