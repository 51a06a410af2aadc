from flask import Flask, request

app, calls = Flask(__name__), {}

@app.post("/agent")
def agent():
    turn = request.get_json()
    said = calls.setdefault(turn["session_id"], [])
    said.append(turn["text"])
    return f"You said {turn['text']}. That was turn {len(said)}.", {"Content-Type": "text/plain"}
