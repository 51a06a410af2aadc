// A bot for Media Streams in plain Node: node bot.mjs, then point [stream] url at it.
//
// It greets with a melody, plays back what the caller says, stops when the caller speaks
// over it, answers keys with as many beeps, and says goodbye after #.
import { serve } from "./ws.mjs";

const loudness = 1000; // mean amplitude of a voice
const hang = 30; // frames of 20 ms of silence that end what the caller says

// One sample as mu-law (ITU-T G.711).
function encode(sample) {
  const sign = sample < 0 ? 0x80 : 0;
  const s = Math.min(Math.abs(sample), 32635) + 132;
  const exponent = Math.max(Math.floor(Math.log2(s)) - 7, 0);
  return ~(sign | (exponent << 4) | ((s >> (exponent + 3)) & 0x0f)) & 0xff;
}

function decode(byte) {
  const b = ~byte & 0xff;
  const s = (((b & 0x0f) << 3) | 0x84) << ((b >> 4) & 7);
  return b & 0x80 ? 132 - s : s - 132;
}

const amplitude = Array.from({ length: 256 }, (_, b) => Math.abs(decode(b)));
const tone = (hz, ms) => Buffer.from(Array.from({ length: 8 * ms }, (_, i) => encode(Math.trunc(8000 * Math.sin((2 * Math.PI * hz * i) / 8000)))));
const greeting = Buffer.concat([tone(523, 200), tone(659, 200), tone(784, 400)]);
const goodbye = Buffer.concat([tone(784, 200), tone(523, 400)]);
const beep = Buffer.concat([tone(1000, 100), Buffer.alloc(800, 0xff)]);

function talk(socket) {
  let stream;
  let said = [];
  let loud = 0;
  let quiet = 0;
  let echoes = 0;
  const playing = new Set(); // marks that did not come back
  const send = (event, fields = {}) => socket.send(JSON.stringify({ event, streamSid: stream, ...fields }));
  const say = (sound, name) => {
    playing.add(name);
    send("media", { media: { payload: sound.toString("base64") } });
    send("mark", { mark: { name } });
  };
  const on = {
    start(m) {
      stream = m.streamSid;
      console.log("start", m.start.callSid, JSON.stringify(m.start.customParameters));
      say(greeting, "greeting");
    },
    media(m) {
      const sound = Buffer.from(m.media.payload, "base64");
      let sum = 0;
      for (const b of sound) sum += amplitude[b];
      const voice = sum > loudness * sound.length;
      [loud, quiet] = voice ? [loud + 1, 0] : [0, quiet + 1];
      if (playing.size && loud === 3) {
        send("clear");
        console.log("clear");
      }
      if (voice || said.length) said.push(sound);
      if (said.length && quiet === hang) {
        say(Buffer.concat([beep, ...said]), `echo ${++echoes}`);
        said = [];
      }
    },
    dtmf(m) {
      const { digit } = m.dtmf;
      if (digit === "#") say(goodbye, "goodbye");
      else if (digit >= "0" && digit <= "9") say(Buffer.concat(Array(Number(digit)).fill(beep)), `key ${digit}`);
    },
    mark(m) {
      playing.delete(m.mark.name);
      console.log("mark", m.mark.name);
      if (m.mark.name === "goodbye") socket.close();
    },
    stop() {
      console.log("stop");
    },
  };
  socket.on("message", (text) => {
    const m = JSON.parse(text);
    on[m.event]?.(m);
  });
}

serve(talk, Number(process.env.PORT ?? 9000), process.env.BOT_KEY);
