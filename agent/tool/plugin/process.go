package plugin

import (
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"parley/agent/tool"
)

// process is a running plugin as the rest sees it. Tests make one of pipes.
type process struct {
	in     io.WriteCloser
	out    io.ReadCloser
	exited <-chan struct{} // closed when it has ended
	// ask and kill end it and what it has started, nicely and for good.
	ask, kill func() error
	// said is the last of its standard error, on one line.
	said func() string
	// wait returns when everything of it is gone; after exited only.
	wait func()
}

// start runs a plugin's process.
func start(p tool.Process, log *zap.Logger) (*process, error) {
	c, err := p.Start(func(line string, dropped int) {
		log.Info("plugin says", zap.String("text", line), zap.Int("lines_dropped", dropped))
	})
	if err != nil {
		return nil, err
	}
	return &process{in: c.In, out: c.Out, exited: c.Exited, ask: c.Terminate, kill: c.Kill, said: c.Said, wait: c.Wait}, nil
}

// end stops a process: nicely by closing its input and then by asking; then, or at
// once, by force.
func (p *process) end(c *conn, nice bool, log *zap.Logger) {
	c.close()
	if nice && !p.gone(tool.Grace) {
		p.try("terminate", p.ask, log)
		p.gone(tool.Grace)
	}
	p.try("kill", p.kill, log) // the group, even if its first process is gone
	<-p.exited
	// What still holds the output open has left the group.
	t := time.AfterFunc(tool.Grace, func() { p.out.Close() })
	<-c.done
	t.Stop()
	p.in.Close()
	c.write.Wait()
	p.wait()
}

// gone waits at most d for the end.
func (p *process) gone(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
		return false
	}
}

func (p *process) try(what string, do func() error, log *zap.Logger) {
	if err := do(); err != nil {
		log.Warn(fmt.Sprintf("plugin: %s failed", what), zap.Error(err))
	}
}
