// The four tools of the conformance suite, by version 2 of the protocol.
import { createInterface } from "node:readline";

const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const waiting = new Set();
const tool = (name, more) => ({ name: "js_" + name, description: name, parameters: { type: "object" }, ...more });
const text = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };

for await (const line of createInterface({ input: process.stdin })) {
  const { method, id, params, tool: name } = JSON.parse(line);
  if (method === "initialize") {
    send({ id, result: { tools: [tool("echo", { parameters: text }), tool("wait"), tool("fail"), tool("big")] } });
  } else if (method === "execute" && name === "js_echo") {
    setTimeout(() => send({ id, result: { said: params.text } }), Math.random() * 20); // out of order
  } else if (method === "execute" && name === "js_fail") {
    send({ id, error: { code: -32000, message: "out of stock" } });
  } else if (method === "execute" && name === "js_big") {
    send({ id, result: "x".repeat(120_000) });
  } else if (method === "execute") {
    waiting.add(id);
  } else if (method === "$/cancelRequest" && waiting.delete(params.id)) {
    send({ id, error: { code: -32800, message: "cancelled" } });
  }
}
