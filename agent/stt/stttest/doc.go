// Package stttest tests recognisers: Run is the suite that every stt.Recognizer
// passes, and Fake is a recogniser that follows a script, for the tests of other
// rooms.
package stttest
