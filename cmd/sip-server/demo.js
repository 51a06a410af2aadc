"use strict";
// The page of one or more recorded calls. Sound is u-law, both directions apart,
// gzipped; waveforms are drawn from the same bytes that are played.
const calls = JSON.parse(document.getElementById("calls").textContent);
const $ = (id) => document.getElementById(id);
const canvas = $("canvas"), overview = $("overview"), stage = $("stage");
const rate = 8000;

// Where the lanes lie, in pixels from the top of the stage.
const lanes = {
  ruler: 24, marks: 44, callerWords: 48, callerWave: 136, callerVoice: 214,
  waits: 230, agentWave: 296, agentVoice: 374, agentWords: 390, wave: 72, words: 64, height: 476,
};

let call = null, view = { start: 0, span: 10 }, position = 0, sound = null, ear = "both", colours = {};

const mulaw = new Float32Array(256);
for (let i = 0; i < 256; i++) {
  const u = ~i & 255, magnitude = (((u & 15) << 3) + 132 << (u >> 4 & 7)) - 132;
  mulaw[i] = (u & 128 ? -magnitude : magnitude) / 32768;
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const packed = new Uint8Array(await new Response(stream).arrayBuffer());
  return Float32Array.from(packed, (b) => mulaw[b]);
}

// peaks are the highest and lowest of every 40 samples, for drawing.
function peaks(samples) {
  const out = new Float32Array(Math.ceil(samples.length / 40) * 2);
  for (let i = 0; i < samples.length; i++) {
    const at = Math.floor(i / 40) * 2;
    out[at] = Math.min(out[at], samples[i]);
    out[at + 1] = Math.max(out[at + 1], samples[i]);
  }
  return out;
}

// ---- sound ----
const player = {
  context: null, sources: [], started: 0, from: 0, playing: false,
  toggle() { this.playing ? this.pause() : this.play(); },
  play() {
    if (!sound) return;
    this.context = this.context || new AudioContext();
    this.context.resume();
    if (position >= call.length - 0.05) seek(0);
    this.stop();
    this.sources = ["caller", "agent"].map((who) => {
      const buffer = this.context.createBuffer(1, sound[who].length, rate);
      buffer.copyToChannel(sound[who], 0);
      const source = this.context.createBufferSource(), gain = this.context.createGain();
      source.buffer = buffer;
      gain.gain.value = ear === "both" || ear === who ? 1 : 0;
      source.connect(gain).connect(this.context.destination);
      const into = position - call.offset;
      source.start(this.context.currentTime + Math.max(0, -into), Math.max(0, into));
      return { source, gain, who };
    });
    this.started = this.context.currentTime;
    this.from = position;
    this.playing = true;
    $("play").textContent = "❚❚ Pause";
    requestAnimationFrame(frame);
  },
  stop() { for (const s of this.sources) s.source.stop(); this.sources = []; },
  pause() {
    this.stop();
    this.playing = false;
    $("play").textContent = "▶ Play";
  },
  listen(to) {
    ear = to;
    for (const s of this.sources) s.gain.gain.value = ear === "both" || ear === s.who ? 1 : 0;
    for (const b of document.querySelectorAll("[data-ear]")) b.setAttribute("aria-pressed", b.dataset.ear === ear);
  },
};

function frame() {
  if (!player.playing) return;
  position = player.from + player.context.currentTime - player.started;
  if (position >= call.length) {
    position = call.length;
    player.pause();
  }
  const edge = view.start + view.span * 0.85;
  if (position > edge && view.start + view.span < call.length) look(view.start + position - edge, view.span);
  else moveHead();
  if (player.playing) requestAnimationFrame(frame);
}

function seek(to) {
  position = Math.min(Math.max(0, to), call.length);
  if (position < view.start || position > view.start + view.span) look(position - view.span * 0.2, view.span);
  if (player.playing) player.play();
  moveHead();
}

function look(start, span) {
  view.span = Math.min(Math.max(span, 0.5), call.length);
  view.start = Math.min(Math.max(0, start), call.length - view.span);
  place();
  draw();
}

function zoom(factor, around) {
  const at = around === undefined ? view.start + view.span / 2 : around;
  const span = Math.min(Math.max(view.span * factor, 0.5), call.length);
  look(at - (at - view.start) * span / view.span, span);
}

// ---- drawing ----
function fresh(target) {
  const scale = window.devicePixelRatio || 1, box = target.getBoundingClientRect();
  if (target.width !== Math.round(box.width * scale) || target.height !== Math.round(box.height * scale)) {
    target.width = Math.round(box.width * scale);
    target.height = Math.round(box.height * scale);
  }
  const c = target.getContext("2d");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, box.width, box.height);
  c.font = "12px system-ui, sans-serif";
  c.lineWidth = 1;
  return { c, width: box.width, height: box.height };
}

const x = (t, width) => (t - view.start) / view.span * width;

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "card", "ink", "faint", "line", "lane", "caller", "agent", "alarm", "lost", "wait"])
    colours[name] = style.getPropertyValue("--" + name).trim();
}

function clock(t, digits = 1) {
  const s = Math.max(0, t);
  return Math.floor(s / 60) + ":" + (s % 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
}

function draw() {
  if (!call) return;
  const { c, width, height } = fresh(canvas);
  drawRuler(c, width, height);
  drawWave(c, width, "caller", lanes.callerWave);
  drawWave(c, width, "agent", lanes.agentWave);
  drawVoice(c, width, "caller", lanes.callerVoice);
  drawVoice(c, width, "agent", lanes.agentVoice);
  drawWaits(c, width);
  drawOverview();
  moveHead();
}

// moveHead shows the position: two lines over the pictures, so that playing
// redraws nothing.
function moveHead() {
  $("head").style.transform = `translateX(${x(position, stage.clientWidth)}px)`;
  $("overhead").style.transform = `translateX(${position / call.length * overview.clientWidth}px)`;
  $("now").textContent = clock(position);
  $("position").value = position.toFixed(1);
  for (const li of $("turns").children) li.classList.toggle("now", position >= li.from && position < li.to);
}

function drawRuler(c, width, height) {
  const step = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60].find((s) => s / view.span * width > 70) || 120;
  c.textBaseline = "middle";
  for (let t = Math.ceil(view.start / step) * step; t <= view.start + view.span; t += step) {
    const at = Math.round(x(t, width)) + 0.5;
    c.strokeStyle = colours.line;
    c.beginPath(); c.moveTo(at, 0); c.lineTo(at, height); c.stroke();
    c.fillStyle = colours.faint;
    c.fillText(clock(t, step < 1 ? 1 + (step < 0.1) : 0), at + 4, lanes.ruler / 2);
  }
  for (const m of call.marks || []) {
    const at = x(m.at, width);
    c.setLineDash([3, 3]);
    c.strokeStyle = colours.faint;
    c.beginPath(); c.moveTo(at, lanes.ruler); c.lineTo(at, height); c.stroke();
    c.setLineDash([]);
    const wide = c.measureText(m.text).width, left = at + wide + 8 > width ? at - wide - 4 : at + 4;
    c.fillStyle = colours.faint;
    c.fillText(m.text, left, (lanes.ruler + lanes.marks) / 2);
  }
}

function drawWave(c, width, who, top) {
  const half = lanes.wave / 2, middle = top + half;
  c.fillStyle = colours.card;
  c.fillRect(0, top - 4, width, lanes.wave + 8);
  c.fillStyle = colours.lost;
  const packet = Math.max(1.5, 0.02 / view.span * width);
  for (const t of call.lost[who]) {
    const at = x(t, width);
    if (at < -packet || at > width) continue;
    c.globalAlpha = 0.22;
    c.fillRect(at, top - 4, packet, lanes.wave + 8);
    c.globalAlpha = 1;
    c.fillRect(at, top - 4, packet, 5);
    c.fillRect(at, top + lanes.wave - 1, packet, 5);
  }
  c.strokeStyle = colours.line;
  c.beginPath(); c.moveTo(0, middle + 0.5); c.lineTo(width, middle + 0.5); c.stroke();
  if (!sound) return;
  c.fillStyle = colours[who];
  const p = sound.peaks[who], samples = sound[who], perPixel = view.span / width * rate;
  for (let at = 0; at < width; at++) {
    const from = (view.start - call.offset + at / width * view.span) * rate;
    let low = 0, high = 0;
    if (perPixel < 40) {
      for (let i = Math.max(0, Math.floor(from)); i <= from + perPixel && i < samples.length; i++) {
        low = Math.min(low, samples[i]);
        high = Math.max(high, samples[i]);
      }
    } else {
      for (let i = Math.max(0, Math.floor(from / 40)); i <= (from + perPixel) / 40 && i * 2 < p.length; i++) {
        low = Math.min(low, p[i * 2]);
        high = Math.max(high, p[i * 2 + 1]);
      }
    }
    const up = Math.pow(high, 0.7) * half, down = Math.pow(-low, 0.7) * half;
    if (up + down > 0.6) c.fillRect(at, middle - up, 1, up + down);
  }
}

function drawVoice(c, width, who, top) {
  c.fillStyle = colours[who];
  for (const [from, to] of call.voice[who]) {
    const a = x(from, width), b = x(to, width);
    if (b < 0 || a > width) continue;
    c.beginPath(); c.roundRect(a, top, Math.max(3, b - a), 6, 3); c.fill();
  }
}

function drawWaits(c, width) {
  const taken = [-1, -1, -1]; // up to where each row is full
  for (const w of call.waits) {
    const a = x(w.from, width), b = x(w.to, width);
    const colour = w.kind === "barge-in" ? colours.alarm : colours.wait;
    c.font = "600 12px system-ui, sans-serif";
    const wide = c.measureText(w.text).width + 16;
    const free = taken.findIndex((end) => end <= a), row = free < 0 ? taken.indexOf(Math.min(...taken)) : free;
    taken[row] = b + wide;
    const y = lanes.waits + 14 + row * 20;
    if (b + wide < 0 || a > width) continue;
    const top = w.kind === "answer" ? y - 6 : lanes.callerVoice + 8;
    c.strokeStyle = colour;
    c.fillStyle = colour;
    c.lineWidth = 1.75;
    c.setLineDash(w.kind === "barge-in" ? [] : [2, 2]);
    c.beginPath(); c.moveTo(a, top); c.lineTo(a, y); c.stroke();
    c.beginPath(); c.moveTo(b, y); c.lineTo(b, lanes.agentWave - 5); c.stroke();
    c.setLineDash([]);
    c.beginPath(); c.moveTo(a, y); c.lineTo(b, y);
    const tip = Math.min(5, Math.max(2, (b - a) / 2));
    c.moveTo(b - tip, y - tip); c.lineTo(b, y); c.lineTo(b - tip, y + tip);
    c.stroke();
    if (w.kind === "barge-in") drawFlag(c, a, colour);
    c.textBaseline = "middle";
    const text = c.measureText(w.text).width;
    c.globalAlpha = 0.85;
    c.fillStyle = colours.lane;
    c.fillRect(b + 4, y - 9, text + 8, 18);
    c.globalAlpha = 1;
    c.fillStyle = colour;
    c.fillText(w.text, b + 8, y);
    c.lineWidth = 1;
  }
}

function drawFlag(c, at, colour) {
  c.strokeStyle = colour;
  c.fillStyle = colour;
  c.lineWidth = 2;
  c.beginPath(); c.moveTo(at, lanes.callerWave - 14); c.lineTo(at, lanes.callerVoice + 8); c.stroke();
  c.beginPath();
  c.moveTo(at, lanes.callerWave - 14); c.lineTo(at + 14, lanes.callerWave - 14); c.lineTo(at + 10, lanes.callerWave - 9);
  c.lineTo(at + 14, lanes.callerWave - 4); c.lineTo(at, lanes.callerWave - 4);
  c.fill();
}

function drawOverview() {
  const { c, width, height } = fresh(overview);
  const scale = (t) => t / call.length * width;
  c.fillStyle = colours.lane;
  c.fillRect(0, 0, width, height);
  if (sound) {
    ["caller", "agent"].forEach((who, row) => {
      const p = sound.peaks[who], middle = height * (row ? 0.72 : 0.28);
      c.fillStyle = colours[who];
      for (let at = 0; at < width; at++) {
        let top = 0;
        const from = (at / width * call.length - call.offset) * rate / 40, to = from + call.length / width * rate / 40;
        for (let i = Math.max(0, Math.floor(from)); i < to && i * 2 < p.length; i++) top = Math.max(top, p[i * 2 + 1], -p[i * 2]);
        const h = Math.pow(top, 0.7) * height * 0.22;
        if (h > 0.3) c.fillRect(at, middle - h, 1, 2 * h);
      }
    });
  }
  for (const w of call.waits) if (w.kind === "barge-in") {
    c.fillStyle = colours.alarm;
    c.fillRect(scale(w.from) - 1, 0, 2, height);
  }
  const from = scale(view.start), to = scale(view.start + view.span);
  c.fillStyle = colours.paper;
  c.globalAlpha = 0.65;
  c.fillRect(0, 0, from, height);
  c.fillRect(to, 0, width - to, height);
  c.globalAlpha = 1;
  c.strokeStyle = colours.faint;
  c.lineWidth = 1.5;
  c.strokeRect(from + 1, 1, Math.max(2, to - from - 2), height - 2);
}

// ---- words ----
function words(turn) {
  const box = document.createElement("span");
  if (turn.key) {
    box.append("pressed");
    for (const digit of turn.key) {
      const key = document.createElement("kbd");
      key.textContent = digit;
      box.append(" ", key);
    }
    return box;
  }
  const heard = turn.heard === undefined ? turn.text : turn.heard;
  box.append(heard);
  if (heard !== turn.text && turn.text.startsWith(heard)) {
    const never = document.createElement("s");
    never.textContent = turn.text.slice(heard.length).trim();
    box.append(" ", never);
  }
  if (turn.note) {
    const sub = document.createElement("span");
    sub.className = "sub";
    sub.textContent = turn.note;
    box.append(sub);
  }
  return box;
}

function makeWords() {
  for (const old of stage.querySelectorAll(".word")) old.remove();
  for (const turn of call.turns) {
    const b = document.createElement("button");
    b.type = "button";
    b.className = "word " + turn.who + (turn.cut ? " cut" : "");
    b.title = turn.key ? "pressed " + turn.key : turn.text;
    b.setAttribute("aria-label", `${turn.who} at ${clock(turn.from)}: ${turn.key ? "pressed " + turn.key : turn.heard ?? turn.text}`);
    b.append(words(turn));
    b.addEventListener("click", () => seek(turn.from));
    b.addEventListener("focus", () => { if (b.matches(":focus-visible")) show(turn.from); });
    stage.append(b);
    turn.block = b;
  }
}

function show(t) {
  if (t < view.start || t > view.start + view.span * 0.9) look(t - view.span * 0.1, view.span);
}

// place puts the words where they were said. A block may use the room up to the
// next one of its lane.
function place() {
  const width = stage.clientWidth, next = { caller: Infinity, agent: Infinity };
  for (const turn of [...call.turns].sort((a, b) => b.from - a.from)) {
    const left = x(turn.from, width), own = x(turn.to, width) - left;
    const room = Math.max(own, Math.min(next[turn.who] - left - 5, Math.max(own, 260)));
    next[turn.who] = left;
    const b = turn.block;
    // Words whose beginning is out of sight stay readable at the left edge.
    const start = Math.max(left, Math.min(4, left + room - 90));
    b.style.left = start + "px";
    b.style.minWidth = Math.max(6, own - (start - left)) + "px";
    b.style.maxWidth = Math.max(6, room - (start - left)) + "px";
    if (turn.who === "caller") b.style.bottom = lanes.height - lanes.callerWords - lanes.words + "px";
    else b.style.top = lanes.agentWords + "px";
    b.style.display = left > width || left + room < 0 ? "none" : "";
    b.style.paddingInline = room < 26 ? "3px" : "";
  }
}

// ---- the rest of the page ----
function fill() {
  const figures = $("figures");
  figures.replaceChildren(...call.figures.map((f) => {
    const div = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = f.name;
    const small = document.createElement("small");
    small.textContent = f.unit ? " " + f.unit : "";
    dd.append(f.value, small);
    div.append(dt, dd);
    return div;
  }));
  $("turns").replaceChildren(...call.turns.map((turn) => {
    const li = document.createElement("li"), time = document.createElement("button"), who = document.createElement("span"), tag = document.createElement("span");
    li.className = "turn";
    li.from = turn.from;
    li.to = turn.to;
    time.textContent = clock(turn.from);
    time.setAttribute("aria-label", `play from ${clock(turn.from)}`);
    who.className = "who " + turn.who;
    who.textContent = turn.who;
    tag.className = "tag" + (turn.alarm ? " alarm" : "");
    tag.textContent = turn.tag || "";
    li.append(time, who, words(turn), tag);
    li.addEventListener("click", () => seek(turn.from));
    return li;
  }));
  $("events").replaceChildren(...call.events.map((e) => {
    const tr = document.createElement("tr");
    for (const text of [clock(e.at, 3), e.type, e.text]) {
      const td = document.createElement("td");
      td.textContent = text;
      tr.append(td);
    }
    return tr;
  }));
  $("length").textContent = clock(call.length);
  $("position").max = call.length;
  canvas.setAttribute("aria-label", `Waveforms of ${call.name}, ${clock(call.length)} long, with ${call.waits.length} measured waits`);
}

async function open(index) {
  player.pause();
  call = calls[index];
  sound = null;
  position = 0;
  [...$("tabs").children].forEach((b, i) => b.setAttribute("aria-selected", i === index));
  fill();
  makeWords();
  look(0, Math.min(call.length, Math.max(8, stage.clientWidth / 90)));
  const wanted = call;
  const [caller, agent] = await Promise.all([unpack(call.sound.caller), unpack(call.sound.agent)]);
  if (call !== wanted) return;
  sound = { caller, agent, peaks: { caller: peaks(caller), agent: peaks(agent) } };
  draw();
}

function step(direction) {
  const starts = call.turns.map((t) => t.from).sort((a, b) => a - b);
  const to = direction > 0 ? starts.find((t) => t > position + 0.05) : starts.reverse().find((t) => t < position - 0.3);
  if (to !== undefined) { seek(to); show(to); }
}

// drag tells a press from a move; both get the time that they happened at.
function drag(target, { press, move }) {
  target.addEventListener("pointerdown", (e) => {
    if (e.button) return;
    const from = e.clientX, start = view.start;
    let moved = false;
    target.setPointerCapture(e.pointerId);
    const go = (m) => { if (moved || Math.abs(m.clientX - from) > 4) { moved = true; move(m.clientX - from, start, m); } };
    const end = (m) => {
      target.removeEventListener("pointermove", go);
      if (!moved && m.type === "pointerup") press(m);
    };
    target.addEventListener("pointermove", go);
    target.addEventListener("pointerup", end, { once: true });
    target.addEventListener("pointercancel", end, { once: true });
  });
}

drag(canvas, {
  press: (e) => seek(view.start + e.offsetX / canvas.clientWidth * view.span),
  move: (dx, start) => look(start - dx / canvas.clientWidth * view.span, view.span),
});
drag(overview, {
  press: (e) => look(e.offsetX / overview.clientWidth * call.length - view.span / 2, view.span),
  move: (dx, start) => look(start + dx / overview.clientWidth * call.length, view.span),
});
stage.addEventListener("wheel", (e) => {
  const width = stage.clientWidth;
  if (e.ctrlKey || e.metaKey) {
    e.preventDefault();
    zoom(Math.exp(e.deltaY * 0.003), view.start + (e.clientX - stage.getBoundingClientRect().left) / width * view.span);
  } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
    e.preventDefault();
    look(view.start + (e.deltaX || e.deltaY) / width * view.span, view.span);
  }
}, { passive: false });
$("play").addEventListener("click", () => player.toggle());
$("in").addEventListener("click", () => zoom(1 / 1.6));
$("out").addEventListener("click", () => zoom(1.6));
$("fit").addEventListener("click", () => look(0, call.length));
$("position").addEventListener("input", (e) => seek(Number(e.target.value)));
for (const b of document.querySelectorAll("[data-ear]")) b.addEventListener("click", () => player.listen(b.dataset.ear));
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const onButton = e.target.matches("button, summary, input");
  const keys = {
    " ": () => player.toggle(), ArrowLeft: () => seek(position - 1), ArrowRight: () => seek(position + 1),
    Home: () => seek(0), End: () => seek(call.length), "+": () => zoom(1 / 1.6, position), "=": () => zoom(1 / 1.6, position),
    "-": () => zoom(1.6, position), 0: () => look(0, call.length), "[": () => step(-1), "]": () => step(1),
  };
  if (!keys[e.key] || (onButton && e.key === " ") || e.target.matches("input")) return;
  e.preventDefault();
  keys[e.key]();
});
calls.forEach((c, i) => {
  const b = document.createElement("button");
  b.type = "button";
  b.setAttribute("role", "tab");
  b.textContent = c.name;
  b.addEventListener("click", () => open(i));
  $("tabs").append(b);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
new ResizeObserver(() => { if (call) { place(); draw(); } }).observe(stage);
readColours();
open(0);
