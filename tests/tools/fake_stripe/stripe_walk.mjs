// Walks through the simulated Stripe with Stripe's own library for Node, which knows nothing of it: sells a plan, pays on
// the hosted page, cancels in the portal, and verifies a signature.
// node stripe_walk.mjs BASE_URL SECRET_KEY WEBHOOK_SECRET, with a signed webhook as JSON on the standard input.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import Stripe from "stripe";

const [baseUrl, key, secret] = process.argv.slice(2);
const { hostname: host, port } = new URL(baseUrl);
const stripe = new Stripe(key, { host, port, protocol: "http", maxNetworkRetries: 0, telemetry: false });

const customer = await stripe.customers.create({ name: "Acme", metadata: { organization: "org_1" } });
const price = await stripe.prices.create({
  currency: "eur",
  unit_amount: 4900,
  lookup_key: "team_month",
  recurring: { interval: "month" },
  product_data: { name: "Team" },
});
const found = await stripe.prices.list({ lookup_keys: ["team_month"], expand: ["data.product"] });
assert.deepEqual([found.data.length, found.data[0].product.name], [1, "Team"]);

const params = {
  mode: "subscription",
  customer: customer.id,
  line_items: [{ price: price.id, quantity: 1 }],
  success_url: "http://127.0.0.1:9/?{CHECKOUT_SESSION_ID}",
};
const session = await stripe.checkout.sessions.create(params, { idempotencyKey: "checkout:1" });
const same = await stripe.checkout.sessions.create(params, { idempotencyKey: "checkout:1" });
assert.equal(same.id, session.id);
await assert.rejects(
  stripe.checkout.sessions.create({ ...params, client_reference_id: "x" }, { idempotencyKey: "checkout:1" }),
  { type: "StripeIdempotencyError", statusCode: 400 },
);
const body = new URLSearchParams({ card: "4242424242424242" });
const paid = await fetch(session.url, { method: "POST", body, redirect: "manual" });
assert.equal(paid.headers.get("Location"), `http://127.0.0.1:9/?${session.id}`);

const listed = await stripe.subscriptions.list({ customer: customer.id, status: "all", expand: ["data.latest_invoice"] });
assert.deepEqual([listed.data[0].status, listed.data[0].latest_invoice.status], ["active", "paid"]);

const features = { subscription_cancel: { enabled: true, mode: "at_period_end" } };
await stripe.billingPortal.configurations.create({ features });
const portal = await stripe.billingPortal.sessions.create({ customer: customer.id });
const cancel = new URLSearchParams({ action: "cancel", subscription: listed.data[0].id });
await fetch(portal.url, { method: "POST", body: cancel, redirect: "manual" });
const cancelled = await stripe.subscriptions.retrieve(listed.data[0].id);
assert.equal(cancelled.cancel_at, cancelled.items.data[0].current_period_end);

for (let number = 0; number < 12; number += 1) await stripe.customers.create({ name: `${number}` });
const names = [];
for await (const each of stripe.customers.list({ limit: 5 })) names.push(each.name);
assert.equal(names.length, 13);
await assert.rejects(stripe.customers.retrieve("cus_x"), { type: "StripeInvalidRequestError", statusCode: 404 });
assert.equal((await stripe.customers.del(customer.id)).deleted, true);
assert.equal((await stripe.subscriptions.retrieve(listed.data[0].id)).status, "canceled");

const { signature, payload } = JSON.parse(readFileSync(0, "utf8"));
const event = stripe.webhooks.constructEvent(payload, signature, secret, Number.MAX_SAFE_INTEGER);
assert.equal(event.type, "product.created");
