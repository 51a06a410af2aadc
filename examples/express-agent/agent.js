const express = require("express");
const calls = new Map();

express().use(express.json()).post("/agent", (req, res) => {
  const { session_id, text } = req.body;
  const said = calls.get(session_id) ?? [];
  calls.set(session_id, [...said, text]);
  res.type("text/plain").send(`You said ${text}. That was turn ${said.length + 1}.`);
}).listen(process.env.PORT || 9000, "127.0.0.1");
