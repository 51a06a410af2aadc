package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// family is the kind of key that an algorithm uses. Keys are told apart by it
// from the moment they are read, so a public key is never taken for a shared
// secret (RFC 8725 section 2.1).
type family int

const (
	familyHMAC family = iota + 1
	familyRSA
	familyEC
	familyEd25519
)

// algorithm is one of the signatures of RFC 7518 section 3.1 and RFC 8037.
type algorithm struct {
	family family
	method jwt.SigningMethod
	bits   int // HMAC: of the hash, the least a secret must have. EC: of the curve
}

// algorithms are all there are. "none" is not among them.
var algorithms = map[string]algorithm{
	"HS256": {familyHMAC, jwt.SigningMethodHS256, 256},
	"HS384": {familyHMAC, jwt.SigningMethodHS384, 384},
	"HS512": {familyHMAC, jwt.SigningMethodHS512, 512},
	"RS256": {familyRSA, jwt.SigningMethodRS256, 0},
	"RS384": {familyRSA, jwt.SigningMethodRS384, 0},
	"RS512": {familyRSA, jwt.SigningMethodRS512, 0},
	"PS256": {familyRSA, jwt.SigningMethodPS256, 0},
	"PS384": {familyRSA, jwt.SigningMethodPS384, 0},
	"PS512": {familyRSA, jwt.SigningMethodPS512, 0},
	"ES256": {familyEC, jwt.SigningMethodES256, 256},
	"ES384": {familyEC, jwt.SigningMethodES384, 384},
	"ES512": {familyEC, jwt.SigningMethodES512, 521},
	"EdDSA": {familyEd25519, jwt.SigningMethodEdDSA, 0},
}

// algorithmNames are their names, in order.
func algorithmNames() []string { return slices.Sorted(maps.Keys(algorithms)) }

// The bounds of RSA keys in bits: RFC 7518 section 3.3 sets the lower one, and
// above the upper one checking a signature costs more than it proves.
const (
	minRSA = 2048
	maxRSA = 8192
)

// verifyKey is a key that can check signatures.
type verifyKey struct {
	id     string // kid; empty: it may check any token of its kind
	alg    string // the only algorithm it is for; empty: any of its family
	family family
	bits   int // EC: of the curve
	value  any // []byte, *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey
}

// fitting are the keys that may check a token's signature.
func fitting(keys []verifyKey, kid, name string, alg algorithm) []jwt.VerificationKey {
	var out []jwt.VerificationKey
	for _, k := range keys {
		switch {
		case k.family != alg.family:
		case k.family == familyEC && k.bits != alg.bits:
		case k.alg != "" && k.alg != name:
		case kid != "" && k.id != "" && k.id != kid:
		default:
			out = append(out, k.value)
		}
	}
	return out
}

// publicKey makes a verifyKey of a public key, and refuses weak ones.
func publicKey(key any) (verifyKey, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if err := checkRSA(key); err != nil {
			return verifyKey{}, err
		}
		return verifyKey{family: familyRSA, value: key}, nil
	case *ecdsa.PublicKey:
		bits := key.Curve.Params().BitSize
		if bits != 256 && bits != 384 && bits != 521 {
			return verifyKey{}, errors.New("the curve must be P-256, P-384 or P-521")
		}
		return verifyKey{family: familyEC, bits: bits, value: key}, nil
	case ed25519.PublicKey:
		return verifyKey{family: familyEd25519, value: key}, nil
	}
	return verifyKey{}, errors.New("the key is for none of the algorithms RS, PS, ES and EdDSA")
}

func checkRSA(key *rsa.PublicKey) error {
	if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
		return fmt.Errorf("an RSA key of %d bits, must have %d to %d: make a new one", bits, minRSA, maxRSA)
	}
	if key.E < 3 || key.E&1 == 0 {
		return errors.New("an RSA key with a bad exponent: make a new one")
	}
	return nil
}

// checkSecret refuses secrets that can be guessed, and public keys, which are no
// secrets. The error does not show it.
func checkSecret(secret string, alg algorithm) error {
	if strings.Contains(secret, "-----BEGIN") {
		return errors.New("is a key in PEM form, which belongs into key_files: with an HS algorithm everybody who has the public key could sign")
	}
	if need := alg.bits / 8; len(secret) < need {
		return fmt.Errorf("has %d bytes, must have at least %d for %s: make one with \"openssl rand -base64 %d\"", len(secret), need, alg.method.Alg(), need)
	}
	return nil
}

// keys are those of the secret and of the key files.
func (c TokenConfig) keys() ([]verifyKey, error) {
	var out []verifyKey
	if c.Secret != "" {
		out = append(out, verifyKey{family: familyHMAC, value: []byte(c.Secret)})
	}
	for _, name := range c.KeyFiles {
		text, err := readKeyFile(name)
		if err != nil {
			return nil, fmt.Errorf("identity: key_files: %w", err)
		}
		keys, err := publicKeys(text)
		if err != nil {
			return nil, fmt.Errorf("identity: key_files: %s: %w", name, err)
		}
		out = append(out, keys...)
	}
	if len(out) > maxKeys {
		return nil, fmt.Errorf("identity: key_files: %d keys, at most %d", len(out), maxKeys)
	}
	return out, c.used(out)
}

// used sees that there is no algorithm without a key, and no key of a file without
// an algorithm. The keys of JWKS come and go.
func (c TokenConfig) used(keys []verifyKey) error {
	for _, k := range keys {
		if !slices.ContainsFunc(c.Algorithms, func(name string) bool {
			return len(fitting([]verifyKey{k}, "", name, algorithms[name])) > 0
		}) {
			return errors.New("identity: key_files: holds a key that none of algorithms uses: name its algorithm, or take the key away")
		}
	}
	for _, name := range c.Algorithms {
		if c.JWKS == "" && len(fitting(keys, "", name, algorithms[name])) == 0 {
			return fmt.Errorf("identity: algorithms: %q has no key in key_files: add one, or take the algorithm away", name)
		}
	}
	return nil
}

// maxKeyFile bounds the files of keys in bytes.
const maxKeyFile = 256 << 10

// readKeyFile reads a bounded file: a mistaken path may be a device.
func readKeyFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("%s: larger than %d bytes, and so no file of keys", name, maxKeyFile)
	}
	return text, nil
}

// publicKeys reads all public keys and certificates of a PEM file.
func publicKeys(text []byte) ([]verifyKey, error) {
	var out []verifyKey
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		key, err := publicBlock(block)
		if err != nil {
			return nil, err
		}
		k, err := publicKey(key)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	if len(out) == 0 {
		return nil, errors.New("holds no public key in PEM form (-----BEGIN PUBLIC KEY-----)")
	}
	return out, nil
}

func publicBlock(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	}
	if strings.HasSuffix(block.Type, "PRIVATE KEY") {
		return nil, errors.New("holds a private key; only its public one is needed: \"openssl pkey -in FILE -pubout\"")
	}
	return nil, fmt.Errorf("holds a block %q, which is no public key", CleanText(block.Type, 40))
}

// privateKey reads the one private key of a PEM file.
func privateKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return nil, errors.New("holds no private key that is not encrypted: \"openssl pkey -in FILE\" takes the password off")
	}
	if err != nil {
		// The library's error could show what it could not read.
		return nil, errors.New("holds a private key that cannot be read")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("holds a key that cannot sign")
	}
	return signer, nil
}
