package e2e

func removePrograms() {}
