#!/bin/sh
# A virtual environment with what pip is asked for, made or mended only where it must be:
#   venv.sh DIRECTORY/STAMP PYTHON NAMED PIP-ARGUMENTS...
# NAMED is "file" if nobody chose PYTHON: then whichever Python made a finished environment will do. What was left
# unfinished, or was made by another Python than the chosen one, is made anew.
set -eu
stamp=$1 python=$2 named=$3
shift 3
home=$(dirname "$stamp")
inside=$home/bin/python
hint="name another: make PYTHON=/path/to/python3"

fail() {
    echo "$1" >&2
    exit 1
}

who() {
    "$1" -c 'import sys; print("%d.%d.%d %s" % (sys.version_info[:3] + (getattr(sys, "base_prefix", ""),)))' 2> /dev/null
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))'
}

check_python() {
    command -v "$python" > /dev/null || fail "There is no $python here. Install Python 3.11 or newer, or $hint"
    wanted=$(who "$python") || fail "$python does not run. Install Python 3.11 or newer, or $hint"
    version=${wanted%% *}
    new_enough "$python" ||
        fail "$python is Python $version, and 3.11 or newer is needed. Install one, or $hint"
}

check_venv() {
    "$python" -c 'import venv, ensurepip' 2> /dev/null ||
        fail "$python (Python $version) has no venv. Install it (Debian, Ubuntu: apt install python3-venv), or $hint"
}

made=
if [ ! -e "$home/unfinished" ] && new_enough "$inside" 2> /dev/null; then made=$(who "$inside"); fi
if [ -z "$made" ] || [ "$named" != file ]; then check_python; else wanted=$made; fi
asked="$wanted: $* $(cat setup.py conf/*.txt | cksum)"
if [ "$made" = "$wanted" ] && [ "$(cat "$stamp" 2> /dev/null)" = "$asked" ]; then exit 0; fi

if [ "$made" != "$wanted" ]; then
    check_venv
    base=$("$python" -c 'import sys; print(sys._base_executable)') # $python itself may be in what is removed now
    rm -rf "$home"
    mkdir -p "$home"
    touch "$home/unfinished"
    "$base" -m venv "$home" || fail "$python (Python $version) could not make $home: see above."
fi
touch "$home/unfinished"
rm -f "$stamp"
echo "Setting up $home ..." >&2
"$inside" -m pip install --disable-pip-version-check --progress-bar off "$@" > "$home/pip.log" 2>&1 || {
    tail -n 40 "$home/pip.log" >&2
    fail "pip could not install what is needed: its reason is above, all it said in $home/pip.log"
}
echo "$asked" > "$stamp"
rm "$home/unfinished"
