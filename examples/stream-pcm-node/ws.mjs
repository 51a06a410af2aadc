// A WebSocket server in plain Node (RFC 6455), as small as a bot needs it.
import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";
import http from "node:http";

// Socket emits "message" (a string, or a Buffer for binary) and "close".
export class Socket extends EventEmitter {
  #rest = Buffer.alloc(0);
  #kind = 0;
  #parts = [];
  #closing = false;

  constructor(wire, request) {
    super();
    this.wire = wire;
    this.request = request;
    wire.setNoDelay(true);
    wire.on("data", (data) => this.#take(data));
    wire.on("error", () => wire.destroy());
    wire.on("close", () => this.emit("close"));
  }

  #take(data) {
    this.#rest = Buffer.concat([this.#rest, data]);
    for (let frame; (frame = this.#frame()); ) this.#handle(...frame);
  }

  // The next whole frame: [final, opcode, data].
  #frame() {
    const b = this.#rest;
    if (b.length < 2) return null;
    let length = b[1] & 0x7f;
    let at = 2;
    if (length === 126) {
      if (b.length < 4) return null;
      length = b.readUInt16BE(2);
      at = 4;
    } else if (length === 127) {
      if (b.length < 10) return null;
      length = Number(b.readBigUInt64BE(2));
      at = 10;
    }
    if (!(b[1] & 0x80) || length > 1 << 20) {
      this.wire.destroy(); // not a client's frame
      return null;
    }
    if (b.length < at + 4 + length) return null;
    const mask = b.subarray(at, at + 4);
    const data = Buffer.from(b.subarray(at + 4, at + 4 + length));
    for (let i = 0; i < data.length; i++) data[i] ^= mask[i & 3];
    this.#rest = b.subarray(at + 4 + length);
    return [b[0] & 0x80, b[0] & 0x0f, data];
  }

  #handle(final, opcode, data) {
    if (opcode === 8) {
      this.close(data);
      this.wire.end();
    } else if (opcode === 9) {
      this.#write(10, data);
    } else if (opcode < 8) {
      this.#kind = opcode || this.#kind;
      this.#parts.push(data);
      if (!final) return;
      const whole = Buffer.concat(this.#parts);
      this.#parts = [];
      this.emit("message", this.#kind === 1 ? whole.toString() : whole);
    }
  }

  send(message) {
    const text = typeof message === "string";
    this.#write(text ? 1 : 2, text ? Buffer.from(message) : message);
  }

  #write(opcode, data) {
    let head;
    if (data.length < 126) {
      head = Buffer.from([0x80 | opcode, data.length]);
    } else if (data.length < 65536) {
      head = Buffer.from([0x80 | opcode, 126, 0, 0]);
      head.writeUInt16BE(data.length, 2);
    } else {
      head = Buffer.alloc(10);
      head[0] = 0x80 | opcode;
      head[1] = 127;
      head.writeBigUInt64BE(BigInt(data.length), 2);
    }
    if (!this.wire.destroyed) this.wire.write(Buffer.concat([head, data]));
  }

  // Says goodbye; the other side answers, and "close" comes.
  close(code = Buffer.from([1000 >> 8, 1000 & 0xff])) {
    if (this.#closing) return;
    this.#closing = true;
    this.#write(8, code);
  }
}

// Runs handler(socket) for each connection to port; key is the bearer token asked for.
export function serve(handler, port, key = "") {
  const server = http.createServer((_, res) => res.writeHead(426).end());
  server.on("upgrade", (req, wire) => {
    const id = req.headers["sec-websocket-key"];
    if (!id || (key && req.headers.authorization !== `Bearer ${key}`)) {
      wire.end("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
      return;
    }
    const accept = createHash("sha1").update(id + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
    wire.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    handler(new Socket(wire, req));
  });
  server.listen(port, "127.0.0.1", () => console.log(`ws://127.0.0.1:${server.address().port}/`));
}
