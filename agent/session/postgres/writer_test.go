//go:build linux

package postgres_test

func writer(string) int { return 0 }
