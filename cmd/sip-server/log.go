package main

import (
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"parley/config"
)

// newLog makes the log: lines to read on a terminal, JSON for machines.
func newLog(cfg config.Log, w io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(cfg.Level)
	if err != nil {
		return nil, err
	}
	terminal := isTerminal(w)
	var encoder zapcore.Encoder
	if cfg.Format == "console" || cfg.Format == "auto" && terminal {
		c := zap.NewDevelopmentEncoderConfig()
		c.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		c.EncodeLevel = zapcore.CapitalLevelEncoder
		if terminal && os.Getenv("NO_COLOR") == "" {
			c.EncodeLevel = zapcore.CapitalColorLevelEncoder
		}
		c.EncodeDuration = zapcore.StringDurationEncoder
		c.ConsoleSeparator = "  "
		c.CallerKey, c.NameKey = zapcore.OmitKey, zapcore.OmitKey
		encoder = zapcore.NewConsoleEncoder(c)
	} else {
		c := zap.NewProductionEncoderConfig()
		c.EncodeTime = zapcore.RFC3339NanoTimeEncoder
		c.EncodeDuration = zapcore.StringDurationEncoder
		c.CallerKey = zapcore.OmitKey
		encoder = zapcore.NewJSONEncoder(c)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level), zap.ErrorOutput(zapcore.Lock(os.Stderr))), nil
}

// isTerminal says whether w is a device for a reader, not a file or a pipe.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
