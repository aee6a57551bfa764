// The steps of `test_generated_clients`, with openapi-fetch and the types of openapi-typescript: PROGRAM BASE_URL KEY.
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Freeze = components["schemas"]["Freeze"];

const [baseUrl, key] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

/** Returns the data of a response; throws an error's body. */
function data<T>(response: { data?: T; error?: unknown }): T {
  if (response.data === undefined) throw new Error(JSON.stringify(response.error));
  return response.data;
}

/** Returns when the freeze is as it should be; the test limits the time. */
async function wait(freezeId: string, done: (freeze: Freeze) => boolean): Promise<void> {
  const get = () => client.GET("/v1/freezes/{freezeId}", { params: { path: { freezeId } } });
  while (!done(data(await get()))) await pause(50);
}

const repoId = "acme/web"; // the client escapes the slash
const repository = data(await client.GET("/v1/repos/{repoId}", { params: { path: { repoId } } }));
if (repository.fullName !== repoId) throw new Error(JSON.stringify(repository));

const scope = { type: "branch", repository: repoId, branch: "main" } as const;
const reason = "Frozen by a TypeScript program";
const body = { scope, reason, exceptionsAllowed: true, impactAcknowledged: false };
const { id } = data(await client.POST("/v1/freezes", { body }));
await wait(id, (freeze) => freeze.enforcedAt !== null);
console.log(`frozen ${id}`);

await once(process.stdin, "data");
const lift = () => client.POST("/v1/freezes/{freezeId}/lift", { params: { path: { freezeId: id } } });
data(await lift());
await wait(id, (freeze) => freeze.releasedAt !== null);
console.log(`lifted ${id}`);

const { error } = await lift();
console.log(`refused ${error?.error.code}`);

const listed: string[] = [];
let cursor: string | undefined;
do {
  const page = data(await client.GET("/v1/repos", { params: { query: { limit: 5, cursor } } }));
  listed.push(...page.data.map((found) => found.id));
  cursor = page.nextCursor ?? undefined;
} while (cursor !== undefined);
console.log(`listed ${new Set(listed).size}`);
process.exit(0);
