#!/usr/bin/env bash
# Installs the Debian packages that Parley needs, and only those that are missing.
#
#   deploy/install-deps.sh [GROUP...]
#
#   build   to build and run with the embedded recogniser and voice (default)
#   weights the client that fetches the weights of the neural voice detector
#   demo    the recorded speech that `make demo` speaks with
#   test    the telephones, tools, sounds and the database of `make test`
#
# Run it as root, or as a user with sudo. It starts no service. Quick when all is
# there. Go itself is not installed: see the README.
set -euo pipefail

declare -A packages=(
  [build]="ca-certificates gcc libc6-dev pkg-config libopus-dev libopusfile-dev flite1-dev libpocketsphinx-dev libsphinxbase-dev pocketsphinx-en-us"
  [weights]="npm"
  [demo]="asterisk-core-sounds-en-wav"
  [test]="sip-tester baresip-core linphone-cli kamailio kamailio-tls-modules tshark tcpdump sox asterisk-core-sounds-en-wav asterisk-core-sounds-en-g722 pocketsphinx-testdata iproute2 iputils-ping procps python3 nodejs npm python3-flask node-express chromium postgresql make git curl"
)

groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(build)

wanted=()
for group in "${groups[@]}"; do
  if [ -z "${packages[$group]:-}" ]; then
    echo "install-deps: no group \"$group\"; there are: build weights demo test" >&2
    exit 2
  fi
  read -ra more <<<"${packages[$group]}"
  wanted+=("${more[@]}")
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install-deps: this is no Debian or Ubuntu; install the equivalents of: ${wanted[*]}" >&2
  exit 1
fi

# missing prints those of its arguments that are not installed. A command that is
# there without its package (Node from elsewhere) counts as installed.
missing() {
  local package
  for package; do
    case $package in
      nodejs) command -v node >/dev/null && continue ;;
      gcc | make | git | curl | python3 | npm) command -v "$package" >/dev/null && continue ;;
    esac
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

mapfile -t todo < <(missing "${wanted[@]}" | sort -u)
if [ ${#todo[@]} -eq 0 ]; then
  echo "install-deps: ${groups[*]}: all there"
  exit 0
fi
echo "install-deps: ${groups[*]}: installing ${todo[*]}"

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-deps: neither root nor sudo; run as root: apt-get install -y --no-install-recommends ${todo[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a apt-get -q \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Options::=--force-confold "$@"
}

# again runs a command up to three times: mirrors have bad moments.
again() {
  local try
  for try in 1 2 3; do
    "$@" && return 0
    echo "install-deps: attempt $try of 3 failed: $*" >&2
    sleep $((try * 5))
  done
  return 1
}

# Packages may not start services here; a rule that is there already stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi

again apt update
again apt install -y --no-install-recommends "${todo[@]}"

mapfile -t left < <(missing "${todo[@]}")
if [ ${#left[@]} -gt 0 ]; then
  echo "install-deps: still missing: ${left[*]}" >&2
  exit 1
fi
echo "install-deps: ${groups[*]}: done"
