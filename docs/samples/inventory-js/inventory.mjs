// An inventory service beside Orderflow, with nothing but Azure's own client.
//
// It may be killed at any moment: a command that was not completed comes again,
// and its answer has the same MessageId, by which the topic and the order know
// it as the same message.
import { setTimeout as pause } from "node:timers/promises";
import { ServiceBusClient } from "@azure/service-bus";

const connection = process.env.ServiceBusConnection;
if (!connection) throw new Error("set ServiceBusConnection to the connection string that local mode prints");

// A real warehouse keeps its stock and what it reserved for which command in a
// database. This one has plenty of everything that it knows.
const catalogue = new Set(["A/1", "B/2"]);

// decide is what the warehouse does about a command: what it says and why.
function decide({ subject, body }) {
  switch (subject) {
    case "ReserveInventory": {
      const unknown = body.lines.find(({ sku }) => !catalogue.has(sku));
      if (unknown) return ["InventoryRejected", { reason: `${unknown.sku} is not in the catalogue` }];
      return ["InventoryReserved", { reservationId: `reservation-${body.orderId}` }];
    }
    case "ReleaseInventory":
      return ["InventoryReleased", { reservationId: body.reservationId }];
  }
  throw new Error(`${subject} is no command to the inventory`); // it comes again, and ends as a dead letter
}

// answer is the message that goes back to the order.
function answer(command) {
  const [subject, fields] = decide(command);
  const given = command.applicationProperties;
  const lineage = { ParentMessageId: command.messageId, SchemaVersion: "1" };
  for (const name of ["OriginatingMessageId", "traceparent", "Diagnostic-Id"]) {
    if (given[name] !== undefined) lineage[name] = given[name]; // handed on unchanged
  }
  return {
    messageId: `${command.messageId}:answer`, // the same each time; at most 128 characters
    sessionId: command.sessionId, // the order
    correlationId: command.correlationId, // the conversation
    subject,
    contentType: "application/json",
    applicationProperties: lineage,
    body: { orderId: command.body.orderId, ...fields },
  };
}

const client = new ServiceBusClient(connection);
const orders = client.createSender("orders");

// serveOne works on the commands of one order. A session keeps them in order
// and away from everyone else.
async function serveOne() {
  const session = await client.acceptNextSession("commands", "inventory");
  try {
    for (;;) {
      const [command] = await session.receiveMessages(1, { maxWaitTimeInMs: 200 });
      if (!command) return;
      const message = answer(command);
      await orders.sendMessages(message);
      await session.completeMessage(command); // only now: better two answers than none
      console.log(`${command.messageId} → ${message.subject}`);
    }
  } finally {
    await session.close(); // what was not completed comes again at once
  }
}

async function serve() {
  for (;;) {
    try {
      await serveOne();
    } catch (error) {
      // A time-out is a minute in which no order asked for anything.
      if (error.code !== "ServiceTimeout") console.error(error.message);
      await pause(1000);
    }
  }
}

await Promise.all([serve(), serve(), serve(), serve()]); // four orders at once
