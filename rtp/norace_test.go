//go:build !race

package rtp

const raced = false
