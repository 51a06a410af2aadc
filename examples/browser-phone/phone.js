// A telephone in a web page: SIP over WebSocket by JsSIP, sound by the browser.
import JsSIP from 'jssip';

// Call dials target over the WebSocket at server and tells on(event, detail) what
// happens: 'ringing', 'up', 'ended' with a cause, and 'sound' with a MediaStream.
export class Call {
  constructor(server, target, { user = 'browser', password, constraints = true, sdp, on = () => {} } = {}) {
    const host = target.replace(/^sips?:/, '').split('@').pop().split(/[;:?]/)[0];
    this.on = on;
    this.ua = new JsSIP.UA({
      sockets: [new JsSIP.WebSocketInterface(server)], uri: `sip:${user}@${host}`, password, register: false, session_timers: false,
    });
    this.ua.on('connected', () => this.dial(target, constraints, sdp));
    this.ua.on('disconnected', (e) => e.error && this.end('no connection to ' + server));
    this.ua.start();
  }

  dial(target, audio, sdp) {
    if (this.session) return;
    const session = this.ua.call(target, {
      mediaConstraints: { audio, video: false },
      // The server has an address that everybody reaches: no STUN or TURN server is
      // needed.
      pcConfig: { iceServers: [] },
    });
    this.session = session;
    const listen = (pc) => pc.addEventListener('track', (e) => this.on('sound', e.streams[0] || new MediaStream([e.track])));
    if (session.connection) listen(session.connection);
    session.on('peerconnection', (e) => listen(e.peerconnection));
    if (sdp) session.on('sdp', sdp);
    session.on('progress', () => this.on('ringing'));
    session.on('confirmed', () => this.on('up'));
    session.on('ended', (e) => this.end(e.cause));
    session.on('failed', (e) => this.end(e.message?.status_code ? `${e.message.status_code} ${e.message.reason_phrase}` : e.cause));
  }

  // press sends keys, 0-9 * # A-D (RFC 4733).
  // Before the call is up there is nobody to hear them.
  press(keys) { if (this.session?.isEstablished()) this.session.sendDTMF(keys, { transportType: 'RFC2833', duration: 120 }); }

  mute(on) { on ? this.session?.mute() : this.session?.unmute(); }

  hold(on) { on ? this.session?.hold() : this.session?.unhold(); }

  hangUp() { this.session?.isEnded() === false ? this.session.terminate() : this.end('hung up'); }

  end(cause) {
    if (this.over) return;
    this.over = true;
    this.on('ended', cause);
    setTimeout(() => this.ua.stop(), 500); // after the answer to a BYE
  }
}

// The page's own buttons, when it has them.
function page() {
  const $ = (id) => document.getElementById(id);
  if (!$('call')) return;
  let call;
  const say = (text) => { $('state').textContent = text; };
  $('server').value ||= `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.hostname || '127.0.0.1'}:${location.protocol === 'https:' ? 5443 : 5080}`;
  $('call').onclick = () => {
    if (call) return call.hangUp();
    const host = new URL($('server').value).hostname;
    say('connecting');
    $('call').textContent = 'Hang up';
    call = new Call($('server').value, `sip:${$('number').value}@${host}`, {
      user: $('user').value || undefined, password: $('password').value || undefined,
      constraints: { echoCancellation: true, noiseSuppression: true, autoGainControl: true },
      on: (event, detail) => {
        if (event === 'sound') { $('sound').srcObject = detail; return; }
        say(event === 'ended' ? `ended: ${detail}` : event);
        if (event === 'ended') { call = undefined; $('call').textContent = 'Call'; }
      },
    });
  };
  for (const key of '123456789*0#') {
    const button = document.createElement('button');
    button.textContent = key;
    button.onclick = () => call?.press(key);
    $('keys').append(button);
  }
}
page();
globalThis.ParleyCall = Call;
