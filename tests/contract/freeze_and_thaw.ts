// Freezes acme/web's main branch and thaws it again, through openapi-fetch and the types made from the contract.
// node freeze_and_thaw.js BASE_URL KEY prints "frozen <freeze id>" when every head is blocked, waits for a line on its
// standard input, lifts the freeze, and prints "thawed <freeze id>" when every head is released.
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Freeze = components["schemas"]["Freeze"];

const [baseUrl, key] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

/** Returns the data of an answer; throws what the service said of a refusal. */
function data<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

/** Waits until a freeze is as it should be; whoever started this sets the limit. */
async function until(freezeId: string, done: (freeze: Freeze) => boolean): Promise<void> {
  const get = () => client.GET("/v1/freezes/{freezeId}", { params: { path: { freezeId } } });
  while (!done(data(await get()))) await pause(50);
}

const repoId = "acme/web"; // its slash is escaped on the way
const repository = data(await client.GET("/v1/repos/{repoId}", { params: { path: { repoId } } }));
if (repository.fullName !== repoId) throw new Error(`Asked for ${repoId}, got ${repository.fullName}`);

const scope = { type: "branch", repository: repoId, branch: "main" } as const;
const reason = "Frozen by a TypeScript program";
const { id } = data(await client.POST("/v1/freezes", { body: { scope, reason } }));
await until(id, (freeze) => freeze.enforcedAt !== null);
console.log(`frozen ${id}`);

await once(process.stdin, "data");
data(await client.POST("/v1/freezes/{freezeId}/lift", { params: { path: { freezeId: id } } }));
await until(id, (freeze) => freeze.releasedAt !== null);
console.log(`thawed ${id}`);
process.exit(0);
