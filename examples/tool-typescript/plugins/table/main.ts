// A tool for voice agents in TypeScript, without a package or a compiler: Node strips the
// types. Only types that can be stripped are used, no enum and no namespace.
import { createInterface } from "node:readline";

interface Wish {
  people: number;
  time: string;
}

interface Request {
  id?: number | string;
  method: string;
  params?: unknown;
}

const seats: Record<string, number> = { "18:00": 8, "20:00": 2 };

function execute({ people, time }: Wish): string {
  const free = seats[time] ?? 4;
  return people <= free ? `free for ${people} at ${time}` : `full at ${time}`;
}

function answer(request: Request): object {
  switch (request.method) {
    case "initialize":
      return { result: "initialized" };
    case "execute":
      return { result: execute(request.params as Wish) };
    default:
      return { error: { code: -32601, message: "no such method" } };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line) as Request;
  if (request.id === undefined) continue; // ready, event, $/cancelRequest: nothing to do here
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id: request.id, ...answer(request) }) + "\n");
}
