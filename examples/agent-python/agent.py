"""A voice agent for Parley in plain Python: python3 agent.py, then point [agent] url at it."""
import json, os, re, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = os.environ.get("AGENT_KEY", "")
talks = {}   # session_id -> what was said in this call: [who, words] in order
people = {}  # resource_id -> what is known of the person, over all calls


def reply(turn, before):
    """The agent: takes a turn of the caller and what was said before, yields words as they are ready."""
    person = people.setdefault(turn.get("resource_id") or turn["session_id"], {})
    if turn.get("interrupted_text"):
        yield f"I stopped at: {turn['interrupted_text']}. "
    elif not before and "name" in person:
        yield f"Welcome back, {person['name']}. "
    if m := re.search(r"my name is (\w+)", turn["text"], re.I):
        person["name"] = m[1]
        yield f"Nice to meet you, {m[1]}."
    elif "count" in turn["text"]:
        for word in "One Two Three Four Five Six Seven Eight Nine Ten".split():
            yield word + ". "
            time.sleep(0.3)
    else:
        yield f"You said: {turn['text']}."


class Agent(BaseHTTPRequestHandler):
    def do_POST(self):
        turn = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if KEY and self.headers["Authorization"] != "Bearer " + KEY:
            return self.send_error(401)
        if turn["type"] != "chat":  # "oneshot" asks beside the conversation; "start" and "end" only tell
            words = f"{len(turn['text'].split())} words." if turn["type"] == "oneshot" else ""
            return self.answer("application/json", [json.dumps({"text": words})])
        talk = talks.setdefault(turn["session_id"], [])
        if talk and turn.get("interrupted_text"):
            talk[-1] = ["agent", turn["interrupted_text"]]  # the caller heard this much, not the whole reply
        before, mine = talk[:], ["agent", ""]
        talk += [["caller", turn["text"]], mine]
        try:
            self.answer("text/event-stream", [])
            for words in reply(turn, before):
                mine[1] += words
                self.wfile.write(f"data: {json.dumps({'delta': words})}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")
        except (BrokenPipeError, ConnectionResetError):
            print("the caller barged in", flush=True)

    def answer(self, kind, parts):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        for part in parts:
            self.wfile.write(part.encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Agent)
    print(f"http://127.0.0.1:{server.server_port}/agent", flush=True)
    server.serve_forever()
