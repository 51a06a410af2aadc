#!/bin/bash
# Makes telephone.mllr: how the means of the en-us model move when speech comes over
# G.711 and internal/wide. Synthetic voices say testdata/sentences.txt; the model is
# adapted to them by one linear transform for all of its states (MLLR), which a few
# minutes of any voices are enough for.
#
# Needs Debian's pocketsphinx pocketsphinx-en-us sphinxtrain sphinxbase-utils flite
# sox python3, and Go. Takes about three minutes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
en=/usr/share/pocketsphinx/model/en-us
train=/usr/lib/sphinxtrain
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$here" && go build -o "$work/widen" ./testdata/widen)
cd "$work"
mkdir wav feat hmm acc

n=0
for voice in rms slt awb kal16; do
	while read -r line; do
		n=$((n + 1))
		id=$(printf '%s%03d' "$voice" "$n")
		flite -voice "$voice" -t "$line" -o a.wav
		# Telephones differ in loudness and in how much of the bass they let through.
		sox a.wav -t raw -r 8000 -e signed -b 16 -c 1 a.raw \
			norm -$((4 + n * 5 % 15)) highpass $((100 + n * 37 % 200)) pad 0.3 0.3 dither
		./widen <a.raw >"wav/$id.raw"
		echo "$id" >>ids
		echo "<s> $line </s> ($id)" >>words
	done <"$here/testdata/sentences.txt"
done
sphinx_fe -samprate 16000 -lowerf 130 -upperf 6800 -nfilt 25 -transform dct -lifter 22 \
	-remove_noise yes -remove_silence no \
	-c ids -di wav -ei raw -raw yes -do feat -eo mfc >fe.log 2>&1

# The trainer wants the mixture weights as numbers; the model has their logarithms.
cp $en/en-us/* hmm/
pocketsphinx_mdef_convert -text hmm/mdef mdef.txt >/dev/null 2>&1
python3 - <<'PYTHON'
import array, struct
b = open("hmm/sendump", "rb").read()
at = 0
def number():
    global at
    at += 4
    return struct.unpack("<i", b[at - 4:at])[0]
n = number()  # a title, then lines of text, the last of length 0
at += n
streams = 3
while (n := number()) > 0:
    if b[at:at + n].startswith(b"feature_count"):
        streams = int(b[at:at + n - 1].split()[1])
    at += n
densities, states = number(), number()
weight = [1.0001 ** -(v << 10) for v in range(256)]
rows = [[b[at + (f * densities + d) * states:][:states] for d in range(densities)] for f in range(streams)]
with open("hmm/mixture_weights", "wb") as out:
    out.write(b"s3\nversion 1.0\nendhdr\n" + struct.pack("<I", 0x11223344))
    out.write(struct.pack("<iiii", states, streams, densities, states * streams * densities))
    for s in range(states):
        for f in range(streams):
            array.array("f", (weight[rows[f][d][s]] for d in range(densities))).tofile(out)
PYTHON

$train/bw -hmmdir hmm -moddeffn mdef.txt -ts2cbfn .ptm. \
	-feat 1s_c_d_dd -svspec 0-12/13-25/26-38 -cmn batch -agc none -varnorm no \
	-ctlfn ids -cepdir feat -cepext mfc -lsnfn words \
	-dictfn $en/cmudict-en-us.dict -fdictfn hmm/noisedict -accumdir acc -timing no >bw.log 2>&1
$train/mllr_solve -meanfn hmm/means -varfn hmm/variances -moddeffn mdef.txt \
	-accumdir acc -outmllrfn telephone.mllr >mllr.log 2>&1
mv telephone.mllr "$here/telephone.mllr"
