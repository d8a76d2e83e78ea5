// The scenarios of conformance_test.go with the unmodified @azure/service-bus.
// SERVICEBUS_CONNECTION is the namespace; each scenario's topic is its name with
// hyphens. Prints one line of JSON per scenario.
import { isDeepStrictEqual } from "node:util";
import assert from "node:assert/strict";
import { ServiceBusClient } from "@azure/service-bus";

const connection = process.env.SERVICEBUS_CONNECTION;
const main = "main";

// World is where one scenario takes place.
class World {
  constructor(name) {
    this.topic = name.replaceAll(" ", "-");
    this.client = this.dial();
  }
  dial(retryOptions = { maxRetries: 1, retryDelayInMs: 10, maxRetryDelayInMs: 50 }) {
    return new ServiceBusClient(connection, { retryOptions });
  }
  async send(...names) {
    const sender = this.client.createSender(this.topic);
    for (const name of names) await sender.sendMessages(message(name));
    await sender.close();
  }
  accept(session, options) {
    return this.client.acceptSession(this.topic, main, session, options);
  }
  next() {
    return this.client.acceptNextSession(this.topic, main);
  }
  deadLetters() {
    return this.client.createReceiver(this.topic, main, { subQueueType: "deadLetter" });
  }
}

const message = (name) => ({ messageId: name, sessionId: name.split("/")[0], body: name });

async function receive(receiver) {
  const messages = await receiver.receiveMessages(1, { maxWaitTimeInMs: 10_000 });
  assert.equal(messages.length, 1, "a message");
  return messages[0];
}

async function peeked(receiver) {
  const messages = await receiver.peekMessages(100);
  return messages.map((m) => m.messageId);
}

async function refused(promise, pattern) {
  await assert.rejects(promise, (e) => {
    assert.match(`${e.code} ${e.message}`, pattern);
    return true;
  });
}

const scenarios = {
  "a message keeps its properties": async (w) => {
    const sent = {
      messageId: "m", sessionId: "s", subject: "Placed", correlationId: "c", contentType: "application/json",
      to: "inventory", replyTo: "orders", replyToSessionId: "s-reply", partitionKey: "s", timeToLive: 3_600_000,
      applicationProperties: { text: "x", yes: true, small: 7, half: 0.5 },
      body: { orderId: "s" },
    };
    await w.client.createSender(w.topic).sendMessages(sent);
    const m = await receive(await w.next());
    for (const [name, value] of Object.entries(sent)) {
      assert.ok(isDeepStrictEqual(m[name], value), `${name}: ${JSON.stringify(m[name])}`);
    }
    assert.equal(m.deliveryCount, 0);
    assert.equal(m.state, "active");
    assert.ok(m.sequenceNumber.toNumber() > 0);
    assert.ok(Math.abs(m.enqueuedTimeUtc - Date.now()) < 60_000);
    assert.ok(m.lockedUntilUtc > new Date());
    assert.ok(m.lockToken);
  },
  "a batch arrives in order": async (w) => {
    const sender = w.client.createSender(w.topic);
    const batch = await sender.createMessageBatch();
    const want = ["s/1", "s/2", "s/3", "s/4", "s/5"];
    for (const name of want) assert.ok(batch.tryAddMessage(message(name)));
    await sender.sendMessages(batch);
    const s = await w.next();
    for (const id of want) {
      const m = await receive(s);
      assert.equal(m.messageId, id);
      await s.completeMessage(m);
    }
  },
  "a large message takes several frames": async (w) => {
    const body = Buffer.from(Uint8Array.from({ length: 200_000 }, (_, i) => i));
    await w.client.createSender(w.topic).sendMessages({ ...message("s/large"), body });
    const s = await w.next();
    const m = await receive(s);
    assert.ok(Buffer.compare(Buffer.from(m.body), body) === 0);
    await s.completeMessage(m);
  },
  "a completed message is gone": async (w) => {
    await w.send("s/1", "s/2");
    const s = await w.accept("s");
    await s.completeMessage(await receive(s));
    assert.deepEqual(await peeked(s), ["s/2"]);
  },
  "an abandoned message comes again and is counted": async (w) => {
    await w.send("s/1", "s/2");
    const s = await w.accept("s");
    await s.abandonMessage(await receive(s));
    const m = await receive(s);
    assert.equal(m.messageId, "s/1");
    assert.equal(m.deliveryCount, 1);
  },
  "a dead letter says why": async (w) => {
    await w.send("s/1", "s/2");
    const s = await w.accept("s");
    await s.deadLetterMessage(await receive(s), { deadLetterReason: "Rejected", deadLetterErrorDescription: "the body is not JSON" });
    assert.equal((await receive(s)).messageId, "s/2");
    const r = w.deadLetters();
    const m = await receive(r);
    assert.equal(m.messageId, "s/1");
    assert.equal(m.deadLetterReason, "Rejected");
    assert.equal(m.deadLetterErrorDescription, "the body is not JSON");
    await r.completeMessage(m);
    assert.deepEqual(await peeked(r), []);
  },
  "too many deliveries make a dead letter": async (w) => {
    await w.send("s/1", "s/2");
    const s = await w.accept("s");
    for (let i = 0; i < 2; i++) {
      const m = await receive(s);
      assert.equal(m.messageId, "s/1");
      await s.abandonMessage(m);
    }
    assert.equal((await receive(s)).messageId, "s/2");
    const m = await receive(w.deadLetters());
    assert.equal(m.messageId, "s/1");
    assert.equal(m.deadLetterReason, "MaxDeliveryCountExceeded");
  },
  "dead letters have locks of their own": async (w) => {
    await w.send("s/1");
    const s = await w.accept("s");
    await s.deadLetterMessage(await receive(s));
    const r = w.deadLetters();
    let m = await receive(r);
    assert.ok((await r.renewMessageLock(m)) > new Date());
    await r.abandonMessage(m);
    await refused(r.renewMessageLock(m), /MessageLockLost/);
    m = await receive(r);
    await r.deferMessage(m);
    const messages = await r.receiveDeferredMessages(m.sequenceNumber);
    assert.equal(messages.length, 1);
    await r.completeMessage(messages[0]);
  },
  "a deferred message is received by its number": async (w) => {
    await w.send("s/1", "s/2");
    const s = await w.accept("s");
    const first = await receive(s);
    await s.deferMessage(first);
    const second = await receive(s);
    assert.equal(second.messageId, "s/2");
    await s.completeMessage(second);
    const messages = await s.receiveDeferredMessages(first.sequenceNumber);
    assert.equal(messages.length, 1);
    assert.equal(messages[0].messageId, "s/1");
    assert.equal(messages[0].state, "deferred");
    await s.completeMessage(messages[0]);
    assert.deepEqual(await peeked(s), []);
  },
  "a deferred message is settled like others": async (w) => {
    await w.send("s/1", "s/2");
    const s = await w.accept("s");
    const again = async (m) => (await s.receiveDeferredMessages(m.sequenceNumber))[0];
    const first = await receive(s);
    const second = await receive(s);
    await s.deferMessage(first);
    await s.deferMessage(second);
    await s.abandonMessage(await again(first));
    await s.deferMessage(await again(first));
    await s.deadLetterMessage(await again(first), { deadLetterReason: "Late" });
    await s.completeMessage(await again(second));
    await refused(s.receiveDeferredMessages(second.sequenceNumber), /MessageNotFound/);
    const m = await receive(w.deadLetters());
    assert.equal(m.messageId, "s/1");
    assert.equal(m.deadLetterReason, "Late");
  },
  "receive and delete needs no settling": async (w) => {
    await w.send("s/1", "s/2");
    const s = await w.accept("s", { receiveMode: "receiveAndDelete" });
    assert.equal((await receive(s)).messageId, "s/1");
    assert.equal((await receive(s)).messageId, "s/2");
    assert.deepEqual(await peeked(s), []);
  },
  "a scheduled message waits for its time": async (w) => {
    const due = new Date(Date.now() + 3000);
    const sender = w.client.createSender(w.topic);
    const numbers = await sender.scheduleMessages([message("s/1"), message("s/2")], due);
    assert.equal(numbers.length, 2);
    await sender.sendMessages({ ...message("s/3"), scheduledEnqueueTimeUtc: due });
    const s = await w.next();
    assert.ok(Date.now() >= due - 50);
    for (let i = 0; i < 3; i++) {
      const m = await receive(s);
      assert.equal(m.scheduledEnqueueTimeUtc.getTime(), due.getTime());
      assert.ok(!numbers.some((n) => n.equals(m.sequenceNumber)));
      await s.completeMessage(m);
    }
  },
  "a cancelled schedule never comes": async (w) => {
    const sender = w.client.createSender(w.topic);
    const numbers = await sender.scheduleMessages([message("s/1")], new Date(Date.now() + 3_600_000));
    await sender.cancelScheduledMessages(numbers);
    await refused(sender.cancelScheduledMessages(numbers), /MessageNotFound/);
  },
  "a repeated MessageId is dropped": async (w) => {
    await w.send("s/1", "s/2", "s/1");
    assert.deepEqual(await peeked(await w.accept("s")), ["s/1", "s/2"]);
  },
  "a subscription takes its subjects": async (w) => {
    const sender = w.client.createSender(w.topic);
    for (const subject of ["Paid", "Placed"]) await sender.sendMessages({ ...message(`s/${subject}`), subject });
    assert.deepEqual(await peeked(await w.accept("s")), ["s/Paid", "s/Placed"]);
    assert.deepEqual(await peeked(await w.client.acceptNextSession(w.topic, "paid")), ["s/Paid"]);
  },
  "a session has one holder": async (w) => {
    const s = await w.accept("s");
    await refused(w.accept("s"), /SessionCannotBeLocked/);
    await s.close();
    assert.equal((await w.accept("s")).sessionId, "s");
  },
  "the next session is one that is free": async (w) => {
    await w.send("a/1", "b/1");
    assert.equal((await w.next()).sessionId, "a");
    assert.equal((await w.next()).sessionId, "b");
    const waiting = w.next();
    await w.send("c/1");
    assert.equal((await waiting).sessionId, "c");
  },
  "waiting for a session times out": async (w) => {
    const client = w.dial({ maxRetries: 0, timeoutInMs: 2000 });
    await refused(client.acceptNextSession(w.topic, main), /ServiceTimeout/);
    await client.close();
  },
  "a session keeps its state": async (w) => {
    let s = await w.accept("s");
    assert.equal(await s.getSessionState(), null);
    await s.setSessionState("half way");
    await s.close();
    s = await w.accept("s");
    assert.equal(await s.getSessionState(), "half way");
  },
  "a renewed session stays locked": async (w) => {
    await w.send("s/1");
    const s = await w.accept("s");
    const m = await receive(s);
    const first = s.sessionLockedUntilUtc;
    let until = first;
    while (Date.now() < first.getTime() + 250) {
      until = await s.renewSessionLock();
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    assert.ok(until > first);
    await s.completeMessage(m);
  },
  "an expired session lock is lost": async (w) => {
    await w.send("s/1");
    const s = await w.accept("s", { maxAutoLockRenewalDurationInMs: 0 });
    const m = await receive(s);
    const again = await w.next(); // waits until the lock has expired
    assert.equal(again.sessionId, "s");
    await refused(s.completeMessage(m), /SessionLockLost|MessageLockLost/);
    const repeated = await receive(again);
    assert.equal(repeated.deliveryCount, 1);
    await again.completeMessage(repeated);
  },
  "a closed session gives its messages back": async (w) => {
    await w.send("s/1", "s/2");
    let s = await w.accept("s");
    await s.receiveMessages(2, { maxWaitTimeInMs: 1000 });
    await s.close();
    s = await w.accept("s");
    const m = await receive(s);
    assert.equal(m.messageId, "s/1");
    assert.equal(m.deliveryCount, 0);
  },
  "what the client releases is not counted": async (w) => {
    const s = await w.accept("s");
    assert.deepEqual(await s.receiveMessages(5, { maxWaitTimeInMs: 200 }), []);
    await w.send("s/1", "s/2", "s/3");
    for (const id of ["s/1", "s/2", "s/3"]) {
      const m = await receive(s);
      assert.equal(m.messageId, id);
      assert.equal(m.deliveryCount, 0);
      await s.completeMessage(m);
    }
  },
  "peeking locks nothing": async (w) => {
    await w.send("s/1", "s/2", "s/3");
    const s = await w.accept("s");
    assert.deepEqual(await peeked(s), ["s/1", "s/2", "s/3"]);
    const m = await receive(s);
    assert.equal(m.messageId, "s/1");
    assert.equal(m.deliveryCount, 0);
    const rest = await s.peekMessages(10, { fromSequenceNumber: m.sequenceNumber.add(1) });
    assert.equal(rest.length, 2);
  },
  "sessions are listed": null, // the client has no such call
  "an unknown entity is not found": async (w) => {
    await refused(w.client.createSender("no-such-topic").sendMessages(message("s/1")), /MessagingEntityNotFound/);
    // The client says of a named session that it cannot be locked, whatever the reason was.
    await refused(w.client.acceptSession(w.topic, "no-such-subscription", "s"), /MessagingEntityNotFound|SessionCannotBeLocked/);
  },
  "a receiver needs a session": async (w) => {
    await refused(w.client.createReceiver(w.topic, main).receiveMessages(1), /requires sessions/);
  },
};

async function play(name, scenario) {
  if (!scenario) return { name, skipped: "the client has no such call" };
  const w = new World(name);
  try {
    await scenario(w);
    return { name };
  } catch (e) {
    return { name, error: e.stack ?? String(e) };
  } finally {
    await w.client.close();
  }
}

await Promise.all(
  Object.entries(scenarios).map(async ([name, scenario]) => {
    console.log(JSON.stringify(await play(name, scenario)));
  }),
);
