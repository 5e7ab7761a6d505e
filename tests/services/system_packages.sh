#!/usr/bin/env bash
# Sees that the programs which tests need from the system are there; installs them where that takes no question.
set -euo pipefail
PATH="$PATH:/usr/sbin:/sbin"  # sshd and ip are there, which not everybody's path names

missing=()
need() {
    command -v "$1" >/dev/null || missing+=("$2")
}
need chromium chromium
need sshd openssh-server
need git git
need curl curl
need jq jq
if [ "$(uname)" = Linux ]; then
    need ip iproute2
fi
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo -n"
fi

install_missing() {
    local apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y"
    # Packages may be known already; else their lists are missing or old.
    $apt install --no-install-recommends "${missing[@]}" ||
        { $apt update && $apt install --no-install-recommends "${missing[@]}"; }
}

said="apt-get is not here, or not allowed without a password"
if command -v apt-get >/dev/null && $as_root true 2>/dev/null; then
    echo "Installing what tests need from the system (once): ${missing[*]} …" >&2
    said=$(install_missing 2>&1) && exit 0
fi
echo "Tests that need ${missing[*]} will fail until you install that, on Debian by: apt-get install ${missing[*]}" \
    "($(tail -n 1 <<<"$said"))" >&2
