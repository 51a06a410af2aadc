package sip

// queueLength bounds the requests of one dialog that wait for its handler.
const queueLength = 16

// job is one request that needs the dialog's handler. failed answers it when the
// handler panics.
type job struct{ run, failed func() }

// post queues a job. A goroutine runs the jobs of a dialog one after the other
// while there are any; a dialog at rest has none. False: the queue is full. d.mu
// is held.
func (d *Dialog) post(j job) bool {
	if len(d.queue) >= queueLength {
		return false
	}
	d.queue = append(d.queue, j)
	if !d.running {
		d.running = d.s.spawn(d.work)
	}
	return true
}

func (d *Dialog) work() {
	for {
		d.mu.Lock()
		if len(d.queue) == 0 {
			d.running, d.queue = false, nil
			d.mu.Unlock()
			return
		}
		j := d.queue[0]
		d.queue = d.queue[1:]
		d.mu.Unlock()
		d.do(j)
	}
}

func (d *Dialog) do(j job) {
	defer d.s.recovered("dialog", j.failed, d.logFields)
	j.run()
}
