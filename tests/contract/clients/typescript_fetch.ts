// The steps of `test_generated_clients`, with the client of openapi-generator's typescript-fetch: PROGRAM BASE_URL KEY.
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { Configuration, FreezesApi, RepositoriesApi, ResponseError } from "./client";
import type { ErrorResponse, Freeze } from "./client";

const [basePath, accessToken] = process.argv.slice(2);
const configuration = new Configuration({ basePath, accessToken });
const freezes = new FreezesApi(configuration);
const repositories = new RepositoriesApi(configuration);

/** Returns when the freeze is as it should be; the test limits the time. */
async function wait(freezeId: string, done: (freeze: Freeze) => boolean): Promise<void> {
  while (!done(await freezes.getFreeze({ freezeId }))) await pause(50);
}

async function main(): Promise<void> {
  const repository = await repositories.getRepository({ repoId: "acme/web" });
  if (repository.fullName !== "acme/web") throw new Error(JSON.stringify(repository));

  const scope = { type: "branch", repository: "acme/web", branch: "main" } as const;
  const reason = "Frozen by a TypeScript program";
  const { id } = await freezes.createFreeze({ createFreezeRequest: { scope, reason } });
  await wait(id, (freeze) => freeze.enforcedAt !== null);
  console.log(`frozen ${id}`);

  await once(process.stdin, "data");
  await freezes.liftFreeze({ freezeId: id });
  await wait(id, (freeze) => freeze.releasedAt !== null);
  console.log(`lifted ${id}`);

  try {
    await freezes.liftFreeze({ freezeId: id });
  } catch (error) {
    if (!(error instanceof ResponseError)) throw error;
    const refusal: ErrorResponse = await error.response.json();
    console.log(`refused ${refusal.error.code}`);
  }

  const listed: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await repositories.listRepositories({ limit: 5, cursor });
    listed.push(...page.data.map((found) => found.id));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  console.log(`listed ${new Set(listed).size}`);
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
