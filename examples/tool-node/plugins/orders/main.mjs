// Two tools for voice agents in Node, without a package. The plugin says itself which
// tools it has; cancel_order is done only after the caller has said yes.
import { createInterface } from "node:readline";

const orders = new Map([[1001, "sent yesterday"], [1002, "being packed"]]);

const order = {
  type: "object",
  properties: { order: { type: "integer", description: "the number of the order" } },
  required: ["order"],
  additionalProperties: false,
};

const tools = {
  order_status: {
    description: "Tells how far an order is.",
    parameters: order,
    run: ({ order }) => ({ order, status: orders.get(order) ?? "not known" }),
  },
  cancel_order: {
    description: "Cancels an order that was not sent yet.",
    parameters: order,
    confirmation_required: true,
    confirm: ({ order }) => `Shall I cancel order ${order}?`,
    run: ({ order }) => {
      if (orders.get(order) !== "being packed") throw new Error("this order cannot be cancelled any more");
      orders.set(order, "cancelled");
      return { order, status: "cancelled" };
    },
  },
};

const methods = {
  initialize: () => ({ tools: Object.entries(tools).map(([name, { run, confirm, ...rest }]) => ({ name, ...rest })) }),
  execute: ({ tool, params }) => tools[tool].run(params),
  confirm: ({ tool, params }) => tools[tool].confirm(params),
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.id === undefined) continue; // ready, event, $/cancelRequest: nothing to do here
  const answer = { jsonrpc: "2.0", id: request.id };
  try {
    answer.result = await methods[request.method](request);
  } catch (error) {
    answer.error = { code: -32000, message: error.message };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
