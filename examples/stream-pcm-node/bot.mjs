// A bot that takes raw audio, in plain Node: node bot.mjs, then point [stream] url at it.
//
// It greets with a melody, plays back what the caller says, stops when the caller speaks
// over it, answers keys with as many beeps, counts the caller's calls, and hangs up after
// #. Who speaks and when is told by the gateway.
import { serve } from "./ws.mjs";

function talk(socket) {
  let rate;
  let calls;
  let heard = Buffer.alloc(0); // the caller's sound: the last second, or since the voice began
  let skipped = 0; // bytes of it that came before
  let began = null; // where the voice began that speaks now
  let echoes = 0;
  let playing = new Set(); // marks that did not come back

  const send = (type, fields = {}) => socket.send(JSON.stringify({ type, ...fields }));
  const say = (sound, name, text) => {
    playing.add(name);
    socket.send(sound);
    send("mark", { name, text });
  };
  // Notes of [hz, ms], as the gateway wants samples: signed, 16 bits, little-endian.
  const tones = (...notes) => {
    const samples = notes.flatMap(([hz, ms]) => Array.from({ length: (rate * ms) / 1000 }, (_, i) => Math.trunc(8000 * Math.sin((2 * Math.PI * hz * i) / rate))));
    const b = Buffer.alloc(2 * samples.length);
    samples.forEach((s, i) => b.writeInt16LE(s, 2 * i));
    return b;
  };
  // How many bytes of the caller's sound a time is.
  const at = (ms) => Math.floor((ms * rate) / 1000) * 2;
  const hear = (sound) => {
    heard = Buffer.concat([heard, sound]);
    const old = heard.length - at(1000);
    if (began === null && old > 0) {
      heard = heard.subarray(old);
      skipped += old;
    }
  };

  const on = {
    hello(m) {
      rate = m.rate;
      calls = (m.memory?.["user:bot_calls"] ?? 0) + 1;
      console.log(m.type, m.session, m.caller.resource_id ?? "anonymous", `call ${calls}`);
    },
    resume(m) {
      on.hello(m);
      playing = new Set(m.marks);
    },
    start() {
      send("memory", { key: "user:bot_calls", value: calls });
      say(tones([523, 200], [659, 200], [784, 400]), "greeting", "Hello.");
    },
    gap(m) {
      heard = Buffer.alloc(0);
      skipped = at(m.heard_ms);
      began = null;
    },
    voice(m) {
      if (m.state === "on") {
        began = at(m.heard_ms);
      } else if (m.state === "confirmed" && playing.size) {
        send("clear");
        console.log("clear");
      } else if (m.state === "off" && began !== null) {
        const said = heard.subarray(Math.max(0, began - skipped));
        began = null;
        send("transcript", { text: `${Math.floor((said.length * 1000) / rate / 2)} ms of sound`, final: true });
        say(Buffer.concat([tones([1000, 100]), said]), `echo ${++echoes}`, "You said this.");
      }
    },
    digit(m) {
      if (m.digit === "#") {
        say(tones([784, 200], [523, 400]), "goodbye", "Goodbye.");
        send("hangup");
      } else if (m.digit >= "0" && m.digit <= "9") {
        const beeps = Array(Number(m.digit)).fill([[1000, 100], [0, 100]]).flat();
        say(tones(...beeps), `key ${m.digit}`, `You pressed ${m.digit}.`);
      }
    },
    mark(m) {
      playing.delete(m.name);
      console.log("mark", m.name, m.cleared ? "cleared" : "heard");
    },
    cleared(m) {
      console.log("heard", m.played_ms, "ms, not heard", m.dropped_ms, "ms");
    },
    error(m) {
      console.log("error", m.field, m.message);
    },
    stop(m) {
      console.log("stop", m.cause);
    },
  };
  socket.on("message", (message) => {
    if (typeof message !== "string") {
      hear(message);
      return;
    }
    const m = JSON.parse(message);
    on[m.type]?.(m);
  });
}

serve(talk, Number(process.env.PORT ?? 9000), process.env.BOT_KEY);
