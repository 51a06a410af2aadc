// A voice agent for Parley in plain Node: node agent.mjs, then point [agent] url at it.
import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const key = process.env.AGENT_KEY ?? "";
const talks = new Map(); // session_id -> what was said in this call: {who, words} in order
const people = new Map(); // resource_id -> what is known of the person, over all calls

const get = (map, id, fresh) => map.get(id) ?? map.set(id, fresh).get(id);

// The agent: takes a turn of the caller and what was said before, yields words as they are ready.
async function* reply(turn, before, signal) {
  const person = get(people, turn.resource_id ?? turn.session_id, {});
  if (turn.interrupted_text) {
    yield `I stopped at: ${turn.interrupted_text}. `;
  } else if (!before.length && person.name) {
    yield `Welcome back, ${person.name}. `;
  }
  const named = turn.text.match(/my name is (\w+)/i);
  if (named) {
    person.name = named[1];
    yield `Nice to meet you, ${named[1]}.`;
  } else if (turn.text.includes("count")) {
    for (const word of "One Two Three Four Five Six Seven Eight Nine Ten".split(" ")) {
      yield word + ". ";
      await sleep(300, null, { signal });
    }
  } else {
    yield `You said: ${turn.text}.`;
  }
}

async function answer(req, res) {
  let body = "";
  for await (const part of req.setEncoding("utf8")) body += part;
  const turn = JSON.parse(body);
  if (key && req.headers.authorization !== `Bearer ${key}`) return res.writeHead(401).end();
  if (turn.type !== "chat") {
    // "oneshot" asks beside the conversation; "start" and "end" only tell.
    const text = turn.type === "oneshot" ? `${turn.text.split(/\s+/).length} words.` : "";
    return res.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ text }));
  }
  const gone = new AbortController();
  res.on("close", () => res.writableFinished || gone.abort());
  res.writeHead(200, { "Content-Type": "text/event-stream" });
  const talk = get(talks, turn.session_id, []);
  if (talk.length && turn.interrupted_text) {
    talk[talk.length - 1] = { who: "agent", words: turn.interrupted_text }; // the caller heard this much, not the whole reply
  }
  const before = [...talk];
  const mine = { who: "agent", words: "" };
  talk.push({ who: "caller", words: turn.text }, mine);
  try {
    for await (const words of reply(turn, before, gone.signal)) {
      mine.words += words;
      res.write(`data: ${JSON.stringify({ delta: words })}\n\n`);
    }
    res.end("data: [DONE]\n\n");
  } catch (err) {
    if (err.name !== "AbortError") throw err;
    console.log("the caller barged in");
  }
}

const server = http.createServer((req, res) => answer(req, res).catch((err) => res.destroy(err)));
server.listen(Number(process.env.PORT ?? 9000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/agent`);
});
