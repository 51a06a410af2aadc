package cascade

import (
	"context"

	"parley/agent"
)

// Open prepares the conversation of one call.
func (o *opener) Open(context.Context, agent.Call) (agent.Session, error) { return &session{}, nil }

type session struct{}

func (*session) Hear([]int16)        {}
func (*session) Notice(agent.Notice) {}
func (*session) Run(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
