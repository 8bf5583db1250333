# Shared by scripts/run and scripts/test: find Python, make .venv, install requirements once per change of them.
set -eu
cd "$(dirname "$0")/.."

fail() { printf '%s\n' "$1" >&2; exit 1; }

find_python() {
    for name in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
        [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 || continue
        "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' && { printf '%s' "$name"; return; }
    done
    fail "Python 3.11 or newer is needed and was not found. Install it (Debian/Ubuntu: apt-get install python3 python3-venv)
or name it: PYTHON=/path/to/python3 $0"
}

make_venv() {
    [ -x .venv/bin/python ] && .venv/bin/python -m pip --version >/dev/null 2>&1 && return
    python=$(find_python)
    rm -rf .venv
    "$python" -m venv .venv || fail "Could not make .venv with $python. On Debian/Ubuntu: apt-get install python3-venv"
}

# install FILE…: each is skipped while its stamp says that exactly this file was installed.
install() {
    for file in "$@"; do
        wanted=$(cksum <"$file")
        [ "$(cat ".venv/installed-$file" 2>/dev/null)" = "$wanted" ] && continue
        echo "Installing $file into .venv …"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$file" ||
            fail "The installation failed. Check the network or the package index (pip config list), then run $0 again."
        printf '%s' "$wanted" >".venv/installed-$file"
    done
}
